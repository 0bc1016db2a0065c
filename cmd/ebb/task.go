package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/cmd/internal/command"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// taskCommands holds the sub-commands of ebb task.
type taskCommands struct{ *cli }

var taskColumns = []out.Column[wire.Task]{
	{Name: "id", Cell: func(t wire.Task) string { return t.ID }, Form: out.ID},
	{Name: "state", Cell: func(t wire.Task) string { return string(t.State) }},
	{Name: "name", Cell: func(t wire.Task) string { return t.Name }},
	{Name: "kind", Cell: func(t wire.Task) string { return t.Kind }, Show: out.Full},
	{Name: "owner", Cell: func(t wire.Task) string { return t.Owner }},
	{Name: "runner", Cell: func(t wire.Task) string { return t.Runner }, Show: out.Full},
	{Name: "opened_at", Cell: func(t wire.Task) string { return out.Time(t.OpenedAt) }, Form: out.When},
	{Name: "deadline", Cell: func(t wire.Task) string { return out.Time(t.Deadline) }, Form: out.When},
	{Name: "cause", Cell: func(t wire.Task) string { return string(t.Cause) }},
	{Name: "closed_at", Cell: func(t wire.Task) string { return out.Time(t.ClosedAt) }, Form: out.When, Show: out.Full},
}

// taskDetails are the columns of a single task.
var taskDetails = append(append([]out.Column[wire.Task]{}, taskColumns...),
	out.Column[wire.Task]{Name: "closed_by", Cell: func(t wire.Task) string { return t.ClosedBy }},
	out.Column[wire.Task]{Name: "paused_by", Cell: func(t wire.Task) string { return t.PausedBy }},
	out.Column[wire.Task]{Name: "paused_as", Cell: func(t wire.Task) string { return string(t.PausedAs) }},
	out.Column[wire.Task]{Name: "reason", Cell: func(t wire.Task) string { return t.Reason }},
	out.Column[wire.Task]{Name: "ceiling", Cell: func(t wire.Task) string { return t.Ceiling }},
	out.Column[wire.Task]{Name: "labels", Cell: func(t wire.Task) string { return out.Pairs(t.Labels) }},
	out.Column[wire.Task]{Name: "heartbeat_seconds", Cell: func(t wire.Task) string { return out.Int(t.Heartbeat) }},
	out.Column[wire.Task]{Name: "attestor", Cell: func(t wire.Task) string { return t.Expect.Attestor }},
	out.Column[wire.Task]{Name: "selectors", Cell: func(t wire.Task) string { return out.Pairs(t.Expect.Selectors) }},
	out.Column[wire.Task]{Name: "ancestors", Cell: func(t wire.Task) string { return strings.Join(t.Ancestors, " ") }},
	out.Column[wire.Task]{Name: "sandbox", Cell: func(t wire.Task) string {
		if t.Sandbox == nil {
			return ""
		}
		return t.Sandbox.ID + " " + t.Sandbox.Subject
	}},
)

// opened is the output of `ebb task open`.
type opened struct {
	Task            wire.Task `json:"task"`
	Ticket          string    `json:"ticket,omitempty"`
	TicketExpiresAt time.Time `json:"ticket_expires_at,omitzero"`
}

func newTask(c *cli) *cobra.Command {
	return c.group("task", "Open, list and complete tasks",
		taskCommands{c}.taskOpen(), taskCommands{c}.taskList(), taskCommands{c}.taskTicket(), taskCommands{c}.taskTaint(),
		onOne(c, "show TASK", "Show one task", taskDetails, func(o *client.Operator) action[wire.Task] { return named(c.taskIDs(o).read, o.Tasks.Get) }),
		onOne(c, "heartbeat TASK", "Send a heartbeat of the runner", taskDetails, func(o *client.Operator) action[wire.Task] { return named(c.taskIDs(o).change, o.Tasks.Heartbeat) }),
		onOneFor(c, "pause TASK", "Pause a task: no new credentials; live ones stay valid", taskDetails, func(o *client.Operator) actionFor[wire.Task] { return namedFor(c.taskIDs(o).change, o.Tasks.Pause) }),
		onOne(c, "resume TASK", "Resume a paused task; a task that an operator paused can only be resumed by an operator", taskDetails, func(o *client.Operator) action[wire.Task] { return named(c.taskIDs(o).change, o.Tasks.Resume) }),
		taskCommands{c}.taskComplete(), newReceipt(c), taskCommands{c}.taskStop(), taskCommands{c}.taskWatch(),
	)
}

