package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/durability"
	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/cmd/internal/command"
	"github.com/ebb-broker/ebb/cmd/internal/config"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
)

// keyCommands holds the sub-commands of ebb keys.
type keyCommands struct{ *cli }

// keyLine is one signing key of the server.
type keyLine struct {
	KID        string    `json:"kid"`
	Alg        jose.Alg  `json:"alg"`
	State      string    `json:"state"` // next, signs, retired
	Created    time.Time `json:"created_at"`
	ActiveFrom time.Time `json:"active_from"`
	RetireAt   time.Time `json:"retire_at"`
}

var keyColumns = []out.Column[keyLine]{
	{Name: "kid", Cell: func(k keyLine) string { return k.KID }},
	{Name: "alg", Cell: func(k keyLine) string { return string(k.Alg) }},
	{Name: "state", Cell: func(k keyLine) string { return k.State }},
	{Name: "created_at", Cell: func(k keyLine) string { return out.Time(k.Created) }, Form: out.When},
	{Name: "active_from", Cell: func(k keyLine) string { return out.Time(k.ActiveFrom) }, Form: out.When},
	{Name: "retire_at", Cell: func(k keyLine) string { return out.Time(k.RetireAt) }, Form: out.When},
}

func newKeys(c *cli) *cobra.Command {
	return c.group("keys", "Manage signing keys of the server; create keys for clients", keyCommands{c}.keysList(), keyCommands{c}.keysRotate(), keyCommands{c}.keysRevoke(), keyCommands{c}.keysNew())
}

// openKeys opens the server's key directory. It does not create one.
func (c keyCommands) openKeys() (*keys.Dir, error) {
	cfg, err := c.loadConfig()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(cfg.Signing.KeysDir); errors.Is(err, fs.ErrNotExist) {
		return nil, usage("there are no signing keys in "+cfg.Signing.KeysDir, "start `ebb serve` once, or name its configuration with --config")
	}
	return keys.Open(keysConfig(cfg))
}

func keysConfig(cfg config.Config) keys.Config {
	return keys.Config{Dir: cfg.Signing.KeysDir, Policy: keys.Policy{
		Alg: jose.Alg(cfg.Signing.Alg), RotateEvery: cfg.Signing.RotateEvery, Lead: cfg.Signing.Lead, Grace: cfg.Signing.Overlap,
	}}
}

func (c keyCommands) keysList() *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List the signing keys of the server on this machine", Args: cobra.NoArgs}
	cmd.RunE = c.do(func(*cobra.Command, []string) error {
		dir, err := c.openKeys()
		if err != nil {
			return err
		}
		return out.List(c.stdout, c.format, keyColumns, keyLines(dir.Ring(), time.Now()))
	})
	return c.output(cmd)
}

func keyLines(ring *keys.Ring, now time.Time) []keyLine {
	_, signing, _, err := ring.Signer(now)
	var lines []keyLine
	for _, k := range ring.Keys(now) {
		state := "retired"
		switch {
		case err == nil && k.KID == signing:
			state = "signs"
		case k.ActiveFrom.After(now):
			state = "next"
		}
		lines = append(lines, keyLine{k.KID, k.Alg, state, k.Created, k.ActiveFrom, k.RetireAt})
	}
	return lines
}

func (c keyCommands) keysRotate() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rotate", Short: "Create the next signing key now", Args: cobra.NoArgs,
		Long: "Create the next signing key now. It signs after signing.lead, so that verifiers can\nfetch it first. A running ebb uses it within one minute, without a restart.",
	}
	cmd.RunE = c.do(func(*cobra.Command, []string) error {
		dir, err := c.openKeys()
		if err != nil {
			return err
		}
		now := time.Now()
		if _, err := dir.Rotate(now); err != nil {
			return err
		}
		return out.List(c.stdout, c.format, keyColumns, keyLines(dir.Ring(), now))
	})
	return c.output(cmd)
}

func (c keyCommands) keysNew() *cobra.Command {
	alg, id := string(jose.ES256), ""
	cmd := &cobra.Command{
		Use: "new FILE", Short: "Create a client's private key and print its public JWK for `principals[].keys`", Args: cobra.ExactArgs(1),
	}
	cmd.Flags().Var(command.NewChoice(&alg, string(jose.ES256), string(jose.EdDSA)), "alg", "algorithm of the key")
	cmd.Flags().StringVar(&id, "client-id", "", "principal of the key; stored in the file")
	cmd.RunE = c.do(func(_ *cobra.Command, args []string) error {
		key, err := client.NewKey(jose.Alg(alg))
		if err != nil {
			return usage(err.Error(), "--alg ES256 or --alg EdDSA")
		}
		jwk, err := keyfile.PublicJWK(key)
		if err != nil {
			return err
		}
		err = keyfile.Write(args[0], keyfile.File{ClientID: id, Key: key})
		if errors.Is(err, fs.ErrExist) {
			return usage(args[0]+" already exists", "choose another name")
		}
		if err != nil {
			return fail(err.Error(), "choose a directory that this user can write to")
		}
		c.printf("%s\n", jwk)
		return nil
	})
	return cmd
}

// localPublicKeys returns the public keys of the server on this machine,
// including retired ones, so that the whole audit log can be verified.
func (c keyCommands) localPublicKeys() ([]jose.Key, error) {
	dir, err := c.openKeys()
	if err != nil {
		return nil, err
	}
	return dir.Public()
}

func (c keyCommands) keysRevoke() *cobra.Command {
	var since, reason string
	cmd := &cobra.Command{
		Use: "revoke KID", Short: "Revoke a signing key that may be compromised", Args: cobra.ExactArgs(1),
		Long: `Revoke a signing key that may be compromised. Run the command on the machine of ebb
serve, with its configuration, while every ebb of that key directory is stopped.

It writes to the audit log (key.revoked) from when on signatures of the key are not
accepted, deletes the private key and keeps the public one. A new key signs at once.
Every token that the old key signed is refused. The next checkpoints are signed by
the new key and cover every chain, so that the audit log can still be verified.`,
	}
	cmd.Flags().StringVar(&since, "since", "", "time since which the key may be compromised (RFC 3339); default: since it was created")
	cmd.Flags().StringVar(&reason, "reason", "", "why; written to the audit log")
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		return whileStopped(cmd.Context(), c.cli, func(n *node, _ config.Config) error {
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

// keyPath is the path of a local key.
func (c keyCommands) keyPath(name string) string { return filepath.Join(c.dataDir(), name) }
