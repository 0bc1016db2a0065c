package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"ebb/broker"
	"ebb/broker/provider"
	"ebb/cmd/ebb/internal/out"
)

var providerColumns = []out.Column[broker.ProviderState]{
	{Name: "name", Cell: func(p broker.ProviderState) string { return p.Name }},
	{Name: "kind", Cell: func(p broker.ProviderState) string { return p.Kind }},
	{Name: "resource", Cell: func(p broker.ProviderState) string { return p.Resource }},
	{Name: "revocability", Cell: func(p broker.ProviderState) string { return revocability(p.Class, p.Bound) }},
	{Name: "held", Cell: func(p broker.ProviderState) string { return strconv.Itoa(p.Held) }},
	{Name: "owed", Cell: func(p broker.ProviderState) string { return strconv.Itoa(p.Owed) }},
	{Name: "owed_since", Cell: func(p broker.ProviderState) string { return out.Time(p.OldestOwed) }},
	{Name: "next_attempt_at", Cell: func(p broker.ProviderState) string { return out.Time(p.NextAt) }},
	{Name: "breaker", Cell: func(p broker.ProviderState) string { return p.Breaker }},
}

// revocability is a class with its bound, if it has one.
func revocability(class provider.Class, bound broker.Seconds) string {
	if bound > 0 {
		return string(class) + " " + bound.Duration().String()
	}
	return string(class)
}

func newProviders(c *cli) *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "List the configured providers, how they revoke, and what is owed there", Args: cobra.NoArgs}
	list.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		items, err := o.Providers(cmd.Context())
		if err != nil {
			return err
		}
		return out.List(c.stdout, c.format, providerColumns, items)
	})
	return c.group("providers", "See what mints, and what is owed there; try a provider out", c.output(c.remote(list)), c.providersCheck())
}

var trialColumns = []out.Column[broker.TrialStep]{
	{Name: "state", Cell: func(s broker.TrialStep) string {
		switch {
		case !s.OK:
			return "fail"
		case s.Notice:
			return "note"
		}
		return "ok"
	}},
	{Name: "step", Cell: func(s broker.TrialStep) string { return s.Step }},
	{Name: "took", Cell: func(s broker.TrialStep) string { return (time.Duration(s.Millis) * time.Millisecond).String() }},
	{Name: "found", Cell: func(s broker.TrialStep) string { return s.What }},
	{Name: "remedy", Cell: func(s broker.TrialStep) string { return s.Remedy }},
}

func (c *cli) providersCheck() *cobra.Command {
	var scope []string
	var ttl time.Duration
	cmd := &cobra.Command{
		Use: "check NAME", Short: "Try a third-party provider out: its set-up, a mint, a probe, a revocation", Args: cobra.ExactArgs(1),
		Long: `Look at the set-up of a third-party provider and say what is wrong with it. With
--scope a credential of exactly that is minted there, probed, revoked and probed
again, on the record like any other; nobody gets to see it. Exit code 1 when
something does not work; -o json has what a table cuts short.`,
	}
	cmd.Flags().StringSliceVar(&scope, "scope", nil, "what to mint and take back; default: only the set-up is looked at")
	cmd.Flags().DurationVar(&ttl, "ttl", 0, "lifetime of what is minted, 10s to 1h; default 1m")
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		spec := broker.TrialSpec{TTL: broker.Seconds(ttl / time.Second)}
		switch {
		case ttl != 0 && len(scope) == 0:
			return usage("--ttl without --scope: nothing is minted", "name what to mint with --scope")
		case ttl%time.Second != 0 || ttl < 0:
			return usage("--ttl must be whole seconds", "write --ttl 90s")
		}
		if len(scope) > 0 {
			var err error
			if spec.Scopes, err = parseScopes(scope); err != nil {
				return err
			}
		}
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		t, err := o.CheckProvider(cmd.Context(), args[0], spec)
		if err != nil {
			return err
		}
		if c.format == out.JSON {
			err = out.One(c.stdout, c.format, nil, t)
		} else {
			err = out.List(c.stdout, c.format, trialColumns, t.Steps)
		}
		if err == nil && !t.OK {
			return fail("provider "+t.Provider+" does not work", "do what the lines marked fail say, then run it again")
		}
		return err
	})
	return c.output(c.remote(cmd))
}
