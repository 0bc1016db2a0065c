package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/cmd/ebb/internal/out"
)

var entryColumns = []out.Column[audit.Entry]{
	{Name: "at", Cell: func(e audit.Entry) string { return e.At.UTC().Format("2006-01-02T15:04:05.000Z") }},
	{Name: "kind", Cell: func(e audit.Entry) string { return e.Kind }},
	{Name: "actor", Cell: func(e audit.Entry) string { return e.Actor }},
	{Name: "task", Cell: func(e audit.Entry) string { return e.TaskID }},
	{Name: "lease", Cell: func(e audit.Entry) string { return e.LeaseID }},
	{Name: "request", Cell: func(e audit.Entry) string { return e.RequestID }},
	{Name: "data", Cell: func(e audit.Entry) string { return string(e.Data) }},
}

func newAudit(c *cli) *cobra.Command {
	return c.group("audit", "Read, export and prove the record", c.auditList(), c.auditTail(), c.auditExport(), c.auditVerify(), c.auditAcceptLoss())
}

// entryFlags select entries.
type entryFlags struct {
	f     broker.EntryFilter
	since time.Duration
}

func (e *entryFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&e.f.TaskID, "task", "", "about this task")
	cmd.Flags().StringVar(&e.f.LeaseID, "lease", "", "about this credential")
	cmd.Flags().StringVar(&e.f.RequestID, "request", "", "about this request")
	cmd.Flags().StringVar(&e.f.Kind, "kind", "", "of this kind, or of a prefix that ends in a dot: lease.")
	cmd.Flags().StringVar(&e.f.Actor, "actor", "", "caused by this principal or sandbox")
	cmd.Flags().DurationVar(&e.since, "since", 0, "of this time until now")
}

func (e *entryFlags) filter() broker.EntryFilter {
	f := e.f
	if e.since > 0 {
		f.From = time.Now().Add(-e.since)
	}
	return f
}

func (c *cli) auditList() *cobra.Command {
	var flags entryFlags
	cmd := &cobra.Command{Use: "list", Short: "List audit entries, oldest first", Args: cobra.NoArgs}
	flags.add(cmd)
	limit := cmd.Flags().Int("limit", 1000, "how many of the newest at most; 0 = all")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		f := flags.filter()
		f.Limit, f.Desc = *limit, true
		var items []audit.Entry
		for e, err := range o.Audit(cmd.Context(), f) {
			if err != nil {
				return err
			}
			items = append(items, e)
		}
		for i, j := 0, len(items)-1; i < j; i, j = i+1, j-1 {
			items[i], items[j] = items[j], items[i]
		}
		return out.List(c.stdout, c.format, entryColumns, items)
	})
	return c.output(c.remote(cmd))
}

func (c *cli) auditTail() *cobra.Command {
	var flags entryFlags
	every := time.Second
	cmd := &cobra.Command{Use: "tail", Short: "Print audit entries as they come, until interrupted", Args: cobra.NoArgs}
	flags.add(cmd)
	cmd.Flags().DurationVar(&every, "every", every, "how often to look")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		ctx := cmd.Context()
		seen := map[string]int64{} // writer -> last printed
		from := time.Now().Add(-max(flags.since, time.Second))
		for {
			f := flags.filter()
			f.From = from.Add(-5 * time.Second) // entries of other replicas may arrive late
			for e, err := range o.Audit(ctx, f) {
				if ctx.Err() != nil {
					return nil
				}
				if err != nil {
					return err
				}
				if e.Seq <= seen[e.Writer] {
					continue
				}
				seen[e.Writer] = e.Seq
				if e.At.After(from) {
					from = e.At
				}
				if err := c.tailLine(e); err != nil {
					return err
				}
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(every):
			}
		}
	})
	return c.output(c.remote(cmd))
}

// tailLine prints one entry without knowing the next ones: no aligned columns.
func (c *cli) tailLine(e audit.Entry) error {
	if c.format == out.JSON {
		return out.Lines(c.stdout, e)
	}
	subject := e.LeaseID
	if subject == "" {
		subject = e.RequestID
	}
	if subject == "" {
		subject = e.TaskID
	}
	_, err := fmt.Fprintf(c.stdout, "%s  %-24s %s  %s  %s\n", out.Time(e.At), out.Line(e.Kind), out.Line(e.Actor), out.Line(subject), out.Line(string(e.Data)))
	return err
}

func (c *cli) auditExport() *cobra.Command {
	var flags entryFlags
	var to string
	var kept bool
	cmd := &cobra.Command{Use: "export", Short: "Write the record with its checkpoints, for `ebb audit verify`", Args: cobra.NoArgs}
	flags.add(cmd)
	cmd.Flags().StringVarP(&to, "file", "f", "", "new `file` to write; default: standard output")
	cmd.Flags().BoolVar(&kept, "kept", false, "with what approvers saw and what their passkeys signed; it holds agents' words")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) (err error) {
		if to == "" && terminal(c.stdout) {
			return usage("an export is bytes to be proved, not text to be read", "name a file with -f, or read it with `ebb audit list`")
		}
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		export := o.Export
		if kept {
			export = o.ExportKept
		}
		if to == "" {
			return export(cmd.Context(), flags.filter(), c.stdout)
		}
		// Complete or not there: a broken export must not be taken for the record.
		tmp, err := os.CreateTemp(filepath.Dir(to), ".ebb-export-*")
		if err != nil {
			return fail("the export cannot be written: "+err.Error(), "choose another --file")
		}
		defer os.Remove(tmp.Name())
		if err := export(cmd.Context(), flags.filter(), tmp); err != nil {
			_ = tmp.Close()
			return err
		}
		if err := tmp.Close(); err != nil {
			return fail("the export cannot be written: "+err.Error(), "choose another --file")
		}
		if err := os.Link(tmp.Name(), to); err != nil {
			return fail("the export cannot be put in place: "+err.Error(), "choose a --file that does not exist")
		}
		return nil
	})
	return c.remote(cmd)
}
