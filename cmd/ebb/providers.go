package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"ebb/broker"
	"ebb/cmd/ebb/internal/out"
)

var providerColumns = []out.Column[broker.ProviderState]{
	{Name: "name", Cell: func(p broker.ProviderState) string { return p.Name }},
	{Name: "kind", Cell: func(p broker.ProviderState) string { return p.Kind }},
	{Name: "resource", Cell: func(p broker.ProviderState) string { return p.Resource }},
	{Name: "revocability", Cell: func(p broker.ProviderState) string {
		if p.Bound > 0 {
			return string(p.Class) + " " + p.Bound.Duration().String()
		}
		return string(p.Class)
	}},
	{Name: "held", Cell: func(p broker.ProviderState) string { return strconv.Itoa(p.Held) }},
	{Name: "owed", Cell: func(p broker.ProviderState) string { return strconv.Itoa(p.Owed) }},
	{Name: "owed_since", Cell: func(p broker.ProviderState) string { return out.Time(p.OldestOwed) }},
	{Name: "next_attempt_at", Cell: func(p broker.ProviderState) string { return out.Time(p.NextAt) }},
	{Name: "breaker", Cell: func(p broker.ProviderState) string { return p.Breaker }},
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
	return c.group("providers", "See what mints, and what is owed there", c.output(c.remote(list)))
}
