package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/user"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/durability"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// auditCommands holds the sub-commands of ebb audit.
type auditCommands struct{ *cli }

var entryColumns = []out.Column[wire.AuditEntry]{
	{Name: "at", Cell: func(e wire.AuditEntry) string { return e.At }, Form: out.When},
	{Name: "kind", Cell: func(e wire.AuditEntry) string { return e.Kind }},
	{Name: "actor", Cell: func(e wire.AuditEntry) string { return e.Actor }, Form: out.ID},
	{Name: "task", Cell: func(e wire.AuditEntry) string { return e.TaskID }, Form: out.ID, Show: out.Full},
	{Name: "lease", Cell: func(e wire.AuditEntry) string { return e.LeaseID }, Form: out.ID, Show: out.Full},
	{Name: "request", Cell: func(e wire.AuditEntry) string { return e.RequestID }, Form: out.ID, Show: out.Full},
	{Name: "about", Cell: entrySubject, Form: out.ID, Show: out.Brief},
	{Name: "data", Cell: func(e wire.AuditEntry) string { return string(e.Data) }},
}

// entrySubject is the most specific id of an entry.
func entrySubject(e wire.AuditEntry) string { return cmp.Or(e.LeaseID, e.RequestID, e.TaskID) }

func newAudit(c *cli) *cobra.Command {
	return c.group("audit", "List, export and verify the audit log", auditCommands{c}.auditList(), auditCommands{c}.auditTail(), auditCommands{c}.auditExport(), auditCommands{c}.auditVerify(), auditCommands{c}.auditAcceptLoss())
}

// entryFlags are the flags that select audit entries.
type entryFlags struct {
	f client.EntryFilter
	period
}

// period are the flags that select a time.
type period struct {
	since    time.Duration
	from, to moment
}

func (p *period) add(cmd *cobra.Command, of string) {
	cmd.Flags().DurationVar(&p.since, "since", 0, of+"from this long ago until now")
	cmd.Flags().Var(&p.from, "from", of+"at or after this time: 2026-01-31T14:05:00Z, or a day, which begins at midnight in the zone of this machine")
	cmd.Flags().Var(&p.to, "to", of+"before this time or day")
	cmd.MarkFlagsMutuallyExclusive("since", "from")
}

// start returns the beginning of the period; zero = none.
func (p *period) start() time.Time {
	if p.since > 0 {
		return time.Now().Add(-p.since)
	}
	return p.from.Time
}

// moment is a flag for a time.
type moment struct{ time.Time }

// Set implements pflag.Value.
func (m *moment) Set(text string) (err error) {
	if m.Time, err = time.ParseInLocation(time.DateOnly, text, time.Local); err == nil {
		return nil
	}
	if m.Time, err = time.Parse(time.RFC3339, text); err != nil {
		return errors.New("write a day such as 2026-01-31, or a time such as 2026-01-31T14:05:00Z")
	}
	return nil
}

// Type implements pflag.Value.
func (m *moment) Type() string { return "time" }

// String implements pflag.Value.
func (m *moment) String() string {
	if m.IsZero() {
		return ""
	}
	return m.Format(time.RFC3339)
}

func (e *entryFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&e.f.TaskID, "task", "", "about this task")
	cmd.Flags().StringVar(&e.f.LeaseID, "lease", "", "about this credential")
	cmd.Flags().StringVar(&e.f.RequestID, "request", "", "about this request")
	cmd.Flags().StringVar(&e.f.Kind, "kind", "", "of this kind, or of a prefix that ends in a dot: lease.")
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(audit.Kinds(), cobra.ShellCompDirectiveNoFileComp)) // fails only for an unknown flag
	cmd.Flags().StringVar(&e.f.Actor, "actor", "", "caused by this principal or sandbox")
	e.period.add(cmd, "")
}

// complete completes prefixes of ids.
func (e *entryFlags) complete(ctx context.Context, c *cli, o *client.Operator) error {
	return c.about(ctx, o, &e.f.TaskID, &e.f.LeaseID, &e.f.RequestID)
}

func (e *entryFlags) filter() client.EntryFilter {
	f := e.f
	f.From, f.To = e.start(), e.to.Time
	return f
}

// readEntries returns the entries of a filter, oldest first.
func readEntries(ctx context.Context, a *client.AuditService, f client.EntryFilter) ([]wire.AuditEntry, error) {
	var all []wire.AuditEntry
	for e, err := range a.Entries(ctx, f) {
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	if f.Desc {
		slices.Reverse(all)
	}
	return all, nil
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
		if err := flags.complete(cmd.Context(), c.cli, o); err != nil {
			return err
		}
		f := flags.filter()
		f.Limit, f.Desc = *limit, true
		items, err := readEntries(cmd.Context(), o.Audit, f)
		if err != nil {
			return err
		}
		return listOf(cmd.Context(), c.cli, o, f.TaskID, entryColumns, items)
	})
	return c.output(c.remote(cmd))
}

var missingColumns = []out.Column[durability.MissingEntry]{
	{Name: "kept_in", Cell: func(m durability.MissingEntry) string { return m.Kept }},
	{Name: "made_at", Cell: func(m durability.MissingEntry) string { return out.Time(m.MadeAt) }, Form: out.When},
	{Name: "chain", Cell: func(m durability.MissingEntry) string { return cmp.Or(m.Writer, m.MadeBy) }},
	{Name: "names_seq", Cell: func(m durability.MissingEntry) string { return strconv.FormatInt(m.Seq, 10) }},
	{Name: "database_has", Cell: func(m durability.MissingEntry) string { return strconv.FormatInt(m.Has, 10) }},
	{Name: "why", Cell: func(m durability.MissingEntry) string { return m.Why }, Form: out.Prose},
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
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		return whileStopped(cmd.Context(), c.cli, func(n *node, cfg config.Config) error {
			liveStore, err := n.openLiveStore(cmd.Context(), cfg, prometheus.NewRegistry())
			if err != nil {
				return err
			}
			return c.acceptLoss(cmd.Context(), n, markStores(n.dir, cfg.Signing.KeysDir, liveStore), yes, reason)
		})
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
