package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/receipt"
	"github.com/ebb-broker/ebb/broker/revocation"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

// taskLifecycle is the part of the broker that begins and ends tasks.
type taskLifecycle interface {
	OpenTask(ctx context.Context, who broker.Principal, spec broker.TaskSpec) (broker.Task, *broker.Ticket, error)
	NewTicket(ctx context.Context, who broker.Principal, taskID string, ttl broker.Seconds) (broker.Ticket, error)
	CompleteTask(ctx context.Context, who broker.Principal, taskID string, wait time.Duration) (broker.Completion, error)
	StopTask(ctx context.Context, who broker.Principal, taskID string, reason string, wait time.Duration) (broker.Completion, error)
	StopTasksOf(ctx context.Context, who broker.Principal, owner, reason string) (broker.OwnerStop, error)
	Receipt(ctx context.Context, who broker.Principal, taskID string) (r receipt.Receipt, jws string, err error)
}

// taskControl is the part of the broker that reads running tasks and changes their state.
type taskControl interface {
	Task(ctx context.Context, who broker.Principal, id string) (broker.Task, error)
	Tasks(ctx context.Context, who broker.Principal, f broker.TaskFilter) ([]broker.Task, error)
	Beat(ctx context.Context, who broker.Principal, taskID string) (broker.Task, error)
	PauseTask(ctx context.Context, who broker.Principal, taskID string, reason string) (broker.Task, error)
	ResumeTask(ctx context.Context, who broker.Principal, taskID string) (broker.Task, error)
	TaintTask(ctx context.Context, who broker.Principal, taskID string, sources []string) (broker.Task, error)
}

func (a *API) openTask(c echo.Context, who broker.Principal, body wire.TaskSpec) (wire.OpenedTask, error) {
	spec, err := brokerTaskSpec(body)
	if err != nil {
		return wire.OpenedTask{}, err
	}
	t, ticket, err := a.lifecycle.OpenTask(c.Request().Context(), who, spec)
	if err != nil {
		return wire.OpenedTask{}, err
	}
	web.EventOf(c).TaskID = t.ID
	return wireOpenedTask(t, ticket), nil
}

func (a *API) tasks(c echo.Context, who broker.Principal, _ web.None) (wire.List[wire.Task], error) {
	q := readQuery(c)
	f := broker.TaskFilter{
		State: broker.TaskState(q.oneOf("state", "open", "paused", "closed")),
		Open:  q.flag("open"), Owner: q.text("owner"), Runner: q.text("runner"), Kind: q.text("kind"), Page: q.page(),
	}
	if err := q.done(); err != nil {
		return wire.List[wire.Task]{}, err
	}
	list, err := a.control.Tasks(c.Request().Context(), who, f)
	return paged(list, f.Page.Limit, func(t broker.Task) string { return t.ID }, wireTask), err
}

func (a *API) task(c echo.Context, who broker.Principal, _ web.None) (wire.Task, error) {
	t, err := a.control.Task(c.Request().Context(), who, c.Param("id"))
	return wireTask(t), err
}

func (a *API) newTicket(c echo.Context, who broker.Principal, _ web.None) (wire.Ticket, error) {
	q := readQuery(c)
	ttl := q.number("ttl_seconds", 0, 1, int(broker.MaxTicketTTL/time.Second))
	if err := q.done(); err != nil {
		return wire.Ticket{}, err
	}
	t, err := a.lifecycle.NewTicket(c.Request().Context(), who, c.Param("id"), broker.Seconds(ttl))
	if err != nil {
		return wire.Ticket{}, err
	}
	return wireTicket(t), nil
}

func (a *API) heartbeat(c echo.Context, who broker.Principal, _ web.None) (wire.Task, error) {
	return noted(c)(a.control.Beat(c.Request().Context(), who, c.Param("id")))
}

func (a *API) pauseTask(c echo.Context, who broker.Principal, body wire.ReasonBody) (wire.Task, error) {
	return noted(c)(a.control.PauseTask(c.Request().Context(), who, c.Param("id"), body.Reason))
}

func (a *API) taintTask(c echo.Context, who broker.Principal, body wire.TaintBody) (wire.Task, error) {
	return noted(c)(a.control.TaintTask(c.Request().Context(), who, c.Param("id"), body.Sources))
}

