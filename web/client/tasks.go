package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/wire"
)

// TasksService opens tasks and controls them until they end.
type TasksService struct{ *session }

// TaskFilter selects tasks. Zero members match every task.
type TaskFilter struct {
	State  wire.TaskState
	Open   bool // open or paused
	Owner  string
	Runner string
	Kind   string
	Page   Page
}

// Ticket is an enrolment ticket.
type Ticket struct {
	Ticket    secret.Secret // single-use; give it to the sandbox only
	ExpiresAt time.Time
}

// ticketOf returns nil for a response without a ticket.
func ticketOf(ticket string, expires time.Time) *Ticket {
	if ticket == "" {
		return nil
	}
	return &Ticket{Ticket: secret.New(ticket), ExpiresAt: expires}
}

// Open opens a task. The ticket is nil unless spec asked for one.
func (s *TasksService) Open(ctx context.Context, spec wire.TaskSpec) (wire.Task, *Ticket, error) {
	var ans wire.OpenedTask
	if err := s.do(ctx, http.MethodPost, "/v1/tasks", nil, spec, &ans); err != nil {
		return wire.Task{}, nil, err
	}
	return ans.Task, ticketOf(ans.Ticket, ans.TicketExpiresAt), nil
}

// List lists tasks.
func (s *TasksService) List(ctx context.Context, f TaskFilter) (wire.List[wire.Task], error) {
	q := pageQuery(f.Page)
	set(q, "state", string(f.State))
	set(q, "owner", f.Owner)
	set(q, "runner", f.Runner)
	set(q, "kind", f.Kind)
	if f.Open {
		q.Set("open", "true")
	}
	var out wire.List[wire.Task]
	return out, s.do(ctx, http.MethodGet, "/v1/tasks", q, nil, &out)
}

// Get returns one task.
func (s *TasksService) Get(ctx context.Context, id string) (wire.Task, error) {
	var out wire.Task
	return out, s.do(ctx, http.MethodGet, taskPath(id, ""), nil, nil, &out)
}

// NewTicket creates another enrolment ticket. ttl is its lifetime, at most 15 minutes; 0 = the server's default.
func (s *TasksService) NewTicket(ctx context.Context, taskID string, ttl time.Duration) (Ticket, error) {
	var ans wire.Ticket
	q := url.Values{}
	if ttl != 0 {
		q.Set("ttl_seconds", strconv.FormatInt(int64(ttl/time.Second), 10))
	}
	if err := s.do(ctx, http.MethodPost, taskPath(taskID, "/ticket"), q, nil, &ans); err != nil {
		return Ticket{}, err
	}
	t := ticketOf(ans.Ticket, ans.TicketExpiresAt)
	if t == nil {
		return Ticket{}, badAnswer("contains no ticket", nil)
	}
	return *t, nil
}

// Heartbeat sends the runner's heartbeat.
func (s *TasksService) Heartbeat(ctx context.Context, taskID string) (wire.Task, error) {
	return s.move(ctx, taskID, "/heartbeat", nil)
}

// Pause stops minting. Existing tokens stay valid.
func (s *TasksService) Pause(ctx context.Context, taskID, reason string) (wire.Task, error) {
	return s.move(ctx, taskID, "/pause", wire.ReasonBody{Reason: reason})
}

// Taint reports untrusted content that the task has read, by source, such as
// "public-issue-comments". Policies and approvers see it.
func (s *TasksService) Taint(ctx context.Context, taskID string, sources ...string) (wire.Task, error) {
	return s.move(ctx, taskID, "/taint", wire.TaintBody{Sources: sources})
}

// Resume lets a paused task mint again.
func (s *TasksService) Resume(ctx context.Context, taskID string) (wire.Task, error) {
	return s.move(ctx, taskID, "/resume", nil)
}

func (s *TasksService) move(ctx context.Context, id, verb string, in any) (wire.Task, error) {
	var out wire.Task
	return out, s.do(ctx, http.MethodPost, taskPath(id, verb), nil, in, &out)
}

// Complete completes a task and revokes its credentials. It is idempotent:
// repeat it until it succeeds. It does not wait for third parties:
// Completion.PendingRevocations is the number of credentials that are not yet known to be
// dead there.
func (s *TasksService) Complete(ctx context.Context, taskID string) (wire.Completion, error) {
	return s.CompleteWithin(ctx, taskID, 0)
}

// MaxWait is the longest time that CompleteWithin waits.
const MaxWait = 60 * time.Second

// CompleteWithin is Complete that waits up to wait, at most MaxWait, until the
// task's credentials are dead at third parties.
func (s *TasksService) CompleteWithin(ctx context.Context, taskID string, wait time.Duration) (wire.Completion, error) {
	var out wire.Completion
	q := url.Values{}
	if wait > 0 {
		q.Set("wait_seconds", strconv.Itoa(int(wait/time.Second)))
	}
	return out, s.doWait(ctx, http.MethodPost, taskPath(taskID, "/complete"), q, nil, &out, wait)
}

// Receipt returns the signed receipt of a completed task: how its credentials
// ended at third parties, as far as known now. Only jws is signed: verify it
// with ebb's keys ('ebb task receipt verify').
func (s *TasksService) Receipt(ctx context.Context, taskID string) (r wire.Receipt, jws string, err error) {
	var out wire.ReceiptAnswer
	err = s.do(ctx, http.MethodGet, taskPath(taskID, "/receipt"), nil, nil, &out)
	return out.Contents, out.Receipt, err
}

// Stop stops a task and revokes its credentials, with a reason.
func (s *TasksService) Stop(ctx context.Context, taskID, reason string) (wire.Completion, error) {
	var out wire.Completion
	return out, s.doWait(ctx, http.MethodPost, taskPath(taskID, "/stop"), nil, wire.ReasonBody{Reason: reason}, &out, 0)
}

// StopOwner stops every open and paused task of an owner. One call begins to stop
// tasks for 30 s: repeat it while OwnerStop.More is set.
func (s *TasksService) StopOwner(ctx context.Context, owner, reason string) (wire.OwnerStop, error) {
	var out wire.OwnerStop
	sum := sha256.Sum256([]byte(owner))
	return out, s.doWait(ctx, http.MethodPost, "/v1/owners/"+hex.EncodeToString(sum[:])+"/stop", nil, wire.OwnerStopBody{Owner: owner, Reason: reason}, &out, MaxWait)
}

func taskPath(id, verb string) string { return "/v1/tasks/" + url.PathEscape(id) + verb }
