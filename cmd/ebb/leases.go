package main

import (
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/cmd/internal/command"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// leaseCommands holds the sub-commands of ebb leases.
type leaseCommands struct{ *cli }

var leaseColumns = []out.Column[wire.Lease]{
	{Name: "id", Cell: func(l wire.Lease) string { return l.ID }, Form: out.ID},
	{Name: "state", Cell: func(l wire.Lease) string { return string(l.State) }},
	{Name: "scope", Cell: func(l wire.Lease) string { return l.Scopes }, Form: out.Scope},
	{Name: "task", Cell: func(l wire.Lease) string { return l.TaskID }, Form: out.ID},
	{Name: "owner", Cell: func(l wire.Lease) string { return l.Owner }},
	{Name: "issued_at", Cell: func(l wire.Lease) string { return out.Time(l.IssuedAt) }, Form: out.When, Show: out.Full},
	{Name: "expires_at", Cell: func(l wire.Lease) string { return out.Time(l.ExpiresAt) }, Form: out.When},
	{Name: "revoked_at", Cell: func(l wire.Lease) string { return out.Time(l.RevokedAt) }, Form: out.When, Show: out.Full},
	{Name: "cause", Cell: func(l wire.Lease) string { return string(l.Cause) }, Show: out.Full},
	{Name: "revocability", Cell: func(l wire.Lease) string {
		if l.Upstream == nil {
			return string(l.Class)
		}
		return revocability(l.Class, l.Upstream.Bound)
	}, Show: out.Full},
	{Name: "attempts", Cell: atProvider(func(u wire.Upstream) string { return strconv.Itoa(u.Attempts) }), Show: out.Full},
	{Name: "next_attempt_at", Cell: atProvider(func(u wire.Upstream) string { return out.Time(u.NextAt) }), Form: out.When, Show: out.Full},
}

// atProvider returns a cell that is empty except for credentials of third
// parties.
func atProvider(cell func(wire.Upstream) string) func(wire.Lease) string {
	return func(l wire.Lease) string {
		if l.Upstream == nil {
			return ""
		}
		return cell(*l.Upstream)
	}
}

var leaseDetails = append(append([]out.Column[wire.Lease]{}, leaseColumns...),
	out.Column[wire.Lease]{Name: "revoked_by", Cell: func(l wire.Lease) string { return l.RevokedBy }},
	out.Column[wire.Lease]{Name: "provider", Cell: func(l wire.Lease) string { return l.Provider }},
	out.Column[wire.Lease]{Name: "resource", Cell: func(l wire.Lease) string { return l.Resource }, Form: out.Scope},
	out.Column[wire.Lease]{Name: "sandbox", Cell: func(l wire.Lease) string { return l.Sandbox }},
	out.Column[wire.Lease]{Name: "tool", Cell: func(l wire.Lease) string { return l.Tool }},
	out.Column[wire.Lease]{Name: "delivery", Cell: func(l wire.Lease) string { return l.Delivery }},
	out.Column[wire.Lease]{Name: "request", Cell: func(l wire.Lease) string { return l.RequestID }, Form: out.ID},
	out.Column[wire.Lease]{Name: "parent", Cell: func(l wire.Lease) string { return l.ParentID }},
	out.Column[wire.Lease]{Name: "rule", Cell: func(l wire.Lease) string { return l.Rule }},
	out.Column[wire.Lease]{Name: "txn", Cell: func(l wire.Lease) string { return l.Txn }},
	out.Column[wire.Lease]{Name: "bound_to", Cell: func(l wire.Lease) string {
		if l.Binding.JKT != "" {
			return "jkt " + l.Binding.JKT
		}
		return "x5t " + l.Binding.X5T
	}},
	out.Column[wire.Lease]{Name: "dies_at", Cell: atProvider(func(u wire.Upstream) string { return out.Time(u.DiesAt) }), Form: out.When},
	out.Column[wire.Lease]{Name: "accepted_at", Cell: atProvider(func(u wire.Upstream) string { return out.Time(u.AcceptedAt) }), Form: out.When},
	out.Column[wire.Lease]{Name: "dead_at", Cell: atProvider(func(u wire.Upstream) string { return out.Time(u.DeadAt) }), Form: out.When},
	out.Column[wire.Lease]{Name: "proof", Cell: atProvider(func(u wire.Upstream) string { return string(u.Proof) })},
	out.Column[wire.Lease]{Name: "probed_at", Cell: atProvider(func(u wire.Upstream) string { return out.Time(u.ProbedAt) }), Form: out.When},
	out.Column[wire.Lease]{Name: "last_error", Cell: atProvider(func(u wire.Upstream) string { return u.LastError })},
)

func newLeases(c *cli) *cobra.Command {
	show := onOne(c, "show LEASE", "Show one credential's record", leaseDetails, func(o *client.Operator) action[wire.Lease] { return named(c.leaseIDs(o).read, o.Credentials.Get) })
	show.Long = `Show one credential's lease: its owner, its scope, whether it is delivered by egress
or as a token (delivery), and how and why it ended.

LEASE is its ID, as printed by 'ebb leases list' and 'ebb token' (lse_...), or a unique
prefix of it.`
	return c.group("leases", "List and revoke credentials", leaseCommands{c}.leasesList(), leaseCommands{c}.leasesExport(), leaseCommands{c}.leasesUsage(), show,
		onOneFor(c, "revoke LEASE", "Revoke one credential at once, and those narrowed from it", leaseDetails, func(o *client.Operator) actionFor[wire.Lease] {
			return namedFor(c.leaseIDs(o).change, o.Credentials.Revoke)
		}),
		onOne(c, "retry LEASE", "Retry the revocation of a credential at its provider now", leaseDetails, func(o *client.Operator) action[wire.Lease] { return named(c.leaseIDs(o).change, o.Credentials.Retry) }),
		onOneFor(c, "force LEASE", "Stop retrying the revocation of a credential at its provider; the audit log records --reason", leaseDetails, func(o *client.Operator) actionFor[wire.Lease] {
			return namedFor(c.leaseIDs(o).change, o.Credentials.Force)
		}),
	)
}

// leaseFlags are the flags that select credentials.
type leaseFlags struct {
	f     client.CredentialFilter
	state string
	period
}

func (l *leaseFlags) add(cmd *cobra.Command) {
	cmd.Flags().Var(command.NewChoice(&l.state, "intent", "live", "revoking", "revoked", "expired", "unconfirmed"), "state", "in this state")
	cmd.Flags().StringVar(&l.f.TaskID, "task", "", "of this task")
	cmd.Flags().StringVar(&l.f.Owner, "owner", "", "of tasks of this owner")
	cmd.Flags().StringVar(&l.f.Sandbox, "sandbox", "", "of this sandbox")
	cmd.Flags().StringVar(&l.f.Provider, "provider", "", "of this provider")
	l.period.add(cmd, "issued ")
}

func (l *leaseFlags) filter() client.CredentialFilter {
	f := l.f
	f.State, f.From, f.To = wire.LeaseState(l.state), l.start(), l.to.Time
	return f
}

func (c leaseCommands) leasesList() *cobra.Command {
	var flags leaseFlags
	cmd := &cobra.Command{Use: "list", Short: "List credentials, issued and revoked, newest first", Args: cobra.NoArgs}
	flags.add(cmd)
	cmd.Flags().StringVar(&flags.f.ParentID, "parent", "", "narrowed from this credential, or issued by approving its request")
	limit := limitFlag(cmd)
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		if err := c.about(cmd.Context(), o, &flags.f.TaskID, &flags.f.ParentID, nil); err != nil {
			return err
		}
		f := flags.filter()
		items, err := pages(*limit, func(p client.Page) (wire.List[wire.Lease], error) {
			f.Page = p
			return o.Credentials.List(cmd.Context(), f)
		})
		if err != nil {
			return err
		}
		return listOf(cmd.Context(), c.cli, o, f.TaskID, leaseColumns, items)
	})
	return c.output(c.remote(cmd))
}