func (a *API) resumeTask(c echo.Context, who broker.Principal, _ web.None) (wire.Task, error) {
	return noted(c)(a.control.ResumeTask(c.Request().Context(), who, c.Param("id")))
}

func (a *API) completeTask(c echo.Context, who broker.Principal, _ web.None) (wire.Completion, error) {
	wait, err := endWait(c)
	if err != nil {
		return wire.Completion{}, err
	}
	return ended(c)(a.lifecycle.CompleteTask(c.Request().Context(), who, c.Param("id"), wait))
}

func (a *API) stopTask(c echo.Context, who broker.Principal, body wire.ReasonBody) (wire.Completion, error) {
	wait, err := endWait(c)
	if err != nil {
		return wire.Completion{}, err
	}
	return ended(c)(a.lifecycle.StopTask(c.Request().Context(), who, c.Param("id"), body.Reason, wait))
}

func (a *API) stopTasks(c echo.Context, who broker.Principal, body wire.OwnerStopBody) (wire.OwnerStop, error) {
	// A DPoP proof covers the path, not the body (RFC 9449 section 4.2). While the live store is down, ebb cannot detect that a
	// proof is used twice. The path names the owner, so a captured proof stops no other owner's tasks.
	if sum := sha256.Sum256([]byte(body.Owner)); c.Param("digest") != hex.EncodeToString(sum[:]) {
		return wire.OwnerStop{}, broker.E(broker.Invalid, "The path must name the SHA-256 of owner, in lower-case hex.", nil)
	}
	outlast(c, revocation.StopTime+closeTime)
	out, err := a.lifecycle.StopTasksOf(c.Request().Context(), who, body.Owner, body.Reason)
	return wireOwnerStop(out), err
}

// endWait returns the time to wait for pending revocations at third parties:
// wait_seconds, or else the preference "wait" (RFC 7240 section 4.3), or else
// 0.
func endWait(c echo.Context) (time.Duration, error) {
	const most = int(revocation.MaxWait / time.Second)
	q := readQuery(c)
	preferred, asked := preferredWait(c.Request().Header.Values("Prefer"))
	preferred = min(preferred, most)
	seconds := q.number("wait_seconds", preferred, 0, most)
	if err := q.done(); err != nil {
		return 0, err
	}
	if asked && seconds == preferred {
		c.Response().Header().Set("Preference-Applied", "wait="+strconv.Itoa(seconds))
	}
	wait := time.Duration(seconds) * time.Second
	outlast(c, wait+closeTime)
	return wait, nil
}

// preferredWait reads the first "wait" of the Prefer fields. A malformed or
// unknown preference is ignored (RFC 7240 section 2).
func preferredWait(fields []string) (seconds int, asked bool) {
	for _, p := range strings.Split(strings.Join(fields, ","), ",") {
		p, _, _ = strings.Cut(p, ";") // without its parameters
		name, value, _ := strings.Cut(p, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "wait") {
			continue
		}
		n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
		return int(n), err == nil
	}
	return 0, false
}

// closeTime is the time for completing or stopping a task, without the wait.
const closeTime = 30 * time.Second

func (a *API) receipt(c echo.Context, who broker.Principal, _ web.None) (wire.ReceiptAnswer, error) {
	r, jws, err := a.lifecycle.Receipt(c.Request().Context(), who, c.Param("id"))
	web.EventOf(c).TaskID = r.Task
	return wire.ReceiptAnswer{Receipt: jws, Contents: wireReceipt(r)}, err
}

// noted adds the task's id to the log event of the request.
func noted(c echo.Context) func(broker.Task, error) (wire.Task, error) {
	return func(t broker.Task, err error) (wire.Task, error) {
		web.EventOf(c).TaskID = t.ID
		return wireTask(t), err
	}
}

// ended does the same for the response to complete and stop.
func ended(c echo.Context) func(broker.Completion, error) (wire.Completion, error) {
	return func(out broker.Completion, err error) (wire.Completion, error) {
		web.EventOf(c).TaskID = out.Task.ID
		return wireCompletion(out), err
	}
}