// taskFlags are the flags that describe a task, shared with `ebb run`.
type taskFlags struct {
	name, kind, owner, attestor string
	ttl, heartbeat              time.Duration
	scope                       []string
	labels, selectors           map[string]string
	caps                        wire.Caps
	delegation                  wire.Delegation
}

func (t *taskFlags) add(cmd *cobra.Command, heartbeat time.Duration) {
	f := cmd.Flags()
	f.StringVar(&t.name, "name", "task", "name of the task, for people")
	f.StringVar(&t.kind, "kind", "adhoc", "kind of task, for policies")
	f.StringVar(&t.owner, "owner", "", "person on whose behalf the task runs; default: the principal")
	f.StringVar(&t.attestor, "attestor", "enroll", "attestor of the sandbox")
	f.StringToStringVar(&t.selectors, "selector", nil, "selector that the sandbox's evidence must have, `name=value`")
	f.StringToStringVar(&t.labels, "label", nil, "label, `name=value`")
	f.StringSliceVar(&t.scope, "scope", nil, "ceiling of all credentials of the task; provider:resource:action, repeatable")
	f.DurationVar(&t.ttl, "ttl", time.Hour, "deadline of the task from now")
	f.DurationVar(&t.heartbeat, "heartbeat", heartbeat, "the task ends this long after its last heartbeat; 0 = no heartbeats needed")
	f.IntVar(&t.caps.Leases, "max-leases", 0, "maximum number of live credentials; 0 = the server's default")
	f.IntVar(&t.caps.MintsPerMinute, "max-mints", 0, "maximum number of token requests per minute; 0 = the server's default")
	f.IntVar(&t.caps.Uses, "uses", 0, "maximum number of credentials in total, including those of delegated tasks; 0 = no limit")
	f.IntVar(&t.delegation.Depth, "delegate", 0, "levels of delegation that the sandbox may use; 0 = none")
	f.IntVar(&t.delegation.Open, "delegates", 0, "maximum number of delegated tasks at one time; 0 = the server's default")
	f.StringVar(&t.delegation.Expect.Attestor, "delegate-attestor", "enroll", "attestor of delegated sandboxes")
	f.StringToStringVar(&t.delegation.Expect.Selectors, "delegate-selector", nil, "selector that the evidence of delegated sandboxes must have, `name=value`")
	f.IntVar(&t.caps.OpenRequests, "max-requests", 0, "maximum number of requests that wait for an approval; 0 = the server's default")
}

func (t *taskFlags) spec(ticket bool) (wire.TaskSpec, error) {
	set, err := parseScopes(t.scope)
	if err != nil {
		return wire.TaskSpec{}, err
	}
	if set.Empty() {
		return wire.TaskSpec{}, usage("the task has no ceiling", "set the ceiling of its credentials with --scope, such as 'orders:eu/**:*'")
	}
	var delegation *wire.Delegation
	if t.delegation.Depth != 0 {
		delegation = &t.delegation
	}
	return wire.TaskSpec{
		Delegation: delegation,
		Name:       t.name, Kind: t.kind, Owner: t.owner, Labels: t.labels, TTL: int64(t.ttl / time.Second), Ceiling: set.String(), Caps: t.caps,
		Expect: wire.Expect{Attestor: t.attestor, Selectors: t.selectors}, Heartbeat: int64(t.heartbeat / time.Second), Ticket: ticket,
	}, nil
}

