package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// leaseCommands holds the sub-commands of ebb leases.
type leaseCommands struct{ *cli }

var leaseColumns = []out.Column[wire.Lease]{
	{Name: "id", Cell: func(l wire.Lease) string { return l.ID }},
	{Name: "state", Cell: func(l wire.Lease) string { return string(l.State) }},
	{Name: "scope", Cell: func(l wire.Lease) string { return l.Scopes }},
	{Name: "task", Cell: func(l wire.Lease) string { return l.TaskID }},
	{Name: "owner", Cell: func(l wire.Lease) string { return l.Owner }},
	{Name: "issued_at", Cell: func(l wire.Lease) string { return out.Time(l.IssuedAt) }},
	{Name: "expires_at", Cell: func(l wire.Lease) string { return out.Time(l.ExpiresAt) }},
	{Name: "revoked_at", Cell: func(l wire.Lease) string { return out.Time(l.RevokedAt) }},
	{Name: "cause", Cell: func(l wire.Lease) string { return string(l.Cause) }},
	{Name: "revocability", Cell: func(l wire.Lease) string {
		if l.Upstream == nil {
			return string(l.Class)
		}
		return revocability(l.Class, l.Upstream.Bound)
	}},
	{Name: "attempts", Cell: atProvider(func(u wire.Upstream) string { return strconv.Itoa(u.Attempts) })},
	{Name: "next_attempt_at", Cell: atProvider(func(u wire.Upstream) string { return out.Time(u.NextAt) })},
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
	out.Column[wire.Lease]{Name: "resource", Cell: func(l wire.Lease) string { return l.Resource }},
	out.Column[wire.Lease]{Name: "sandbox", Cell: func(l wire.Lease) string { return l.Sandbox }},
	out.Column[wire.Lease]{Name: "tool", Cell: func(l wire.Lease) string { return l.Tool }},
	out.Column[wire.Lease]{Name: "delivery", Cell: func(l wire.Lease) string { return l.Delivery }},
	out.Column[wire.Lease]{Name: "request", Cell: func(l wire.Lease) string { return l.RequestID }},
	out.Column[wire.Lease]{Name: "parent", Cell: func(l wire.Lease) string { return l.ParentID }},
	out.Column[wire.Lease]{Name: "rule", Cell: func(l wire.Lease) string { return l.Rule }},
	out.Column[wire.Lease]{Name: "txn", Cell: func(l wire.Lease) string { return l.Txn }},
	out.Column[wire.Lease]{Name: "bound_to", Cell: func(l wire.Lease) string {
		if l.Binding.JKT != "" {
			return "jkt " + l.Binding.JKT
		}
		return "x5t " + l.Binding.X5T
	}},
	out.Column[wire.Lease]{Name: "dies_at", Cell: atProvider(func(u wire.Upstream) string { return out.Time(u.DiesAt) })},
	out.Column[wire.Lease]{Name: "accepted_at", Cell: atProvider(func(u wire.Upstream) string { return out.Time(u.AcceptedAt) })},
	out.Column[wire.Lease]{Name: "dead_at", Cell: atProvider(func(u wire.Upstream) string { return out.Time(u.DeadAt) })},
	out.Column[wire.Lease]{Name: "proof", Cell: atProvider(func(u wire.Upstream) string { return string(u.Proof) })},
	out.Column[wire.Lease]{Name: "probed_at", Cell: atProvider(func(u wire.Upstream) string { return out.Time(u.ProbedAt) })},
	out.Column[wire.Lease]{Name: "last_error", Cell: atProvider(func(u wire.Upstream) string { return u.LastError })},
)

func newLeases(c *cli) *cobra.Command {
	show := onOne(c, "show LEASE", "Show one credential's record", leaseDetails, func(o *client.Operator) action[wire.Lease] { return o.Credentials.Get })
	show.Long = `Show one credential's lease: its owner, its scope, whether it is delivered by egress
or as a token (delivery), and how and why it ended.

LEASE is its ID, as printed by 'ebb leases list' and 'ebb token' (lse_...).`
	return c.group("leases", "List and revoke credentials", leaseCommands{c}.leasesList(), leaseCommands{c}.leasesUsage(), show,
		onOneFor(c, "revoke LEASE", "Revoke one credential at once, and those narrowed from it", leaseDetails, func(o *client.Operator) actionFor[wire.Lease] { return o.Credentials.Revoke }),
		onOne(c, "retry LEASE", "Retry the revocation of a credential at its provider now", leaseDetails, func(o *client.Operator) action[wire.Lease] { return o.Credentials.Retry }),
		onOneFor(c, "force LEASE", "Drop the pending revocation of a credential at its provider, for --reason; it is not retried", leaseDetails, func(o *client.Operator) actionFor[wire.Lease] { return o.Credentials.Force }),
	)
}

func (c leaseCommands) leasesList() *cobra.Command {
	var f client.CredentialFilter
	var state, parent string
	var since time.Duration
	cmd := &cobra.Command{Use: "list", Short: "List credentials, issued and revoked, newest first", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&state, "state", "", "intent, live, revoking, revoked, expired or unconfirmed")
	cmd.Flags().StringVar(&f.TaskID, "task", "", "of this task")
	cmd.Flags().StringVar(&parent, "parent", "", "narrowed from this credential, or issued by approving its request")
	cmd.Flags().StringVar(&f.Owner, "owner", "", "of tasks of this owner")
	cmd.Flags().StringVar(&f.Sandbox, "sandbox", "", "of this sandbox")
	cmd.Flags().StringVar(&f.Provider, "provider", "", "of this provider")
	cmd.Flags().DurationVar(&since, "since", 0, "issued from this long ago until now")
	limit := limitFlag(cmd)
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		f.State = wire.LeaseState(state)
		f.ParentID = parent
		if since > 0 {
			f.From = time.Now().Add(-since)
		}
		items, err := pages(*limit, func(p client.Page) (wire.List[wire.Lease], error) {
			f.Page = p
			return o.Credentials.List(cmd.Context(), f)
		})
		if err != nil {
			return err
		}
		return out.List(c.stdout, c.format, leaseColumns, items)
	})
	return c.output(c.remote(cmd))
}
