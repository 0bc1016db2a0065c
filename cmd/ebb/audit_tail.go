package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

func (c auditCommands) auditTail() *cobra.Command {
	var flags entryFlags
	var follow bool
	var lines int
	cmd := &cobra.Command{
		Use: "tail", Short: "Print the newest audit entries, and with -f those to come", Args: cobra.NoArgs,
		Long: `Print the newest audit entries, one on each line, and with -f each entry as it is
written. With -f the command ends when it is interrupted, with exit code 0. With
-o json each line is one entry.`,
	}
	flags.add(cmd)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print new entries as they are written, until interrupted")
	cmd.Flags().IntVarP(&lines, "lines", "n", 10, "at most this many entries at first; 0 = all, with --since those since then")
	every := everyFlag(cmd)
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		if lines < 0 {
			return usage("--lines is negative", "write 0 or more")
		}
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		if err := flags.complete(cmd.Context(), c.cli, o); err != nil {
			return err
		}
		t := entryTail{auditCommands: c, audit: o.Audit, filter: flags.filter(), seen: map[string]int64{}}
		t.filter.Limit = lines
		if flags.since > 0 && !cmd.Flags().Changed("lines") {
			t.filter.Limit = 0
		}
		if !follow {
			return t.poll(cmd.Context())
		}
		return c.watch(cmd.Context(), *every, t.poll)
	})
	return c.output(c.remote(cmd))
}

// entryTail prints audit entries once each.
type entryTail struct {
	auditCommands
	audit  *client.AuditService
	filter client.EntryFilter
	seen   map[string]int64 // writer -> sequence number of its last printed entry
	begun  bool             // the first entries were printed
	start  time.Time        // time of the oldest of them
	newest time.Time        // time of the newest printed entry
}

func (t *entryTail) poll(ctx context.Context) error {
	f := t.filter
	f.Desc = !t.begun
	if t.begun {
		f.Limit, f.From = 0, t.newest.Add(-lateness) // entries of other replicas may arrive late
	}
	entries, err := readEntries(ctx, t.audit, f)
	if err != nil {
		return err
	}
	if !t.begun && len(entries) > 0 {
		t.start = entryTime(entries[0])
	}
	for _, e := range entries {
		if e.Seq <= t.seen[e.Writer] || t.begun && entryTime(e).Before(t.start) {
			continue
		}
		t.seen[e.Writer] = e.Seq
		if at := entryTime(e); at.After(t.newest) {
			t.newest = at
		}
		if err := t.print(e); err != nil {
			return err
		}
	}
	if t.begun = true; t.newest.IsZero() {
		t.newest = time.Now()
	}
	return nil
}

// entryTime returns the time of an entry, and the zero time if e.At is not in
// RFC 3339.
func entryTime(e wire.AuditEntry) time.Time {
	at, _ := time.Parse(time.RFC3339, e.At)
	return at
}

func (t *entryTail) print(e wire.AuditEntry) error {
	if t.format == out.JSON {
		return out.Lines(t.stdout, e)
	}
	return out.Row(t.stdout, t.format, out.Time(entryTime(e)), e.Kind, e.Actor, entrySubject(e), string(e.Data))
}
