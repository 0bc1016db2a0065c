package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ebb/broker"
	"ebb/cmd/ebb/internal/out"
	"ebb/web/client"
)

var taskColumns = []out.Column[broker.Task]{
	{Name: "id", Cell: func(t broker.Task) string { return t.ID }},
	{Name: "state", Cell: func(t broker.Task) string { return string(t.State) }},
	{Name: "name", Cell: func(t broker.Task) string { return t.Name }},
	{Name: "kind", Cell: func(t broker.Task) string { return t.Kind }},
	{Name: "owner", Cell: func(t broker.Task) string { return t.Owner }},
	{Name: "runner", Cell: func(t broker.Task) string { return t.Runner }},
	{Name: "opened_at", Cell: func(t broker.Task) string { return out.Time(t.OpenedAt) }},
	{Name: "deadline", Cell: func(t broker.Task) string { return out.Time(t.Deadline) }},
	{Name: "cause", Cell: func(t broker.Task) string { return string(t.Cause) }},
	{Name: "closed_at", Cell: func(t broker.Task) string { return out.Time(t.ClosedAt) }},
}

// taskDetails are shown of one task.
var taskDetails = append(append([]out.Column[broker.Task]{}, taskColumns...),
	out.Column[broker.Task]{Name: "closed_by", Cell: func(t broker.Task) string { return t.ClosedBy }},
	out.Column[broker.Task]{Name: "paused_by", Cell: func(t broker.Task) string { return t.PausedBy }},
	out.Column[broker.Task]{Name: "paused_as", Cell: func(t broker.Task) string { return string(t.PausedAs) }},
	out.Column[broker.Task]{Name: "reason", Cell: func(t broker.Task) string { return t.Reason }},
	out.Column[broker.Task]{Name: "ceiling", Cell: func(t broker.Task) string { return t.Ceiling.String() }},
	out.Column[broker.Task]{Name: "labels", Cell: func(t broker.Task) string { return out.Pairs(t.Labels) }},
	out.Column[broker.Task]{Name: "heartbeat_seconds", Cell: func(t broker.Task) string { return out.Int(t.Heartbeat) }},
	out.Column[broker.Task]{Name: "attestor", Cell: func(t broker.Task) string { return t.Expect.Attestor }},
	out.Column[broker.Task]{Name: "selectors", Cell: func(t broker.Task) string { return out.Pairs(t.Expect.Selectors) }},
	out.Column[broker.Task]{Name: "ancestors", Cell: func(t broker.Task) string { return strings.Join(t.Ancestors, " ") }},
	out.Column[broker.Task]{Name: "sandbox", Cell: func(t broker.Task) string {
		if t.Sandbox == nil {
			return ""
		}
		return t.Sandbox.ID + " " + t.Sandbox.Subject
	}},
)

// opened is what `ebb task open` prints.
type opened struct {
	Task            broker.Task `json:"task"`
	Ticket          string      `json:"ticket,omitempty"`
	TicketExpiresAt time.Time   `json:"ticket_expires_at,omitzero"`
}

func newTask(c *cli) *cobra.Command {
	return c.group("task", "Open, watch and end tasks",
		c.taskOpen(), c.taskList(), c.taskTicket(), c.taskTaint(),
		onOne(c, "show TASK", "Show one task", taskDetails, (*client.Operator).Task),
		onOne(c, "heartbeat TASK", "Say that the runner is alive", taskDetails, (*client.Operator).Heartbeat),
		onOneFor(c, "pause TASK", "Let nothing mint for now; live credentials stay", taskDetails, (*client.Operator).Pause),
		onOne(c, "resume TASK", "Let a paused task mint again; what an operator paused, only an operator resumes", taskDetails, (*client.Operator).Resume),
		c.taskComplete(), newReceipt(c),
		onOneFor(c, "stop TASK", "End a task for cause", completionColumns, (*client.Operator).Stop),
	)
}

// taskFlags are the flags that describe a task, shared with `ebb run`.
type taskFlags struct {
	name, kind, owner, attestor string
	ttl, heartbeat              time.Duration
	scope                       []string
	labels, selectors           map[string]string
	caps                        broker.Caps
	delegation                  broker.Delegation
}

