package main

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/durability"
	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/cmd/internal/out"
)

func (c keyCommands) keysRevoke() *cobra.Command {
	var since, reason string
	cmd := &cobra.Command{
		Use: "revoke KID", Short: "Revoke a signing key that may be compromised", Args: cobra.ExactArgs(1),
		Long: `Revoke a signing key that may be compromised. Run the command on the machine of ebb
serve, with its configuration, while every ebb of that key directory is stopped.

It writes to the audit log (key.revoked) from when on signatures of the key are not
accepted, deletes the private key and keeps the public one. A new key signs at once.
Every token that the old key signed is refused. The next checkpoint is signed by the
new key and covers every chain, so that the audit log can still be verified.`,
	}
	cmd.Flags().StringVar(&since, "since", "", "time since which the key may be compromised (RFC 3339); default: since it was created")
	cmd.Flags().StringVar(&reason, "reason", "", "why; written to the audit log")
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
		if n.store, err = n.openDatabase(cmd.Context(), cfg, prometheus.NewRegistry()); err != nil {
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
		// The audit log comes first: a key that is deleted without an entry would
		// look lost.
		if err := durability.RevokeKey(cmd.Context(), n.store, f, audit.Entry{At: now}); err != nil {
			return err
		}
		if err := n.dir.Revoke(now, f.KID); err != nil {
			return err
		}
		return out.List(c.stdout, c.format, keyColumns, keyLines(n.dir.Ring(), now))
	})
	return c.output(cmd)
}

// revocation returns the audit fact of a key whose private key is in the
// directory.
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
		return none, usage("there is no signing key "+kid+" in use", "list the keys in use with `ebb keys list`")
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
