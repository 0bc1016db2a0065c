package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"ebb/broker"
	"ebb/cmd/ebb/internal/out"
	"ebb/web/client"
)

var breakGlassColumns = []out.Column[broker.BreakGlass]{
	{Name: "id", Cell: func(g broker.BreakGlass) string { return g.ID }},
	{Name: "person", Cell: func(g broker.BreakGlass) string { return g.Person }},
	{Name: "incident", Cell: func(g broker.BreakGlass) string { return g.Incident }},
	{Name: "begun_at", Cell: func(g broker.BreakGlass) string { return out.Time(g.BegunAt) }},
	{Name: "over_at", Cell: func(g broker.BreakGlass) string { return out.Time(g.Over()) }},
	{Name: "used", Cell: func(g broker.BreakGlass) string { return strconv.Itoa(g.Used) }},
	{Name: "reviewed_by", Cell: func(g broker.BreakGlass) string { return g.ReviewedBy }},
	{Name: "reviewed_at", Cell: func(g broker.BreakGlass) string { return out.Time(g.ReviewedAt) }},
	{Name: "reason", Cell: func(g broker.BreakGlass) string { return g.Reason }},
	{Name: "note", Cell: func(g broker.BreakGlass) string { return g.Note }},
}

func newBreakGlass(c *cli) *cobra.Command {
	return c.group("break-glass", "See when somebody approved alone, in an emergency", c.breakGlassList())
}

func (c *cli) breakGlassList() *cobra.Command {
	var f broker.BreakGlassFilter
	cmd := &cobra.Command{Use: "list", Short: "List when somebody approved alone, newest first", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&f.Person, "person", "", "by this person")
	cmd.Flags().BoolVar(&f.Unreviewed, "unreviewed", false, "that nobody has reviewed")
	limit := limitFlag(cmd)
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		items, err := pages(*limit, func(p broker.Page) (client.List[broker.BreakGlass], error) {
			f.After, f.Limit = p.After, p.Limit
			return o.BreakGlasses(cmd.Context(), f)
		})
		if err != nil {
			return err
		}
		return out.List(c.stdout, c.format, breakGlassColumns, items)
	})
	return c.output(c.remote(cmd))
}
