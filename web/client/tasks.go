package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"ebb/broker"
	"ebb/broker/provider"
	"ebb/broker/receipt"
)

// List is one page of a listing.
type List[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"` // Page.After of the next page; "" = this is the last
}

func pageQuery(p broker.Page) url.Values {
	q := url.Values{}
	set(q, "after", p.After)
	if p.Limit > 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.Desc {
		q.Set("order", "desc")
	}
	return q
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func setTime(q url.Values, name string, t time.Time) {
	if !t.IsZero() {
		q.Set(name, t.UTC().Format(time.RFC3339Nano))
	}
}

// ticketAnswer is a ticket on the wire.
type ticketAnswer struct {
	Ticket    string    `json:"ticket"`
	ExpiresAt time.Time `json:"ticket_expires_at"`
}

func (t ticketAnswer) ticket() *broker.Ticket {
	if t.Ticket == "" {
		return nil
	}
	return &broker.Ticket{Ticket: provider.NewSecret(t.Ticket), ExpiresAt: t.ExpiresAt}
}

// OpenTask opens a task. The ticket is nil unless spec asked for one.
func (o *Operator) OpenTask(ctx context.Context, spec broker.TaskSpec) (broker.Task, *broker.Ticket, error) {
	var ans struct {
		Task broker.Task `json:"task"`
		ticketAnswer
	}
	if err := o.do(ctx, http.MethodPost, "/v1/tasks", nil, spec, &ans); err != nil {
		return broker.Task{}, nil, err
	}
	return ans.Task, ans.ticket(), nil
}

// Tasks lists tasks; zero members of f match everything. IDs and ClosedFrom are
// not sent.
func (o *Operator) Tasks(ctx context.Context, f broker.TaskFilter) (List[broker.Task], error) {
	q := pageQuery(f.Page)
	set(q, "state", string(f.State))
	set(q, "owner", f.Owner)
	set(q, "runner", f.Runner)
	set(q, "kind", f.Kind)
	if f.Open {
		q.Set("open", "true")
	}
	var out List[broker.Task]
	return out, o.do(ctx, http.MethodGet, "/v1/tasks", q, nil, &out)
}

// Task reads one task.
func (o *Operator) Task(ctx context.Context, id string) (broker.Task, error) {
	var out broker.Task
	return out, o.do(ctx, http.MethodGet, taskPath(id, ""), nil, nil, &out)
}

// Ticket makes another enrolment ticket.
func (o *Operator) Ticket(ctx context.Context, taskID string) (broker.Ticket, error) {
	var ans ticketAnswer
	if err := o.do(ctx, http.MethodPost, taskPath(taskID, "/ticket"), nil, nil, &ans); err != nil {
		return broker.Ticket{}, err
	}
	t := ans.ticket()
	if t == nil {
		return broker.Ticket{}, badAnswer("holds no ticket", nil)
	}
	return *t, nil
}

// Heartbeat says that the runner is alive.
func (o *Operator) Heartbeat(ctx context.Context, taskID string) (broker.Task, error) {
	return o.move(ctx, taskID, "/heartbeat", nil)
}

// Pause stops minting; live tokens stay.
func (o *Operator) Pause(ctx context.Context, taskID, reason string) (broker.Task, error) {
	return o.move(ctx, taskID, "/pause", reasonBody{reason})
}

// Taint reports what a task has read that others can write, such as
// "public-issue-comments". Policies and approvers see it.
func (o *Operator) Taint(ctx context.Context, taskID string, sources ...string) (broker.Task, error) {
	return o.move(ctx, taskID, "/taint", struct {
		Sources []string `json:"sources"`
	}{sources})
}

// Resume lets a paused task mint again.
func (o *Operator) Resume(ctx context.Context, taskID string) (broker.Task, error) {
	return o.move(ctx, taskID, "/resume", nil)
}

type reasonBody struct {
	Reason string `json:"reason"`
}

func (o *Operator) move(ctx context.Context, id, verb string, in any) (broker.Task, error) {
	var out broker.Task
	return out, o.do(ctx, http.MethodPost, taskPath(id, verb), nil, in, &out)
}

// Complete ends a task and every credential of it. It is idempotent: repeat it
// until it succeeds. It does not wait for third parties: Completion.Owed is how many credentials
// are not yet known to be dead there.
func (o *Operator) Complete(ctx context.Context, taskID string) (broker.Completion, error) {
	return o.CompleteWithin(ctx, taskID, 0)
}

// CompleteWithin is Complete that waits up to wait, at most broker.MaxWait, for the
// task's credentials at third parties to be dead there.
func (o *Operator) CompleteWithin(ctx context.Context, taskID string, wait time.Duration) (broker.Completion, error) {
	var out broker.Completion
	q := url.Values{}
	if wait > 0 {
		q.Set("wait_seconds", strconv.Itoa(int(wait/time.Second)))
	}
	return out, o.doWait(ctx, http.MethodPost, taskPath(taskID, "/complete"), q, nil, &out, wait)
}

// Receipt proves how the credentials of a completed task ended at third parties, as
// far as that is known now. jws is for receipt.Verify; the contents are not verified.
func (o *Operator) Receipt(ctx context.Context, taskID string) (r receipt.Receipt, jws string, err error) {
	var out struct {
		Receipt  string          `json:"receipt"`
		Contents receipt.Receipt `json:"contents"`
	}
	err = o.do(ctx, http.MethodGet, taskPath(taskID, "/receipt"), nil, nil, &out)
	return out.Contents, out.Receipt, err
}

// Stop ends a task for cause.
func (o *Operator) Stop(ctx context.Context, taskID, reason string) (broker.Completion, error) {
	var out broker.Completion
	return out, o.doWait(ctx, http.MethodPost, taskPath(taskID, "/stop"), nil, reasonBody{reason}, &out, 0)
}

func taskPath(id, verb string) string { return "/v1/tasks/" + url.PathEscape(id) + verb }
