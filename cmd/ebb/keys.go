package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/keys"
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
	{Name: "created_at", Cell: func(k keyLine) string { return out.Time(k.Created) }},
	{Name: "active_from", Cell: func(k keyLine) string { return out.Time(k.ActiveFrom) }},
	{Name: "retire_at", Cell: func(k keyLine) string { return out.Time(k.RetireAt) }},
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
	var alg, id string
	cmd := &cobra.Command{
		Use: "new FILE", Short: "Create a client's private key and print its public JWK for `principals[].keys`", Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&alg, "alg", string(jose.ES256), "ES256 or EdDSA")
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

// keyPath is the path of a local key.
func (c keyCommands) keyPath(name string) string { return filepath.Join(c.dataDir(), name) }
