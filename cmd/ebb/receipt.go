package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ebb/broker/receipt"
	"ebb/cmd/ebb/internal/out"
)

// maxReceipt is more than a receipt that names as many credentials as it may.
const maxReceipt = 1 << 20

var receiptColumns = []out.Column[receipt.Receipt]{
	{Name: "task", Cell: func(r receipt.Receipt) string { return r.Task }},
	{Name: "issuer", Cell: func(r receipt.Receipt) string { return r.Issuer }},
	{Name: "issued_at", Cell: func(r receipt.Receipt) string { return out.Time(time.Unix(r.IssuedAt, 0)) }},
	{Name: "closed_at", Cell: func(r receipt.Receipt) string { return out.Time(r.ClosedAt) }},
	{Name: "cause", Cell: func(r receipt.Receipt) string { return r.Cause }},
	{Name: "complete", Cell: func(r receipt.Receipt) string { return strconv.FormatBool(r.Complete) }},
	{Name: "live_at_end", Cell: func(r receipt.Receipt) string { return strconv.Itoa(r.Live) }},
	{Name: "third_party", Cell: func(r receipt.Receipt) string { return strconv.Itoa(r.Total) }},
}

var proofColumns = []out.Column[receipt.Credential]{
	{Name: "lease", Cell: func(p receipt.Credential) string { return p.Lease }},
	{Name: "state", Cell: func(p receipt.Credential) string { return p.State }},
	{Name: "proof", Cell: func(p receipt.Credential) string { return p.Proof }},
	{Name: "revocability", Cell: func(p receipt.Credential) string { return p.Class }},
	{Name: "provider", Cell: func(p receipt.Credential) string { return p.Provider }},
	{Name: "scope", Cell: func(p receipt.Credential) string { return p.Scope }},
	{Name: "revoked_at", Cell: func(p receipt.Credential) string { return out.Time(p.RevokedAt) }},
	{Name: "dead_at", Cell: func(p receipt.Credential) string { return out.Time(p.DeadAt) }},
	{Name: "attempts", Cell: func(p receipt.Credential) string { return strconv.Itoa(p.Attempts) }},
}

func newReceipt(c *cli) *cobra.Command {
	return c.group("receipt", "Prove how the credentials of a task ended at third parties", c.receiptShow(), c.receiptVerify())
}

func (c *cli) receiptShow() *cobra.Command {
	var raw bool
	cmd := &cobra.Command{Use: "show TASK", Short: "Show the receipt of a completed task, as far as all is known now", Args: cobra.ExactArgs(1)}
	cmd.Flags().BoolVar(&raw, "jws", false, "print the signed receipt alone, to keep and to verify")
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		r, jws, err := o.Receipt(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if raw {
			if strings.ContainsFunc(jws, func(r rune) bool { return r <= ' ' || r > '~' }) {
				return fail("the answer holds no receipt", "is --url that of an ebb?")
			}
			c.printf("%s\n", jws)
			return nil
		}
		return c.showReceipt(r)
	})
	return c.output(c.remote(cmd))
}

func (c *cli) showReceipt(r receipt.Receipt) error {
	if err := out.One(c.stdout, c.format, receiptColumns, r); err != nil || c.format != out.Table || len(r.Credentials) == 0 {
		return err
	}
	c.printf("\n")
	return out.List(c.stdout, c.format, proofColumns, r.Credentials)
}

func (c *cli) receiptVerify() *cobra.Command {
	var keyFiles []string
	var issuer string
	cmd := &cobra.Command{
		Use: "verify FILE", Short: "Prove a receipt offline", Args: cobra.ExactArgs(1),
		Long: `Prove a receipt, as "ebb task receipt show --jws" prints it ("-" = standard
input), with the public keys alone. Nothing is asked over the network. Keys are a
JWK set as at /.well-known/jwks.json, a JWK, or PEM; without --keys those of the
local data directory are used. A receipt that is genuine and not complete fails:
something was owed when it was made.`,
	}
	cmd.Flags().StringArrayVar(&keyFiles, "keys", nil, "`file` of public keys, repeatable")
	cmd.Flags().StringVar(&issuer, "issuer", "", "public URL of the ebb that must have signed it")
	cmd.RunE = c.do(func(_ *cobra.Command, args []string) error {
		keys, err := c.verifyKeys(keyFiles)
		if err != nil {
			return err
		}
		text, err := c.input(args[0], maxReceipt)
		if err != nil {
			return err
		}
		r, err := receipt.Verify(text, keys, issuer, time.Now())
		if err != nil {
			return fail("NOT PROVED: "+err.Error(), "the receipt was altered or cut, or --keys are those of another ebb")
		}
		if err := c.showReceipt(r); err != nil {
			return err
		}
		if !r.Complete {
			return fail("NOT PROVED: when the receipt was made, not every credential was known to be dead", "get a newer one: ebb task receipt show "+out.Line(r.Task)+" --jws")
		}
		if c.format == out.Table {
			c.printf("PROVED    every credential at a third party is dead\n")
		}
		return nil
	})
	return c.output(cmd)
}
