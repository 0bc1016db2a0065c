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

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/durability"
	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/cmd/internal/out"
)

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
