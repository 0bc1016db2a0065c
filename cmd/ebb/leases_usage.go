package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"ebb/broker"
	"ebb/cmd/ebb/internal/out"
)

// usageOf are the columns of what a row is of, usageCounts those that every row has.
var usageOf = map[broker.UsageBy][]out.Column[broker.GrantUsage]{
	broker.UsageByScope: {
		{Name: "provider", Cell: func(u broker.GrantUsage) string { return u.Provider }},
		{Name: "scope", Cell: func(u broker.GrantUsage) string { return u.Scope }},
		{Name: "tool", Cell: func(u broker.GrantUsage) string { return u.Tool }},
	},
	broker.UsageByOwner: {{Name: "owner", Cell: func(u broker.GrantUsage) string { return u.Owner }}},
	broker.UsageByTask: {
		{Name: "task", Cell: func(u broker.GrantUsage) string { return u.TaskID }},
		{Name: "owner", Cell: func(u broker.GrantUsage) string { return u.Owner }},
	},
}

var usageCounts = []out.Column[broker.GrantUsage]{
	{Name: "issued", Cell: func(u broker.GrantUsage) string { return strconv.Itoa(u.Issued) }},
	{Name: "used", Cell: func(u broker.GrantUsage) string { return strconv.Itoa(u.Used) }},
	{Name: "unused", Cell: func(u broker.GrantUsage) string { return strconv.Itoa(u.Unused) }},
	{Name: "uses", Cell: func(u broker.GrantUsage) string { return strconv.Itoa(u.Uses) }},
	{Name: "last_used", Cell: func(u broker.GrantUsage) string { return out.Time(u.LastUsed) }},
}

func (c *cli) leasesUsage() *cobra.Command {
	var since time.Duration
	var by string
	var limit int
	cmd := &cobra.Command{
		Use: "usage", Short: "Set what was issued beside what was used of it, by egress", Args: cobra.NoArgs,
		Long: `Set what was issued beside what was used of it: credentials that are delivered by
egress, and the requests and sessions that were let through with them. First comes
what has the most credentials that are over and were never used (unused): a scope
that can go. What is neither used nor unused can still be used. What was handed out is counted
alone: what it was used for ebb does not know, but for the SSH connections that egress
carried. As json the answer is that of GET /v1/usage, whole.`,
	}
	cmd.Flags().DurationVar(&since, "since", 30*24*time.Hour, "issued in this time until now, 744h at most")
	cmd.Flags().StringVar(&by, "by", string(broker.UsageByScope), "what a row is of: scope, owner or task")
	cmd.Flags().IntVar(&limit, "limit", 50, "how many at most, up to 1000")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		of, known := usageOf[broker.UsageBy(by)]
		switch {
		case !known:
			return usage("--by is none of the known words", "name scope, owner or task")
		case limit < 1 || limit > broker.UsageRows:
			return usage("--limit is out of range", "name a number from 1 to 1000")
		case since <= 0:
			return usage("--since is no time", "name one, such as 168h")
		}
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		u, err := o.Usage(cmd.Context(), time.Now().Add(-since), broker.UsageBy(by), limit)
		if err != nil {
			return err
		}
		if c.format == out.JSON {
			return out.One(c.stdout, c.format, nil, u)
		}
		if err := out.List(c.stdout, c.format, append(append([]out.Column[broker.GrantUsage]{}, of...), usageCounts...), u.Items); err != nil {
			return err
		}
		c.sayUsage(u)
		return nil
	})
	return c.output(c.remote(cmd))
}

// sayUsage says what the rows leave out.
func (c *cli) sayUsage(u broker.Usage) {
	if u.Cut {
		c.sayf("ebb: there is more than it sums up: this is since %s\n", out.Time(u.From))
	}
	if u.UsesFrom.After(u.From) {
		c.sayf("ebb: there are more uses than it sums up: uses and the last of them are since %s\n", out.Time(u.UsesFrom))
	}
	if u.More {
		c.sayf("ebb: there are more rows; those with the most unused are here\n")
	}
	if u.HandedOut > 0 {
		c.sayf("ebb: %d more credential(s) were handed out; of those ebb knows SSH connections that egress carried, by %d of them\n", u.HandedOut, u.Carried)
	}
}
