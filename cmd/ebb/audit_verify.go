package main

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ebb/attest/jose"
	"ebb/broker/audit"
	"ebb/cmd/ebb/internal/config"
	"ebb/cmd/ebb/internal/out"
)

var reportColumns = []out.Column[audit.Report]{
	{Name: "entries", Cell: func(r audit.Report) string { return strconv.Itoa(r.Entries) }},
	{Name: "checkpoints", Cell: func(r audit.Report) string { return strconv.Itoa(r.Checkpoints) }},
	{Name: "writers", Cell: func(r audit.Report) string { return strconv.Itoa(len(r.Writers)) }},
	{Name: "unsealed", Cell: func(r audit.Report) string { return strconv.Itoa(r.Unsealed) }},
	{Name: "partial", Cell: func(r audit.Report) string { return strconv.FormatBool(r.Partial) }},
	{Name: "missing_writers", Cell: func(r audit.Report) string { return strings.Join(r.Missing, " ") }},
}

func (c *cli) auditVerify() *cobra.Command {
	var keyFiles []string
	var whole bool
	cmd := &cobra.Command{
		Use: "verify EXPORT", Short: "Prove an export offline: no line changed, dropped, added or moved", Args: cobra.ExactArgs(1),
		Long: `Prove an export ("-" = standard input) with the public keys alone. Nothing is
asked over the network. Keys are a JWK set as at /.well-known/jwks.json, a JWK,
or PEM; without --keys those of the local data directory are used.`,
	}
	cmd.Flags().StringArrayVar(&keyFiles, "keys", nil, "`file` of public keys, repeatable")
	cmd.Flags().BoolVar(&whole, "whole", false, "fail unless the export starts at the beginning of every chain and a checkpoint vouches for it")
	cmd.RunE = c.do(func(_ *cobra.Command, args []string) error {
		keys, err := c.verifyKeys(keyFiles)
		if err != nil {
			return err
		}
		var in io.Reader = c.stdin
		if args[0] != "-" {
			f, err := os.Open(args[0])
			if err != nil {
				return usage(err.Error(), "name the file that `ebb audit export` wrote")
			}
			defer f.Close()
			in = f
		}
		report, err := audit.Verify(in, keys)
		if fault, ok := errors.AsType[*audit.Fault](err); ok {
			return fail("NOT PROVED: "+fault.Error(), "the record was altered, the export is damaged, or --keys are those of another ebb")
		}
		if err != nil {
			return err
		}
		if err := out.One(c.stdout, c.format, reportColumns, report); err != nil {
			return err
		}
		if whole && !report.Whole() {
			return fail("NOT PROVED: the export is not whole", "export again without filters, after a checkpoint (limits.checkpoint) was made")
		}
		// Links alone prove nothing: whoever can write to the store can link anew.
		if report.Checkpoints == 0 {
			return fail("NOT PROVED: no signed checkpoint is in the export", "export again without filters, after a checkpoint (limits.checkpoint) was made")
		}
		switch {
		case c.format != out.Table:
		case report.Unsealed > 0:
			c.printf("PROVED    up to the last checkpoint; the %d entries after it are linked and not signed yet\n", report.Unsealed)
		default:
			c.printf("PROVED    nothing in it was changed, dropped or moved\n")
		}
		return nil
	})
	return c.output(cmd)
}

// verifyKeys reads public keys from files, or the local ones, forgotten ones included.
func (c *cli) verifyKeys(files []string) (jose.KeySet, error) {
	if len(files) == 0 {
		all, err := c.localPublicKeys()
		if err != nil {
			return jose.KeySet{}, err
		}
		return jose.NewKeySet(all...)
	}
	var all []jose.Key
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return jose.KeySet{}, usage(err.Error(), "name a readable file of public keys")
		}
		if set, err := jose.ParseJWKS(text); err == nil {
			all = append(all, set.Keys()...)
			continue
		}
		key, err := config.PublicKey(text)
		if err != nil {
			return jose.KeySet{}, usage(file+": "+err.Error(), "save /.well-known/jwks.json of that ebb, or a public JWK or PEM")
		}
		all = append(all, key)
	}
	return jose.NewKeySet(all...)
}
