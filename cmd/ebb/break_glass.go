package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

var breakGlassColumns = []out.Column[wire.BreakGlass]{
	{Name: "id", Cell: func(g wire.BreakGlass) string { return g.ID }, Form: out.ID},
	{Name: "person", Cell: func(g wire.BreakGlass) string { return g.Person }},
	{Name: "incident", Cell: func(g wire.BreakGlass) string { return g.Incident }},
	{Name: "begun_at", Cell: func(g wire.BreakGlass) string { return out.Time(g.BegunAt) }, Form: out.When},
	{Name: "over_at", Cell: func(g wire.BreakGlass) string { return out.Time(overAt(g)) }, Form: out.When},
	{Name: "used", Cell: func(g wire.BreakGlass) string { return strconv.Itoa(g.Used) }},
	{Name: "reviewed_by", Cell: func(g wire.BreakGlass) string { return g.ReviewedBy }},
	{Name: "reviewed_at", Cell: func(g wire.BreakGlass) string { return out.Time(g.ReviewedAt) }, Form: out.When, Show: out.Full},
	{Name: "reason", Cell: func(g wire.BreakGlass) string { return g.Reason }},
	{Name: "note", Cell: func(g wire.BreakGlass) string { return g.Note }, Show: out.Full},
}

// overAt returns the time when a period ended, or when it ends at the latest.
func overAt(g wire.BreakGlass) time.Time {
	if g.EndedAt.IsZero() || g.EndsAt.Before(g.EndedAt) {
		return g.EndsAt
	}
	return g.EndedAt
}

func newBreakGlass(c *cli) *cobra.Command {
	return c.group("break-glass", "List emergency periods in which a person approved alone", requestCommands{c}.breakGlassList())
}

func (c requestCommands) breakGlassList() *cobra.Command {
	var f client.BreakGlassFilter
	cmd := &cobra.Command{Use: "list", Short: "List periods in which a person approved alone, newest first", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&f.Person, "person", "", "by this person")
	cmd.Flags().BoolVar(&f.Unreviewed, "unreviewed", false, "only periods without a review")
	limit := limitFlag(cmd)
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		items, err := pages(*limit, func(p client.Page) (wire.List[wire.BreakGlass], error) {
			f.After, f.Limit = p.After, p.Limit
			return o.BreakGlass.List(cmd.Context(), f)
		})
		if err != nil {
			return err
		}
		return out.List(c.stdout, c.format, breakGlassColumns, items)
	})
	return c.output(c.remote(cmd))
}
