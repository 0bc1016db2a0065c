package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/durability"
	"github.com/ebb-broker/ebb/broker/keys"
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

var missingColumns = []out.Column[durability.MissingEntry]{
	{Name: "kept_in", Cell: func(m durability.MissingEntry) string { return m.Kept }},
	{Name: "made_at", Cell: func(m durability.MissingEntry) string { return out.Time(m.MadeAt) }},
	{Name: "chain", Cell: func(m durability.MissingEntry) string { return cmp.Or(m.Writer, m.MadeBy) }},
	{Name: "names_seq", Cell: func(m durability.MissingEntry) string { return strconv.FormatInt(m.Seq, 10) }},
	{Name: "database_has", Cell: func(m durability.MissingEntry) string { return strconv.FormatInt(m.Has, 10) }},
	{Name: "why", Cell: func(m durability.MissingEntry) string { return m.Why }},
}

// lossNext is the next step that an error about missing entries names.
const lossNext = "restore the newer database; if it cannot be recovered, stop every ebb that uses it and run `ebb audit accept-loss`"

// markStores returns the stores of high-water marks by name: the key directory,
// and Redis if it is configured.
func markStores(dir *keys.Dir, keysDir string, liveStore broker.LiveStore) map[string]broker.MarkStore {
	stores := map[string]broker.MarkStore{keysDir: dir}
	if s, is := liveStore.(broker.MarkStore); is {
		stores["Redis"] = s
	}
	return stores
}

// knownKeys returns every public key of the directory, to verify high-water
// marks.
func knownKeys(dir *keys.Dir) (jose.KeySet, error) {
	all, err := dir.Public()
	if err != nil {
		return jose.KeySet{}, err
	}
	return jose.NewKeySet(all...)
}

func (c auditCommands) auditAcceptLoss() *cobra.Command {
	var yes bool
	var reason string
	cmd := &cobra.Command{
		Use: "accept-loss", Short: "Accept a database that lacks entries of the audit log", Args: cobra.NoArgs,
		Long: `Accept a database that lacks audit entries which had been durable: it was restored
from an older backup, lost the end of its write-ahead log, or is new.

Run the command on the machine of ebb serve, with its configuration, while every ebb
that uses the database is stopped. It lists the entries that the high-water marks name
and the database does not have. With --yes it writes them to the audit log
(loss.accepted). From then on every older task, credential and token is refused, and
every person has to sign in again.

Resource servers that verify tokens offline accept tokens of lost tasks until the
tokens expire, which is after limits.token_ttl at the latest.`,
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "accept the loss; without it the command changes nothing and lists what is missing")
	cmd.Flags().StringVar(&reason, "reason", "", "why; written to the audit log")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) (err error) {
		cfg, err := c.loadConfig()
		if err != nil {
			return err
		}
		log, flush := newLogger(c.stderr, cfg.Log.Level, cfg.Log.Format)
		defer flush()
		n := &node{log: log, now: time.Now}
		defer func() {
			if cerr := n.close(); err == nil {
				err = cerr
			}
		}()
		if err := n.openData(cfg); err != nil {
			return err
		}
		if n.store, err = n.openDatabase(cmd.Context(), cfg, prometheus.NewRegistry()); err != nil {
			return err
		}
		if err := n.openKeys(cmd.Context(), cfg); err != nil {
			return err
		}
		liveStore, err := n.openLiveStore(cmd.Context(), cfg, prometheus.NewRegistry())
		if err != nil {
			return err
		}
		return c.acceptLoss(cmd.Context(), n, markStores(n.dir, cfg.Signing.KeysDir, liveStore), yes, reason)
	})
	return c.output(cmd)
}

func (c auditCommands) acceptLoss(ctx context.Context, n *node, stores map[string]broker.MarkStore, yes bool, reason string) error {
	known, err := knownKeys(n.dir)
	if err != nil {
		return err
	}
	missing, _, err := durability.FindMissing(ctx, n.store, stores, known)
	if err != nil {
		return err
	}
	if err := out.List(c.stdout, c.format, missingColumns, missing); err != nil {
		return err
	}
	switch {
	case len(missing) == 0:
		fmt.Fprintln(c.stderr, "nothing is missing: the database has every entry that a high-water mark names")
		return nil
	case !yes:
		return usage("nothing was accepted", "restore the newer database; if it cannot be recovered, run the command again with --yes")
	}
	// The lost part of the database may have ended sessions, so all sessions end
	// before the loss is accepted: ebb serves nothing until the entry exists.
	sessions, err := n.store.EndAllSessions(ctx)
	if err != nil {
		return err
	}
	by := "unknown"
	if u, err := user.Current(); err == nil {
		by = u.Username
	}
	if err := durability.AcceptLoss(ctx, n.store, missing, by, reason, n.now()); err != nil {
		return err
	}
	for _, m := range missing {
		if err := stores[m.Kept].DropMark(ctx, m.MadeBy); err != nil {
			n.log.WarnContext(ctx, "a high-water mark could not be deleted", "kept", m.Kept, slog.Any("error", err))
		}
	}
	fmt.Fprintf(c.stderr, "accepted: every older task, credential and token is refused; %d console sessions ended\n", sessions)
	return nil
}