func wireTask(t broker.Task) wire.Task {
	return wire.Task{
		ID: t.ID, Name: t.Name, Kind: t.Kind, Owner: t.Owner, Runner: t.Runner, Labels: t.Labels, Ceiling: t.Ceiling.String(),
		Caps: wire.Caps(t.Caps), Expect: wire.Expect(t.Expect), Heartbeat: seconds(t.Heartbeat), OpenedAt: t.OpenedAt, Deadline: t.Deadline,
		Delegation: ref(t.Delegation, wireDelegation), Ancestors: t.Ancestors,
		State: wire.TaskState(t.State), Cause: wire.Cause(t.Cause), Reason: t.Reason, PausedBy: t.PausedBy, PausedAs: wire.Role(t.PausedAs),
		ClosedAt: t.ClosedAt, ClosedBy: t.ClosedBy, Sandbox: ref(t.Sandbox, wireSandbox),
	}
}

func wireSandbox(s broker.Sandbox) wire.Sandbox { return wire.Sandbox(s) }

func wireDelegation(d broker.Delegation) wire.Delegation {
	return wire.Delegation{Expect: wire.Expect(d.Expect), Depth: d.Depth, Open: d.Open}
}

func brokerDelegation(d wire.Delegation) broker.Delegation {
	return broker.Delegation{Expect: broker.Expect(d.Expect), Depth: d.Depth, Open: d.Open}
}

func brokerTaskSpec(s wire.TaskSpec) (broker.TaskSpec, error) {
	ceiling, err := scopeAt("/ceiling", s.Ceiling)
	if err != nil {
		return broker.TaskSpec{}, err
	}
	return broker.TaskSpec{
		Name: s.Name, Kind: s.Kind, Owner: s.Owner, Labels: s.Labels, TTL: broker.Seconds(s.TTL), Ceiling: ceiling,
		Caps: broker.Caps(s.Caps), Expect: broker.Expect(s.Expect), Heartbeat: broker.Seconds(s.Heartbeat), Ticket: s.Ticket, TicketTTL: broker.Seconds(s.TicketTTL),
		Delegation: ref(s.Delegation, brokerDelegation),
	}, nil
}

func wireOpenedTask(t broker.Task, ticket *broker.Ticket) wire.OpenedTask {
	out := wire.OpenedTask{Task: wireTask(t)}
	if ticket != nil {
		out.Ticket, out.TicketExpiresAt = ticket.Ticket.Reveal(), ticket.ExpiresAt
	}
	return out
}

func wireTicket(t broker.Ticket) wire.Ticket {
	return wire.Ticket{Ticket: t.Ticket.Reveal(), TicketExpiresAt: t.ExpiresAt}
}

// wireCompletion writes a missing list of credentials as an empty list.
func wireCompletion(c broker.Completion) wire.Completion {
	out := wire.Completion{
		Task: wireTask(c.Task), Already: c.Already, Revoked: c.Revoked, AlreadyExpired: c.AlreadyExpired, Withdrawn: c.Withdrawn,
		Credentials: each(c.Credentials, wireLease), Delegated: c.Delegated, PendingRevocations: c.PendingRevocations, Receipt: c.Receipt,
	}
	if out.Credentials == nil {
		out.Credentials = []wire.Lease{}
	}
	return out
}

// wireOwnerStop writes a missing list of tasks as an empty list.
func wireOwnerStop(s broker.OwnerStop) wire.OwnerStop {
	out := wire.OwnerStop{Owner: s.Owner, Tasks: each(s.Tasks, func(t broker.StoppedTask) wire.StoppedTask { return wire.StoppedTask(t) }), More: s.More}
	if out.Tasks == nil {
		out.Tasks = []wire.StoppedTask{}
	}
	return out
}

func wireReceipt(r receipt.Receipt) wire.Receipt {
	return wire.Receipt{
		Issuer: r.Issuer, IssuedAt: r.IssuedAt, Task: r.Task, ClosedAt: r.ClosedAt, Cause: r.Cause, Delegated: r.Delegated,
		Live: r.Live, Expired: r.Expired, Uncounted: r.Uncounted, Complete: r.Complete, Total: r.Total, States: r.States,
		Credentials: each(r.Credentials, func(c receipt.Credential) wire.ReceiptCredential { return wire.ReceiptCredential(c) }),
		Rest:        ref(r.Rest, func(r receipt.Rest) wire.ReceiptRest { return wire.ReceiptRest(r) }),
	}
}
