package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"ebb/broker"
	"ebb/cmd/ebb/internal/out"
	"ebb/web/client"
)

var leaseColumns = []out.Column[broker.Lease]{
	{Name: "id", Cell: func(l broker.Lease) string { return l.ID }},
	{Name: "state", Cell: func(l broker.Lease) string { return string(l.State) }},
	{Name: "scope", Cell: func(l broker.Lease) string { return l.Scopes.String() }},
	{Name: "task", Cell: func(l broker.Lease) string { return l.TaskID }},
	{Name: "owner", Cell: func(l broker.Lease) string { return l.Owner }},
	{Name: "issued_at", Cell: func(l broker.Lease) string { return out.Time(l.IssuedAt) }},
	{Name: "expires_at", Cell: func(l broker.Lease) string { return out.Time(l.ExpiresAt) }},
	{Name: "revoked_at", Cell: func(l broker.Lease) string { return out.Time(l.RevokedAt) }},
	{Name: "cause", Cell: func(l broker.Lease) string { return string(l.Cause) }},
	{Name: "revocability", Cell: func(l broker.Lease) string {
		if l.Upstream == nil {
			return string(l.Class)
		}
		return revocability(l.Class, l.Upstream.Bound)
	}},
	{Name: "attempts", Cell: atProvider(func(u broker.Upstream) string { return strconv.Itoa(u.Attempts) })},
	{Name: "next_attempt_at", Cell: atProvider(func(u broker.Upstream) string { return out.Time(u.NextAt) })},
}

// atProvider is a cell that only credentials of third parties have.
func atProvider(cell func(broker.Upstream) string) func(broker.Lease) string {
	return func(l broker.Lease) string {
		if l.Upstream == nil {
			return ""
		}
		return cell(*l.Upstream)
	}
}

var leaseDetails = append(append([]out.Column[broker.Lease]{}, leaseColumns...),
	out.Column[broker.Lease]{Name: "revoked_by", Cell: func(l broker.Lease) string { return l.RevokedBy }},
	out.Column[broker.Lease]{Name: "provider", Cell: func(l broker.Lease) string { return l.Provider }},
	out.Column[broker.Lease]{Name: "resource", Cell: func(l broker.Lease) string { return l.Resource }},
	out.Column[broker.Lease]{Name: "sandbox", Cell: func(l broker.Lease) string { return l.Sandbox }},
	out.Column[broker.Lease]{Name: "tool", Cell: func(l broker.Lease) string { return l.Tool }},
	out.Column[broker.Lease]{Name: "delivery", Cell: func(l broker.Lease) string { return l.Delivery }},
	out.Column[broker.Lease]{Name: "request", Cell: func(l broker.Lease) string { return l.RequestID }},
	out.Column[broker.Lease]{Name: "parent", Cell: func(l broker.Lease) string { return l.ParentID }},
	out.Column[broker.Lease]{Name: "rule", Cell: func(l broker.Lease) string { return l.Rule }},
	out.Column[broker.Lease]{Name: "txn", Cell: func(l broker.Lease) string { return l.Txn }},
	out.Column[broker.Lease]{Name: "bound_to", Cell: func(l broker.Lease) string {
		if l.Binding.JKT != "" {
			return "jkt " + l.Binding.JKT
		}
		return "x5t " + l.Binding.X5T
	}},
	out.Column[broker.Lease]{Name: "dies_at", Cell: atProvider(func(u broker.Upstream) string { return out.Time(u.DiesAt) })},
	out.Column[broker.Lease]{Name: "accepted_at", Cell: atProvider(func(u broker.Upstream) string { return out.Time(u.AcceptedAt) })},
	out.Column[broker.Lease]{Name: "dead_at", Cell: atProvider(func(u broker.Upstream) string { return out.Time(u.DeadAt) })},
	out.Column[broker.Lease]{Name: "proof", Cell: atProvider(func(u broker.Upstream) string { return string(u.Proof) })},
	out.Column[broker.Lease]{Name: "probed_at", Cell: atProvider(func(u broker.Upstream) string { return out.Time(u.ProbedAt) })},
	out.Column[broker.Lease]{Name: "last_error", Cell: atProvider(func(u broker.Upstream) string { return u.LastError })},
)

func newLeases(c *cli) *cobra.Command {
	show := onOne(c, "show LEASE", "Show one credential's record", leaseDetails, (*client.Operator).Lease)
	show.Long = `Show one credential's record: whose it is, what it is for, whether it stays in ebb
(delivery), and how and why it ended.

LEASE is its id, as 'ebb leases list' and 'ebb token' say it (lse_...).`
	return c.group("leases", "See and revoke credentials", c.leasesList(), c.leasesUsage(), show,
		onOneFor(c, "revoke LEASE", "End one credential at once, and what was narrowed from it", leaseDetails, (*client.Operator).RevokeLease),
		onOne(c, "retry LEASE", "Try now to take a credential back at its provider", leaseDetails, (*client.Operator).RetryLease),
		onOneFor(c, "force LEASE", "Say that nothing is owed for a credential any more, by --reason: its provider is not asked again", leaseDetails, (*client.Operator).ForceLease),
	)
}

func (c *cli) leasesList() *cobra.Command {
	var f broker.LeaseFilter
	var state, parent string
	var since time.Duration
	cmd := &cobra.Command{Use: "list", Short: "List credentials, issued and revoked, newest first", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&state, "state", "", "intent, live, revoking, revoked, expired or unconfirmed")
	cmd.Flags().StringVar(&f.TaskID, "task", "", "of this task")
	cmd.Flags().StringVar(&parent, "parent", "", "narrowed from this credential, or made by an answer to its request")
	cmd.Flags().StringVar(&f.Owner, "owner", "", "of tasks of this owner")
	cmd.Flags().StringVar(&f.Sandbox, "sandbox", "", "of this sandbox")
	cmd.Flags().StringVar(&f.Provider, "provider", "", "of this provider")
	cmd.Flags().DurationVar(&since, "since", 0, "issued in this time until now")
	limit := limitFlag(cmd)
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		f.State = broker.LeaseState(state)
		if parent != "" {
			f.Parents = []string{parent}
		}
		if since > 0 {
			f.From = time.Now().Add(-since)
		}
		items, err := pages(*limit, func(p broker.Page) (client.List[broker.Lease], error) {
			f.Page = p
			return o.Leases(cmd.Context(), f)
		})
		if err != nil {
			return err
		}
		return out.List(c.stdout, c.format, leaseColumns, items)
	})
	return c.output(c.remote(cmd))
}
