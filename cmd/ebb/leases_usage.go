package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/wire"
)

// usageOf are the columns that identify a row, usageCounts those that every row
// has.
var usageOf = map[wire.UsageBy][]out.Column[wire.GrantUsage]{
	wire.UsageByScope: {
		{Name: "provider", Cell: func(u wire.GrantUsage) string { return u.Provider }},
		{Name: "scope", Cell: func(u wire.GrantUsage) string { return u.Scope }},
		{Name: "tool", Cell: func(u wire.GrantUsage) string { return u.Tool }},
	},
	wire.UsageByOwner: {{Name: "owner", Cell: func(u wire.GrantUsage) string { return u.Owner }}},
	wire.UsageByTask: {
		{Name: "task", Cell: func(u wire.GrantUsage) string { return u.TaskID }},
		{Name: "owner", Cell: func(u wire.GrantUsage) string { return u.Owner }},
	},
}

var usageCounts = []out.Column[wire.GrantUsage]{
	{Name: "issued", Cell: func(u wire.GrantUsage) string { return strconv.Itoa(u.Issued) }},
	{Name: "used", Cell: func(u wire.GrantUsage) string { return strconv.Itoa(u.Used) }},
	{Name: "unused", Cell: func(u wire.GrantUsage) string { return strconv.Itoa(u.Unused) }},
	{Name: "uses", Cell: func(u wire.GrantUsage) string { return strconv.Itoa(u.Uses) }},
	{Name: "last_used", Cell: func(u wire.GrantUsage) string { return out.Time(u.LastUsed) }},
}

func (c leaseCommands) leasesUsage() *cobra.Command {
	var since time.Duration
	var by string
	var limit int
	cmd := &cobra.Command{
		Use: "usage", Short: "Compare issued credentials with their use through egress", Args: cobra.NoArgs,
		Long: `Compare issued credentials with their use: credentials delivered by egress, and the
requests and sessions that were allowed with them. Rows with the most expired or revoked
credentials that were never used (unused) come first: their scope may not be needed. A
credential that is neither used nor unused can still be used. Credentials delivered as
tokens are only counted: ebb does not see their use, except for SSH connections through
egress. With -o json the output is the whole response of GET /v1/usage.`,
	}
	cmd.Flags().DurationVar(&since, "since", 30*24*time.Hour, "issued from this long ago until now, at most 744h")
	cmd.Flags().StringVar(&by, "by", string(wire.UsageByScope), "group rows by scope, owner or task")
	cmd.Flags().IntVar(&limit, "limit", 50, "at most this many rows, up to 1000")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		of, known := usageOf[wire.UsageBy(by)]
		switch {
		case !known:
			return usage("--by must be scope, owner or task", "use --by scope, --by owner or --by task")
		case limit < 1 || limit > report.UsageRows:
			return usage("--limit is out of range", "choose from 1 to 1000")
		case since <= 0:
			return usage("--since must be positive", "write a duration such as 168h")
		}
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		u, err := o.Credentials.Usage(cmd.Context(), time.Now().Add(-since), wire.UsageBy(by), limit)
		if err != nil {
			return err
		}
		if c.format == out.JSON {
			return out.One(c.stdout, c.format, nil, u)
		}
		if err := out.List(c.stdout, c.format, append(append([]out.Column[wire.GrantUsage]{}, of...), usageCounts...), u.Items); err != nil {
			return err
		}
		c.sayUsage(u)
		return nil
	})
	return c.output(c.remote(cmd))
}

// sayUsage reports the data that the rows leave out.
func (c leaseCommands) sayUsage(u wire.Usage) {
	if u.Cut {
		c.sayf("ebb: the summary is limited: it covers credentials issued since %s\n", out.Time(u.From))
	}
	if u.UsesFrom.After(u.From) {
		c.sayf("ebb: the summary is limited: uses and last_used cover the time since %s\n", out.Time(u.UsesFrom))
	}
	if u.More {
		c.sayf("ebb: there are more rows; those with the most unused credentials are shown\n")
	}
	if u.HandedOut > 0 {
		c.sayf("ebb: %d more credential(s) were delivered as tokens; %d of them were used for SSH connections through egress\n", u.HandedOut, u.Carried)
	}
}