func (t *taskFlags) add(cmd *cobra.Command, heartbeat time.Duration) {
	f := cmd.Flags()
	f.StringVar(&t.name, "name", "task", "what the task is, for people")
	f.StringVar(&t.kind, "kind", "adhoc", "kind of task, for policies")
	f.StringVar(&t.owner, "owner", "", "on whose behalf; default: the principal")
	f.StringVar(&t.attestor, "attestor", "enroll", "who vouches for the sandbox")
	f.StringToStringVar(&t.selectors, "selector", nil, "what the sandbox's evidence must say, `name=value`")
	f.StringToStringVar(&t.labels, "label", nil, "label, `name=value`")
	f.StringSliceVar(&t.scope, "scope", nil, "ceiling: no credential of the task ever exceeds it; provider:resource:action, repeatable")
	f.DurationVar(&t.ttl, "ttl", time.Hour, "deadline of the task from now")
	f.DurationVar(&t.heartbeat, "heartbeat", heartbeat, "the task ends when no heartbeat came for so long; 0 = none needed")
	f.IntVar(&t.caps.Leases, "max-leases", 0, "live credentials; 0 = the server's default")
	f.IntVar(&t.caps.MintsPerMinute, "max-mints", 0, "token requests a minute; 0 = the server's default")
	f.IntVar(&t.caps.Uses, "uses", 0, "credentials in all, those of delegates included; 0 = no limit")
	f.IntVar(&t.delegation.Depth, "delegate", 0, "the sandbox may hand parts of the task to others, so many times in a row; 0 = not at all")
	f.IntVar(&t.delegation.Open, "delegates", 0, "how many of those at one time; 0 = the server's default")
	f.StringVar(&t.delegation.Expect.Attestor, "delegate-attestor", "enroll", "who vouches for those")
	f.StringToStringVar(&t.delegation.Expect.Selectors, "delegate-selector", nil, "what their evidence must say, `name=value`")
	f.IntVar(&t.caps.OpenRequests, "max-requests", 0, "requests that wait for a person; 0 = the server's default")
}

func (t *taskFlags) spec(ticket bool) (broker.TaskSpec, error) {
	set, err := parseScopes(t.scope)
	if err != nil {
		return broker.TaskSpec{}, err
	}
	if set.Empty() {
		return broker.TaskSpec{}, usage("the task has no ceiling", "say with --scope what its credentials may do at most, such as 'orders:eu/**:*'")
	}
	var delegation *broker.Delegation
	if t.delegation.Depth != 0 {
		delegation = &t.delegation
	}
	return broker.TaskSpec{
		Delegation: delegation,
		Name:       t.name, Kind: t.kind, Owner: t.owner, Labels: t.labels, TTL: broker.Seconds(t.ttl / time.Second), Ceiling: set, Caps: t.caps,
		Expect: broker.Expect{Attestor: t.attestor, Selectors: t.selectors}, Heartbeat: broker.Seconds(t.heartbeat / time.Second), Ticket: ticket,
	}, nil
}

func (c *cli) taskOpen() *cobra.Command {
	var flags taskFlags
	var ticket bool
	cmd := &cobra.Command{Use: "open", Short: "Open a task", Args: cobra.NoArgs}
	flags.add(cmd, 0)
	cmd.Flags().BoolVar(&ticket, "ticket", false, "also print a single-use enrolment ticket for the sandbox")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		spec, err := flags.spec(ticket)
		if err != nil {
			return err
		}
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		t, tk, err := o.OpenTask(cmd.Context(), spec)
		if err != nil {
			return err
		}
		answer := opened{Task: t}
		if tk != nil {
			answer.Ticket, answer.TicketExpiresAt = tk.Ticket.Reveal(), tk.ExpiresAt
		}
		return out.One(c.stdout, c.format, []out.Column[opened]{
			{Name: "task", Cell: func(o opened) string { return o.Task.ID }},
			{Name: "deadline", Cell: func(o opened) string { return out.Time(o.Task.Deadline) }},
			{Name: "ticket", Cell: func(o opened) string { return o.Ticket }},
			{Name: "ticket_expires_at", Cell: func(o opened) string { return out.Time(o.TicketExpiresAt) }},
		}, answer)
	})
	return c.output(c.remote(cmd))
}

func (c *cli) taskList() *cobra.Command {
	var f broker.TaskFilter
	var state string
	cmd := &cobra.Command{Use: "list", Short: "List tasks, newest first", Args: cobra.NoArgs}
	cmd.Flags().StringVar(&state, "state", "", "open, paused or closed")
	cmd.Flags().BoolVar(&f.Open, "open", false, "only those that have not ended")
	cmd.Flags().StringVar(&f.Owner, "owner", "", "of this owner")
	cmd.Flags().StringVar(&f.Runner, "runner", "", "of this runner")
	cmd.Flags().StringVar(&f.Kind, "kind", "", "of this kind")
	limit := limitFlag(cmd)
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		f.State = broker.TaskState(state)
		items, err := pages(*limit, func(p broker.Page) (client.List[broker.Task], error) {
			f.Page = p
			return o.Tasks(cmd.Context(), f)
		})
		if err != nil {
			return err
		}
		return out.List(c.stdout, c.format, taskColumns, items)
	})
	return c.output(c.remote(cmd))
}

// limitFlag adds --limit.
func limitFlag(cmd *cobra.Command) *int {
	return cmd.Flags().Int("limit", 50, "how many at most; 0 = all")
}

// pages follows a listing until limit items, newest first.
func pages[T any](limit int, get func(broker.Page) (client.List[T], error)) ([]T, error) {
	var all []T
	p := broker.Page{Desc: true}
	for {
		p.Limit = 1000
		if left := limit - len(all); limit > 0 {
			p.Limit = min(left, 1000)
		}
		list, err := get(p)
		if err != nil {
			return nil, err
		}
		all = append(all, list.Items...)
		if list.Next == "" || limit > 0 && len(all) >= limit {
			return all, nil
		}
		if list.Next == p.After {
			return nil, fmt.Errorf("the listing does not advance")
		}
		p.After = list.Next
	}
}