func (c taskCommands) taskOpen() *cobra.Command {
	var flags taskFlags
	var ticket bool
	cmd := &cobra.Command{Use: "open", Short: "Open a task", Args: cobra.NoArgs}
	flags.add(cmd, 0)
	cmd.Flags().BoolVar(&ticket, "ticket", false, "also print a single-use enrolment ticket for the sandbox")
	var life ticketLife
	cmd.Flags().Var(&life, "ticket-ttl", "lifetime of the ticket, 1s to 15m, with --ticket; default: the server's, 1m")
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		spec, err := flags.spec(ticket)
		if err != nil {
			return err
		}
		if life != 0 && !ticket {
			return usage("--ticket-ttl is the lifetime of a ticket", "add --ticket")
		}
		spec.TicketTTL = int64(time.Duration(life) / time.Second)
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		t, tk, err := o.Tasks.Open(cmd.Context(), spec)
		if err != nil {
			return err
		}
		answer := opened{Task: t}
		if tk != nil {
			answer.Ticket, answer.TicketExpiresAt = tk.Ticket.Reveal(), tk.ExpiresAt
		}
		return out.One(c.stdout, c.format, []out.Column[opened]{
			{Name: "task", Cell: func(o opened) string { return o.Task.ID }, Form: out.ID},
			{Name: "deadline", Cell: func(o opened) string { return out.Time(o.Task.Deadline) }, Form: out.When},
			{Name: "ticket", Cell: func(o opened) string { return o.Ticket }},
			{Name: "ticket_expires_at", Cell: func(o opened) string { return out.Time(o.TicketExpiresAt) }, Form: out.When},
		}, answer)
	})
	return c.output(c.remote(cmd))
}

// filterFlags adds the flags that select tasks.
func filterFlags(cmd *cobra.Command, f *client.TaskFilter) {
	cmd.Flags().StringVar(&f.Owner, "owner", "", "of this owner")
	cmd.Flags().StringVar(&f.Runner, "runner", "", "of this runner")
	cmd.Flags().StringVar(&f.Kind, "kind", "", "of this kind")
}

