package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/broker/receipt"
	"github.com/ebb-broker/ebb/cmd/internal/out"
)

// maxReceipt is larger than a receipt with the maximum number of credentials.
const maxReceipt = 1 << 20

var receiptColumns = []out.Column[receipt.Receipt]{
	{Name: "task", Cell: func(r receipt.Receipt) string { return r.Task }, Form: out.ID},
	{Name: "issuer", Cell: func(r receipt.Receipt) string { return r.Issuer }},
	{Name: "issued_at", Cell: func(r receipt.Receipt) string { return out.Time(time.Unix(r.IssuedAt, 0)) }, Form: out.When},
	{Name: "closed_at", Cell: func(r receipt.Receipt) string { return out.Time(r.ClosedAt) }, Form: out.When},
	{Name: "cause", Cell: func(r receipt.Receipt) string { return r.Cause }},
	{Name: "complete", Cell: func(r receipt.Receipt) string { return strconv.FormatBool(r.Complete) }},
	{Name: "live_at_end", Cell: func(r receipt.Receipt) string { return strconv.Itoa(r.Live) }},
	{Name: "third_party", Cell: func(r receipt.Receipt) string { return strconv.Itoa(r.Total) }},
}

var proofColumns = []out.Column[receipt.Credential]{
	{Name: "lease", Cell: func(p receipt.Credential) string { return p.Lease }, Form: out.ID},
	{Name: "state", Cell: func(p receipt.Credential) string { return p.State }},
	{Name: "proof", Cell: func(p receipt.Credential) string { return p.Proof }},
	{Name: "revocability", Cell: func(p receipt.Credential) string { return p.Class }},
	{Name: "provider", Cell: func(p receipt.Credential) string { return p.Provider }},
	{Name: "scope", Cell: func(p receipt.Credential) string { return p.Scope }, Form: out.Scope},
	{Name: "revoked_at", Cell: func(p receipt.Credential) string { return out.Time(p.RevokedAt) }, Form: out.When},
	{Name: "dead_at", Cell: func(p receipt.Credential) string { return out.Time(p.DeadAt) }, Form: out.When},
	{Name: "attempts", Cell: func(p receipt.Credential) string { return strconv.Itoa(p.Attempts) }},
}

func newReceipt(c *cli) *cobra.Command {
	return c.group("receipt", "Show and verify how a task's credentials ended at third parties", taskCommands{c}.receiptShow(), taskCommands{c}.receiptVerify())
}

func (c taskCommands) receiptShow() *cobra.Command {
	var raw bool
	cmd := &cobra.Command{Use: "show TASK", Short: "Show the receipt of a completed task, with the current state", Args: cobra.ExactArgs(1)}
	cmd.Flags().BoolVar(&raw, "jws", false, "print only the signed receipt, to store and verify")
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		id, err := c.taskIDs(o).read(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		r, jws, err := o.Tasks.Receipt(cmd.Context(), id)
		if err != nil {
			return err
		}
		if raw {
			if strings.ContainsFunc(jws, func(r rune) bool { return r <= ' ' || r > '~' }) {
				return fail("the response contains no receipt", "check that --url is that of an ebb")
			}
			c.printf("%s\n", jws)
			return nil
		}
		known, err := recode[receipt.Receipt](r)
		if err != nil {
			return err
		}
		return c.showReceipt(known)
	})
	return c.output(c.remote(cmd))
}

func (c taskCommands) showReceipt(r receipt.Receipt) error {
	if err := out.One(c.stdout, c.format, receiptColumns, r); err != nil || !c.format.IsTable() || len(r.Credentials) == 0 {
		return err
	}
	c.printf("\n")
	return out.List(c.stdout, c.format, proofColumns, r.Credentials)
}

func (c taskCommands) receiptVerify() *cobra.Command {
	var keyFiles []string
	var issuer string
	cmd := &cobra.Command{
		Use: "verify FILE", Short: "Verify a receipt offline", Args: cobra.ExactArgs(1),
		Long: `Verify a receipt, as printed by "ebb task receipt show --jws" ("-" = standard input),
with public keys only. The command does not use the network. Keys are a JWK set as at
/.well-known/jwks.json, a JWK, or PEM; without --keys those of the local data directory
are used. A genuine receipt that is not complete fails: revocations were still pending
when it was issued.`,
	}
	cmd.Flags().StringArrayVar(&keyFiles, "keys", nil, "`file` of public keys, repeatable")
	cmd.Flags().StringVar(&issuer, "issuer", "", "public URL of the ebb that must have signed it")
	cmd.RunE = c.do(func(_ *cobra.Command, args []string) error {
		keys, err := auditCommands(c).verifyKeys(keyFiles)
		if err != nil {
			return err
		}
		text, err := c.input(args[0], maxReceipt)
		if err != nil {
			return err
		}
		r, err := receipt.Verify(text, keys, issuer, time.Now())
		if err != nil {
			return fail("NOT PROVED: "+err.Error(), "the receipt was altered or truncated, or --keys belong to another ebb")
		}
		if err := c.showReceipt(r); err != nil {
			return err
		}
		if !r.Complete {
			return fail("NOT PROVED: revocations were pending when the receipt was issued", "get a newer one: ebb task receipt show "+out.Line(r.Task)+" --jws")
		}
		if c.format.IsTable() {
			c.printf("PROVED    every credential at a third party is revoked or expired\n")
		}
		return nil
	})
	return c.output(cmd)
}
