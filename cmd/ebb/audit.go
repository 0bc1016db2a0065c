package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// auditCommands holds the sub-commands of ebb audit.
type auditCommands struct{ *cli }

var entryColumns = []out.Column[wire.AuditEntry]{
	{Name: "at", Cell: func(e wire.AuditEntry) string { return e.At }},
	{Name: "kind", Cell: func(e wire.AuditEntry) string { return e.Kind }},
	{Name: "actor", Cell: func(e wire.AuditEntry) string { return e.Actor }},
	{Name: "task", Cell: func(e wire.AuditEntry) string { return e.TaskID }},
	{Name: "lease", Cell: func(e wire.AuditEntry) string { return e.LeaseID }},
	{Name: "request", Cell: func(e wire.AuditEntry) string { return e.RequestID }},
	{Name: "data", Cell: func(e wire.AuditEntry) string { return string(e.Data) }},
}

func newAudit(c *cli) *cobra.Command {
	return c.group("audit", "List, export and verify the audit log", auditCommands{c}.auditList(), auditCommands{c}.auditTail(), auditCommands{c}.auditExport(), auditCommands{c}.auditVerify(), auditCommands{c}.auditAcceptLoss())
}

// entryFlags are the flags that select audit entries.
type entryFlags struct {
	f     client.EntryFilter
	since time.Duration
}

func (e *entryFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&e.f.TaskID, "task", "", "about this task")
	cmd.Flags().StringVar(&e.f.LeaseID, "lease", "", "about this credential")
	cmd.Flags().StringVar(&e.f.RequestID, "request", "", "about this request")
	cmd.Flags().StringVar(&e.f.Kind, "kind", "", "of this kind, or of a prefix that ends in a dot: lease.")
	cmd.Flags().StringVar(&e.f.Actor, "actor", "", "caused by this principal or sandbox")
	cmd.Flags().DurationVar(&e.since, "since", 0, "from this long ago until now")
}

func (e *entryFlags) filter() client.EntryFilter {
	f := e.f
	if e.since > 0 {
		f.From = time.Now().Add(-e.since)
	}
	return f
}

func (c auditCommands) auditList() *cobra.Command {
	var flags entryFlags
	cmd := &cobra.Command{Use: "list", Short: "List audit entries, oldest first", Args: cobra.NoArgs}
	flags.add(cmd)
	limit := cmd.Flags().Int("limit", 1000, "at most this many, the newest; 0 = all")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		f := flags.filter()
		f.Limit, f.Desc = *limit, true
		var items []wire.AuditEntry
		for e, err := range o.Audit.Entries(cmd.Context(), f) {
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

func (c auditCommands) auditTail() *cobra.Command {
	var flags entryFlags
	every := time.Second
	cmd := &cobra.Command{Use: "tail", Short: "Print audit entries as they are written, until interrupted", Args: cobra.NoArgs}
	flags.add(cmd)
	cmd.Flags().DurationVar(&every, "every", every, "interval between two queries")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		ctx := cmd.Context()
		seen := map[string]int64{} // writer -> sequence number of its last printed entry
		from := time.Now().Add(-max(flags.since, time.Second))
		for {
			f := flags.filter()
			f.From = from.Add(-5 * time.Second) // entries of other replicas may arrive late
			for e, err := range o.Audit.Entries(ctx, f) {
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
				if at := entryTime(e); at.After(from) {
					from = at
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

// entryTime returns the time of an entry, and the zero time if e.At is not in
// RFC 3339.
func entryTime(e wire.AuditEntry) time.Time {
	at, _ := time.Parse(time.RFC3339, e.At)
	return at
}

// tailLine prints one entry. Columns are not aligned, because the later entries
// are not known yet.
func (c auditCommands) tailLine(e wire.AuditEntry) error {
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
	_, err := fmt.Fprintf(c.stdout, "%s  %-24s %s  %s  %s\n", out.Time(entryTime(e)), out.Line(e.Kind), out.Line(e.Actor), out.Line(subject), out.Line(string(e.Data)))
	return err
}

func (c auditCommands) auditExport() *cobra.Command {
	var flags entryFlags
	var to string
	var kept bool
	cmd := &cobra.Command{Use: "export", Short: "Write the audit log with its checkpoints, for `ebb audit verify`", Args: cobra.NoArgs}
	flags.add(cmd)
	cmd.Flags().StringVarP(&to, "file", "f", "", "new `file` to write; default: standard output")
	cmd.Flags().BoolVar(&kept, "kept", false, "include the pages that approvers saw and the data that their passkeys signed; these contain text written by agents")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) (err error) {
		if to == "" && terminal(c.stdout) {
			return usage("an export is not written to a terminal", "name a file with -f, or read it with `ebb audit list`")
		}
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		export := o.Audit.Export
		if kept {
			export = o.Audit.ExportWithEvidence
		}
		if to == "" {
			return export(cmd.Context(), flags.filter(), c.stdout)
		}
		// The file appears only when it is complete, so that a partial export
		// cannot be taken for the audit log.
		tmp, err := os.CreateTemp(filepath.Dir(to), ".ebb-export-*")
		if err != nil {
			return fail("write the export: "+err.Error(), "choose another --file")
		}
		defer os.Remove(tmp.Name())
		if err := export(cmd.Context(), flags.filter(), tmp); err != nil {
			_ = tmp.Close()
			return err
		}
		if err := tmp.Close(); err != nil {
			return fail("write the export: "+err.Error(), "choose another --file")
		}
		if err := os.Link(tmp.Name(), to); err != nil {
			return fail("create the export file: "+err.Error(), "choose a --file that does not exist")
		}
		return nil
	})
	return c.remote(cmd)
}
