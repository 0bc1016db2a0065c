package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/wire"
)

// operatorCommands holds the commands of operators: providers, secrets,
// transcripts.
type operatorCommands struct{ *cli }

var providerColumns = []out.Column[wire.Provider]{
	{Name: "name", Cell: func(p wire.Provider) string { return p.Name }},
	{Name: "kind", Cell: func(p wire.Provider) string { return p.Kind }},
	{Name: "resource", Cell: func(p wire.Provider) string { return p.Resource }, Form: out.Scope},
	{Name: "revocability", Cell: func(p wire.Provider) string { return revocability(p.Class, p.Bound) }},
	{Name: "held", Cell: func(p wire.Provider) string { return strconv.Itoa(p.Held) }},
	{Name: "pending_revocations", Cell: func(p wire.Provider) string { return strconv.Itoa(p.PendingRevocations) }},
	{Name: "pending_since", Cell: func(p wire.Provider) string { return out.Time(p.PendingSince) }, Form: out.When, Show: out.Full},
	{Name: "next_attempt_at", Cell: func(p wire.Provider) string { return out.Time(p.NextAt) }, Form: out.When, Show: out.Full},
	{Name: "breaker", Cell: func(p wire.Provider) string { return p.Breaker }},
}

// revocability formats a class and its bound, if it has one.
func revocability(class wire.Class, bound int64) string {
	if bound > 0 {
		return string(class) + " " + (time.Duration(bound) * time.Second).String()
	}
	return string(class)
}

func newProviders(c *cli) *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "List the configured providers, their revocability and pending revocations", Args: cobra.NoArgs}
	list.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		items, err := o.Providers.List(cmd.Context())
		if err != nil {
			return err
		}
		return out.List(c.stdout, c.format, providerColumns, items)
	})
	return c.group("providers", "List providers and pending revocations; run a provider self-test", c.output(c.remote(list)), operatorCommands{c}.providersCheck())
}

var selfTestColumns = []out.Column[wire.SelfTestStep]{
	{Name: "state", Cell: func(s wire.SelfTestStep) string {
		switch {
		case !s.OK:
			return "fail"
		case s.Notice:
			return "note"
		}
		return "ok"
	}},
	{Name: "step", Cell: func(s wire.SelfTestStep) string { return s.Step }},
	{Name: "took", Cell: func(s wire.SelfTestStep) string { return (time.Duration(s.Millis) * time.Millisecond).String() }},
	{Name: "found", Cell: func(s wire.SelfTestStep) string { return s.What }, Form: out.Prose},
	{Name: "remedy", Cell: func(s wire.SelfTestStep) string { return s.Remedy }, Form: out.Remedy},
}

func (c operatorCommands) providersCheck() *cobra.Command {
	var scope []string
	var ttl time.Duration
	cmd := &cobra.Command{
		Use: "check PROVIDER", Short: "Run a provider self-test: set-up, mint, probe, revocation", Args: cobra.ExactArgs(1),
		Long: `Check the set-up of a third-party provider and report problems. With --scope a
credential with exactly that scope is minted there, probed, revoked and probed again;
it is in the audit log like any other, and is not printed. Exit code 1 if a step fails;
-o json has the text that a table shortens.`,
	}
	cmd.Flags().StringSliceVar(&scope, "scope", nil, "scope to mint and revoke; default: only the set-up is checked")
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "lifetime of the minted credential, 10s to 1h; default 1m")
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		spec := wire.SelfTestSpec{TTL: int64(ttl / time.Second)}
		switch {
		case ttl != 0 && len(scope) == 0:
			return usage("--ttl has no effect without --scope", "name the scope to mint with --scope")
		case ttl%time.Second != 0 || ttl < 0:
			return usage("--ttl must be whole seconds", "write --ttl 90s")
		}
		if len(scope) > 0 {
			set, err := parseScopes(scope)
			if err != nil {
				return err
			}
			spec.Scopes = set.String()
		}
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		t, err := o.Providers.SelfTest(cmd.Context(), args[0], spec)
		if err != nil {
			return err
		}
		if c.format == out.JSON {
			err = out.One(c.stdout, c.format, nil, t)
		} else {
			err = out.List(c.stdout, c.format, selfTestColumns, t.Steps)
		}
		if err == nil && !t.OK {
			return fail("provider "+t.Provider+" failed its self-test", "apply the remedies of the lines marked fail, then run the command again")
		}
		return err
	})
	return c.output(c.remote(cmd))
}