func (c taskCommands) taskList() *cobra.Command {
	var f client.TaskFilter
	var state string
	cmd := &cobra.Command{Use: "list", Short: "List tasks, newest first", Args: cobra.NoArgs}
	cmd.Flags().Var(command.NewChoice(&state, "open", "paused", "closed"), "state", "in this state")
	cmd.Flags().BoolVar(&f.Open, "open", false, "only tasks that have not ended")
	filterFlags(cmd, &f)
	limit := limitFlag(cmd)
	cmd.RunE = c.do(func(cmd *cobra.Command, _ []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		f.State = wire.TaskState(state)
		items, err := pages(*limit, func(p client.Page) (wire.List[wire.Task], error) {
			f.Page = p
			return o.Tasks.List(cmd.Context(), f)
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
	return cmd.Flags().Int("limit", 50, "at most this many; 0 = all")
}

// pages reads pages of a list until limit items, newest first.
func pages[T any](limit int, get func(client.Page) (wire.List[T], error)) ([]T, error) {
	var all []T
	p := client.Page{Desc: true}
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

var completionColumns = []out.Column[wire.Completion]{
	{Name: "task", Cell: func(x wire.Completion) string { return x.Task.ID }, Form: out.ID},
	{Name: "state", Cell: func(x wire.Completion) string { return string(x.Task.State) }},
	{Name: "cause", Cell: func(x wire.Completion) string { return string(x.Task.Cause) }},
	{Name: "already_complete", Cell: func(x wire.Completion) string {
		if x.Already {
			return "yes"
		}
		return ""
	}},
	{Name: "revoked", Cell: func(x wire.Completion) string { return strconv.Itoa(x.Revoked) }},
	{Name: "already_expired", Cell: func(x wire.Completion) string { return strconv.Itoa(x.AlreadyExpired) }},
	{Name: "delegated_tasks", Cell: func(x wire.Completion) string { return strconv.Itoa(x.Delegated) }},
	{Name: "withdrawn_pending", Cell: func(x wire.Completion) string { return strconv.Itoa(x.Withdrawn) }},
	{Name: "pending_revocations", Cell: func(x wire.Completion) string { return strconv.Itoa(x.PendingRevocations) }},
}

func (c taskCommands) taskComplete() *cobra.Command {
	var wait time.Duration
	cmd := onOne(c.cli, "complete TASK", "Complete a task: every credential of it is refused when the command returns", completionColumns,
		func(o *client.Operator) action[wire.Completion] {
			return named(c.taskIDs(o).change, func(ctx context.Context, id string) (wire.Completion, error) {
				return o.Tasks.CompleteWithin(ctx, id, wait)
			})
		})
	cmd.Long = `Complete a task. When the command returns, ebb refuses every credential of the task.
Those of third parties are revoked there in the background; "pending_revocations" is the number of
pending revocations. With --wait the command waits for them. The JSON output contains
the signed receipt.`
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait for pending revocations: 10s, or the given time such as --wait=30s, at most 60s")
	cmd.Flags().Lookup("wait").NoOptDefVal = broker.DefaultWait.String()
	return cmd
}

// taskTaint does not use onOne, because it has further arguments.
func (c taskCommands) taskTaint() *cobra.Command {
	cmd := &cobra.Command{
		Use: "taint TASK SOURCE...", Short: "Report that a task has read untrusted sources, such as public-issue-comments",
		Long: "Report that a task has read untrusted sources, such as public-issue-comments, which\nthird parties can write. Policies and approvers see the taint. It cannot be removed.",
		Args: cobra.MinimumNArgs(2),
	}
	cmd.RunE = c.do(func(cmd *cobra.Command, args []string) error {
		o, err := c.operator(operatorKey)
		if err != nil {
			return err
		}
		id, err := c.taskIDs(o).change(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		t, err := o.Tasks.Taint(cmd.Context(), id, args[1:]...)
		if err != nil {
			return err
		}
		return out.One(c.stdout, c.format, taskDetails, t)
	})
	return c.output(c.remote(cmd))
}

func (c taskCommands) taskTicket() *cobra.Command {
	columns := []out.Column[opened]{
		{Name: "ticket", Cell: func(o opened) string { return o.Ticket }},
		{Name: "ticket_expires_at", Cell: func(o opened) string { return out.Time(o.TicketExpiresAt) }, Form: out.When},
	}
	var life ticketLife
	cmd := onOne(c.cli, "ticket TASK", "Print another single-use enrolment ticket", columns, func(o *client.Operator) action[opened] {
		return named(c.taskIDs(o).change, func(ctx context.Context, id string) (opened, error) {
			tk, err := o.Tasks.NewTicket(ctx, id, time.Duration(life))
			if err != nil {
				return opened{}, err
			}
			return opened{Task: wire.Task{ID: id}, Ticket: tk.Ticket.Reveal(), TicketExpiresAt: tk.ExpiresAt}, nil
		})
	})
	cmd.Flags().Var(&life, "ticket-ttl", "lifetime of the ticket, 1s to 15m; default: the server's, 1m")
	return cmd
}

// ticketLife is the value of --ticket-ttl, 0 if it is not set. The server has the maximum.
type ticketLife time.Duration

// Type implements the flag value.
func (*ticketLife) Type() string { return "duration" }

// String implements the flag value.
func (l *ticketLife) String() string {
	if *l == 0 {
		return ""
	}
	return time.Duration(*l).String()
}

// Set implements the flag value. 0 would mean the default of the server.
func (l *ticketLife) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second {
		return errors.New("write a duration of at least 1s, such as 15m")
	}
	*l = ticketLife(d)
	return nil
}