func (c leaseCommands) leasesExport() *cobra.Command {
	var flags leaseFlags
	var to, resource string
	cmd := &cobra.Command{
		Use: "export", Short: "Write the audit entries of credentials with their proof, for `ebb audit verify`", Args: cobra.NoArgs,
		Long: `Write the audit entries of credentials with their proof. For each credential, these are the
entries about its issue and its end, about its approval, and about the end of its task.
'ebb audit verify' proves offline that these entries are in the audit log, unaltered.`,
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&resource, "resource", "", "whose scope allows an action on this resource or on one below it, such as acme/web")
	exportFile(cmd, &to)
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.exporter(to)
		if err != nil {
			return err
		}
		if err := c.about(cmd.Context(), o, &flags.f.TaskID, nil, nil); err != nil {
			return err
		}
		return c.writeExport(to, func(w io.Writer) error { return o.Credentials.Proof(cmd.Context(), flags.filter(), resource, w) })
	})
	return c.remote(cmd)
}

// usageOf are the columns that identify a row, usageCounts those that every row
// has.
var usageOf = map[wire.UsageBy][]out.Column[wire.GrantUsage]{
	wire.UsageByScope: {
		{Name: "provider", Cell: func(u wire.GrantUsage) string { return u.Provider }},
		{Name: "scope", Cell: func(u wire.GrantUsage) string { return u.Scope }, Form: out.Scope},
		{Name: "tool", Cell: func(u wire.GrantUsage) string { return u.Tool }},
	},
	wire.UsageByOwner: {{Name: "owner", Cell: func(u wire.GrantUsage) string { return u.Owner }}},
	wire.UsageByTask: {
		{Name: "task", Cell: func(u wire.GrantUsage) string { return u.TaskID }, Form: out.ID},
		{Name: "owner", Cell: func(u wire.GrantUsage) string { return u.Owner }},
	},
}

var usageCounts = []out.Column[wire.GrantUsage]{
	{Name: "issued", Cell: func(u wire.GrantUsage) string { return strconv.Itoa(u.Issued) }},
	{Name: "used", Cell: func(u wire.GrantUsage) string { return strconv.Itoa(u.Used) }},
	{Name: "unused", Cell: func(u wire.GrantUsage) string { return strconv.Itoa(u.Unused) }},
	{Name: "uses", Cell: func(u wire.GrantUsage) string { return strconv.Itoa(u.Uses) }},
	{Name: "last_used", Cell: func(u wire.GrantUsage) string { return out.Time(u.LastUsed) }, Form: out.When},
}

func (c leaseCommands) leasesUsage() *cobra.Command {
	var since time.Duration
	by := string(wire.UsageByScope)
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
	cmd.Flags().Var(command.NewChoice(&by, string(wire.UsageByScope), string(wire.UsageByOwner), string(wire.UsageByTask)), "by", "what rows are grouped by")
	cmd.Flags().IntVar(&limit, "limit", 50, "at most this many rows, up to 1000")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		switch {
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
		if err := out.List(c.stdout, c.format, append(append([]out.Column[wire.GrantUsage]{}, usageOf[wire.UsageBy(by)]...), usageCounts...), u.Items); err != nil {
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
