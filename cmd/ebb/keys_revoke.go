package main

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"ebb/attest/jose"
	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/keys"
	"ebb/cmd/ebb/internal/out"
)

func (c *cli) keysRevoke() *cobra.Command {
	var since, reason string
	cmd := &cobra.Command{
		Use: "revoke KID", Short: "Give up a signing key that others may have", Args: cobra.ExactArgs(1),
		Long: `Give up a signing key that others may have. Run it on the machine of ebb serve, with
its configuration, while every ebb of that key directory is stopped.

It puts on the audit log (key.revoked) from when on signatures of the key do not count,
removes its private half and keeps the public one. A new key signs at once. Every token
that the old key signed is refused. The next checkpoint is by the new key and covers
every chain, so that the audit log stays provable.`,
	}
	cmd.Flags().StringVar(&since, "since", "", "since when others may have it (RFC 3339); default: since it was made")
	cmd.Flags().StringVar(&reason, "reason", "", "why; it goes on the audit log")
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) (err error) {
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
		f, err := revocation(n.dir, args[0], since, reason)
		if err != nil {
			return err
		}
		now := n.now()
		// On the audit log first: a key that is gone without a word would look lost.
		if err := broker.RevokeKey(cmd.Context(), n.journal, f, audit.Entry{At: now}); err != nil {
			return err
		}
		if err := n.dir.Revoke(now, f.KID); err != nil {
			return err
		}
		return out.List(c.stdout, c.format, keyColumns, keyLines(n.dir.Ring(), now))
	})
	return c.output(cmd)
}

// revocation is what goes on the audit log of a key that has its private half in the directory.
func revocation(dir *keys.Dir, kid, since, reason string) (audit.KeyFact, error) {
	none := audit.KeyFact{}
	inUse := dir.Ring().Keys(time.Now())
	at := slices.IndexFunc(inUse, func(k keys.Key) bool { return k.KID == kid })
	all, err := dir.Numbered()
	if err != nil {
		return none, err
	}
	which := slices.IndexFunc(all, func(k keys.Numbered) bool { return k.KID == kid })
	if at < 0 || which < 0 {
		return none, usage("there is no signing key "+kid+" in use", "`ebb keys list` shows them")
	}
	from := inUse[at].Created
	if since != "" {
		if from, err = time.Parse(time.RFC3339, since); err != nil {
			return none, usage("--since "+since+" is not a time", "write it as 2026-01-31T18:00:00Z")
		}
	}
	jwk, err := jose.MarshalPublicJWK(all[which].Key)
	return audit.KeyFact{KID: kid, Number: all[which].Number, JWK: jwk, Since: from.UTC(), Reason: reason}, err
}
