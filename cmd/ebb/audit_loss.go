package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os/user"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"ebb/attest/jose"
	"ebb/broker"
	"ebb/broker/keys"
	"ebb/cmd/ebb/internal/out"
)

var missingColumns = []out.Column[broker.MissingEntry]{
	{Name: "kept_in", Cell: func(m broker.MissingEntry) string { return m.Kept }},
	{Name: "made_at", Cell: func(m broker.MissingEntry) string { return out.Time(m.MadeAt) }},
	{Name: "chain", Cell: func(m broker.MissingEntry) string { return cmp.Or(m.Writer, m.MadeBy) }},
	{Name: "names_seq", Cell: func(m broker.MissingEntry) string { return strconv.FormatInt(m.Seq, 10) }},
	{Name: "database_has", Cell: func(m broker.MissingEntry) string { return strconv.FormatInt(m.Has, 10) }},
	{Name: "why", Cell: func(m broker.MissingEntry) string { return m.Why }},
}

// lossNext says what to do about a database that lacks entries.
const lossNext = "restore the newer database; if it is lost for good, stop every ebb of it and run `ebb audit accept-loss`"

// markStores are the places of high-water marks: the key directory, and Redis when there is one.
func markStores(dir *keys.Dir, keysDir string, ledger broker.Ledger) map[string]broker.MarkStore {
	stores := map[string]broker.MarkStore{keysDir: dir}
	if s, is := ledger.(broker.MarkStore); is {
		stores["Redis"] = s
	}
	return stores
}

// knownKeys verify marks: every public key of this directory.
func knownKeys(dir *keys.Dir) (jose.KeySet, error) {
	all, err := dir.Public()
	if err != nil {
		return jose.KeySet{}, err
	}
	return jose.NewKeySet(all...)
}

func (c *cli) auditAcceptLoss() *cobra.Command {
	var yes bool
	var reason string
	cmd := &cobra.Command{
		Use: "accept-loss", Short: "Go on with a database that lacks entries of the audit log", Args: cobra.NoArgs,
		Long: `Go on with a database that lacks entries which were durable: one that was restored
from an older backup, lost the end of its write-ahead log, or is new.

Run it on the machine of ebb serve, with its configuration, while every ebb of that
database is stopped. It lists what the high-water marks name and the database does not
have. With --yes it puts that on the audit log (loss.accepted). From then on every
task, credential and token that is older is refused, and everybody signs in anew.

Resource servers that verify tokens offline accept those of lost tasks until they
expire, which is limits.token_ttl at the latest.`,
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "accept the loss; without it the command changes nothing and lists what is missing")
	cmd.Flags().StringVar(&reason, "reason", "", "why; it goes on the audit log")
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
		if n.journal, err = n.openJournal(cmd.Context(), cfg, prometheus.NewRegistry()); err != nil {
			return err
		}
		if err := n.openKeys(cmd.Context(), cfg); err != nil {
			return err
		}
		ledger, err := n.openLedger(cmd.Context(), cfg, prometheus.NewRegistry())
		if err != nil {
			return err
		}
		return c.acceptLoss(cmd.Context(), n, markStores(n.dir, cfg.Signing.KeysDir, ledger), yes, reason)
	})
	return c.output(cmd)
}

func (c *cli) acceptLoss(ctx context.Context, n *node, stores map[string]broker.MarkStore, yes bool, reason string) error {
	known, err := knownKeys(n.dir)
	if err != nil {
		return err
	}
	missing, _, err := broker.FindMissing(ctx, n.journal, stores, known)
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
		return usage("nothing was accepted", "restore the newer database; if it is lost for good, run it again with --yes")
	}
	// Sessions may have been ended in what is lost. They go first: without the entry nothing is served.
	sessions, err := n.journal.EndAllSessions(ctx)
	if err != nil {
		return err
	}
	by := "unknown"
	if u, err := user.Current(); err == nil {
		by = u.Username
	}
	if err := broker.AcceptLoss(ctx, n.journal, missing, by, reason, n.now()); err != nil {
		return err
	}
	for _, m := range missing {
		if err := stores[m.Kept].DropMark(ctx, m.MadeBy); err != nil {
			n.log.WarnContext(ctx, "a high-water mark stays", "kept", m.Kept, slog.Any("error", err))
		}
	}
	fmt.Fprintf(c.stderr, "accepted: every task, credential and token that is older is refused; %d sessions of the console ended\n", sessions)
	return nil
}
