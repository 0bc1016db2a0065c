package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"ebb/broker"
	"ebb/cmd/ebb/internal/out"
	"ebb/web/client"
)

// delegated is what `ebb delegate` prints.
type delegated struct {
	TaskID          string        `json:"task_id"`
	Scope           string        `json:"scope"`
	ExpiresAt       time.Time     `json:"expires_at"`
	Uses            int           `json:"uses,omitempty"`
	Expect          broker.Expect `json:"sandbox_expected"`
	Ticket          string        `json:"ticket,omitempty"`
	TicketExpiresAt time.Time     `json:"ticket_expires_at,omitzero"`
}

var delegatedColumns = []out.Column[delegated]{
	{Name: "task", Cell: func(d delegated) string { return d.TaskID }},
	{Name: "scope", Cell: func(d delegated) string { return d.Scope }},
	{Name: "expires_at", Cell: func(d delegated) string { return out.Time(d.ExpiresAt) }},
	{Name: "uses", Cell: func(d delegated) string { return strconv.Itoa(d.Uses) }},
	{Name: "selectors", Cell: func(d delegated) string { return out.Pairs(d.Expect.Selectors) }},
	{Name: "ticket", Cell: func(d delegated) string { return d.Ticket }},
	{Name: "ticket_expires_at", Cell: func(d delegated) string { return out.Time(d.TicketExpiresAt) }},
}

func newDelegate(c *cli) *cobra.Command {
	var t tokenFlags
	var d client.Delegation
	var scope []string
	cmd := &cobra.Command{
		Use: "delegate", Short: "Hand a part of a task to another sandbox, as a sandbox", Args: cobra.NoArgs,
		Long: `Hand a part of a task to another sandbox, as a sandbox.

The runner must have allowed it (ebb task open --delegate). The other sandbox gets
a task of its own that is wider in nothing and over when this one is; it enrols
with the ticket that this prints.`,
	}
	f := cmd.Flags()
	f.StringSliceVar(&scope, "scope", nil, "what the other sandbox may do at most, repeatable")
	f.DurationVar(&d.TTL, "ttl", 0, "for how long; 0 = until this task ends")
	f.IntVar(&d.Uses, "uses", 0, "credentials in all; needed when those of this task are counted")
	f.IntVar(&d.Depth, "depth", 0, "how many times in a row it may be delegated on")
	f.StringToStringVar(&d.Selectors, "selector", nil, "what the other sandbox's evidence must say, `name=value`")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		var err error
		if d.Scope, err = parseScopes(scope); err != nil {
			return err
		}
		if d.Scope.Empty() {
			return usage("nothing is delegated", "name it with --scope, such as 'orders:eu/42:read'")
		}
		s, _, err := c.sandbox(cmd, &t)
		if err != nil {
			return err
		}
		got, err := s.Delegate(cmd.Context(), d)
		if err != nil {
			return err
		}
		return out.One(c.stdout, c.format, delegatedColumns, delegated{
			TaskID: got.TaskID, Scope: got.Scope.String(), ExpiresAt: got.ExpiresAt, Uses: got.Uses, Expect: got.Expect,
			Ticket: got.Ticket.Reveal(), TicketExpiresAt: got.TicketExpiresAt,
		})
	})
	return c.output(c.boxed(cmd))
}
