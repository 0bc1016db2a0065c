package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// delegated is the output of `ebb delegate`.
type delegated struct {
	TaskID          string      `json:"task_id"`
	Scope           string      `json:"scope"`
	ExpiresAt       time.Time   `json:"expires_at"`
	Uses            int         `json:"uses,omitempty"`
	Expect          wire.Expect `json:"sandbox_expected"`
	Ticket          string      `json:"ticket,omitempty"`
	TicketExpiresAt time.Time   `json:"ticket_expires_at,omitzero"`
}

var delegatedColumns = []out.Column[delegated]{
	{Name: "task", Cell: func(d delegated) string { return d.TaskID }, Form: out.ID},
	{Name: "scope", Cell: func(d delegated) string { return d.Scope }, Form: out.Scope},
	{Name: "expires_at", Cell: func(d delegated) string { return out.Time(d.ExpiresAt) }, Form: out.When},
	{Name: "uses", Cell: func(d delegated) string { return strconv.Itoa(d.Uses) }},
	{Name: "selectors", Cell: func(d delegated) string { return out.Pairs(d.Expect.Selectors) }},
	{Name: "ticket", Cell: func(d delegated) string { return d.Ticket }},
	{Name: "ticket_expires_at", Cell: func(d delegated) string { return out.Time(d.TicketExpiresAt) }, Form: out.When},
}

func newDelegate(c *cli) *cobra.Command {
	var t tokenFlags
	var d client.Delegation
	var scope []string
	cmd := &cobra.Command{
		Use: "delegate", Short: "Delegate a part of a task to another sandbox, as a sandbox", Args: cobra.NoArgs,
		Long: `Delegate a part of a task to another sandbox, as a sandbox.

The runner must have allowed it (ebb task open --delegate). The other sandbox gets
a task of its own, whose limits do not exceed those of this task and which ends when
this task ends. The other sandbox enrols with the printed ticket.`,
	}
	f := cmd.Flags()
	f.StringSliceVar(&scope, "scope", nil, "scope of the other sandbox at most, repeatable")
	f.DurationVar(&d.TTL, "ttl", 0, "lifetime; 0 = until this task ends")
	f.IntVar(&d.Uses, "uses", 0, "maximum number of credentials; required if this task has a maximum")
	f.IntVar(&d.Depth, "depth", 0, "how many further levels of delegation are allowed")
	f.StringToStringVar(&d.Selectors, "selector", nil, "selector that the other sandbox's evidence must have, `name=value`")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		asked, err := parseScopes(scope)
		if err != nil {
			return err
		}
		d.Scope = asked.String()
		if asked.Empty() {
			return usage("--scope is empty", "name the scope to delegate, such as 'orders:eu/42:read'")
		}
		s, _, err := tokenCommands{c}.sandbox(cmd, &t)
		if err != nil {
			return err
		}
		got, err := s.Delegate(cmd.Context(), d)
		if err != nil {
			return err
		}
		if granted, err := scopes.ParseSet(got.Scope); err != nil || !asked.Covers(granted) {
			return fail("the response delegates a wider scope than was requested", "check that --url is that of an ebb, and complete the task "+out.Line(got.TaskID))
		}
		return out.One(c.stdout, c.format, delegatedColumns, delegated{
			TaskID: got.TaskID, Scope: got.Scope, ExpiresAt: got.ExpiresAt, Uses: got.Uses, Expect: got.Expect,
			Ticket: got.Ticket.Reveal(), TicketExpiresAt: got.TicketExpiresAt,
		})
	})
	return c.output(c.sandboxed(cmd))
}
