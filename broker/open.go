package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"
	"unicode/utf8"

	"ebb/attest"
	"ebb/attest/jose"
	"ebb/broker/audit"
)

var (
	kindForm  = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	labelForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$`)
)

// OpenTask opens a task for a runner. With spec.Ticket the answer holds an
// enrolment ticket too.
func (b *Broker) OpenTask(ctx context.Context, who Principal, spec TaskSpec) (Task, *Ticket, error) {
	if err := allow(who, certain, RoleRunner, RoleOperator); err != nil {
		return Task{}, nil, err
	}
	if err := b.checkSpec(spec); err != nil {
		return Task{}, nil, err
	}
	if b.down.Load() {
		return Task{}, nil, unavailable(ErrLost)
	}
	if err := b.steadyClock(); err != nil {
		return Task{}, nil, err
	}
	now := b.now()
	owner := spec.Owner
	if owner == "" {
		owner = who.ID
	}
	t := Task{
		ID: newID(taskPrefix), Name: spec.Name, Kind: spec.Kind, Owner: owner, Runner: who.ID, Labels: spec.Labels,
		Ceiling: spec.Ceiling, Caps: spec.Caps.or(b.cfg.Limits.DefaultCaps), Expect: spec.Expect,
		Heartbeat: spec.Heartbeat, OpenedAt: now, Deadline: now.Add(spec.TTL.Duration()), State: TaskOpen, Delegation: spec.Delegation,
	}
	err := b.cfg.Journal.Append(ctx, Record{OpenTask: &t, OpenLimit: b.cfg.Limits.RunnerTasks, Entries: []audit.Entry{
		b.taskEntry(audit.TaskOpened, who.ID, t.ID, map[string]any{
			"name": t.Name, "kind": t.Kind, "owner": t.Owner, "ceiling": t.Ceiling, "deadline": t.Deadline,
			"sandbox_expected": t.Expect, "labels": t.Labels, "caps": t.Caps, "delegation": t.Delegation,
		}),
	}})
	if errors.Is(err, ErrCap) {
		return Task{}, nil, &Error{Kind: TooMany, Public: "This runner has as many open tasks as it may. Complete one, then try again.", Cause: err, RetryAfter: 10 * time.Second}
	}
	if err == nil {
		err = b.cfg.Ledger.PutTask(ctx, Live{Task: t, Due: t.due(now)}, b.keep(t))
	}
	if err != nil {
		b.abandon(t) // the journal may hold it even so: the outcome can be unknown
		return Task{}, nil, unavailable(err)
	}
	b.m.tasks.WithLabelValues("opened").Inc()
	if !spec.Ticket {
		return t, nil, nil
	}
	ticket, err := b.issueTicket(ctx, t.ID)
	if err != nil {
		b.abandon(t)
		return Task{}, nil, err
	}
	return t, &ticket, nil
}

// neverHandedOut is why a task ended whose id nobody was told.
const neverHandedOut = "never handed out"

// abandon ends a task that nobody will know of: it must not stay open.
func (b *Broker) abandon(t Task) {
	b.owe(TaskMove{ID: t.ID, State: TaskClosed, Cause: CauseStopped, By: self, Reason: neverHandedOut, At: t.OpenedAt})
}

// due is the next moment a task must be looked at.
func (t Task) due(now time.Time) time.Time {
	if t.Heartbeat > 0 {
		if beat := now.Add(t.Heartbeat.Duration()); beat.Before(t.Deadline) {
			return beat
		}
	}
	return t.Deadline
}

// keep is until when the ledger must remember a task: no token of it can be
// unexpired afterwards.
func (b *Broker) keep(t Task) time.Time { return t.Deadline.Add(time.Minute) }

func (b *Broker) checkSpec(s TaskSpec) error {
	var what string
	l := b.cfg.Limits
	switch {
	case s.Name == "" || utf8.RuneCountInString(s.Name) > 80 || !jose.Plain(s.Name):
		what = "name must be 1 to 80 printable characters"
	case !kindForm.MatchString(s.Kind):
		what = "kind must be 1 to 64 of a-z 0-9 . _ -"
	case len(s.Owner) > 256 || !jose.Plain(s.Owner):
		what = "owner must be at most 256 printable characters"
	case s.TTL < 1 || s.TTL > Seconds(l.MaxTaskTTL/time.Second):
		what = fmt.Sprintf("ttl_seconds must be 1 to %d", int(l.MaxTaskTTL.Seconds()))
	case s.Ceiling.Empty():
		what = "ceiling must name at least one scope"
	case s.Heartbeat != 0 && (s.Heartbeat < 1 || s.Heartbeat > 3600):
		what = "heartbeat_seconds must be 0 (none) or 1 to 3600"
	case s.Caps.Leases < 0 || s.Caps.Leases > l.MaxCaps.Leases || s.Caps.MintsPerMinute < 0 ||
		s.Caps.MintsPerMinute > l.MaxCaps.MintsPerMinute || s.Caps.OpenRequests < 0 || s.Caps.OpenRequests > l.MaxCaps.OpenRequests:
		what = fmt.Sprintf("caps must be at most leases %d, mints_per_minute %d, open_requests %d", l.MaxCaps.Leases, l.MaxCaps.MintsPerMinute, l.MaxCaps.OpenRequests)
	case s.Caps.Uses < 0:
		what = "caps.uses must be 0 (no limit) or more"
	case len(s.Labels) > 32:
		what = "at most 32 labels"
	}
	what = cmp.Or(what, checkLabels(s.Labels), b.checkExpect("sandbox_expected", s.Expect), b.checkRegistration(s.Expect), b.checkDelegation(s.Delegation))
	if what == "" && s.Ticket && s.Expect.Attestor != enrollName {
		what = "a ticket needs sandbox_expected.attestor " + enrollName
	}
	for _, name := range s.Ceiling.Providers() {
		if _, known := b.cfg.Providers[name]; !known && what == "" {
			return E(InvalidScope, "The ceiling names a provider that is not configured here.", nil)
		}
	}
	if what != "" {
		return E(Invalid, "The task was not opened: "+what+".", nil)
	}
	return nil
}

// checkExpect says what is wrong with a sandbox that a runner announces, "" for
// nothing.
func (b *Broker) checkExpect(name string, e Expect) string {
	if _, known := b.cfg.Attestors[e.Attestor]; !known {
		return name + ".attestor is not configured here"
	}
	if b.people[e.Attestor] {
		return name + ".attestor recognises principals; configure another one, with another audience, for sandboxes"
	}
	// A ticket names its task by itself; every other evidence needs selectors,
	// or any sandbox of that issuer would do.
	if e.Attestor != enrollName || len(e.Selectors) > 0 {
		if err := attest.CheckSelectors(e.Selectors); err != nil {
			return name + ".selectors must name the sandbox: 1 to 64 selectors, none empty"
		}
		if err := attest.CheckNames(b.cfg.Attestors[e.Attestor], e.Selectors); err != nil {
			return name + ".selectors: " + err.Error()
		}
	}
	return ""
}

// checkRegistration asks an attestor that can tell whether e names one sandbox. What
// a runner expects of delegates names none yet: it is asked when there is one.
func (b *Broker) checkRegistration(e Expect) string {
	if r, can := b.cfg.Attestors[e.Attestor].(attest.Registrar); can {
		if err := r.CheckRegistration(e.Selectors); err != nil {
			return "the selectors do not name one sandbox: " + err.Error()
		}
	}
	return ""
}

func checkLabels(labels map[string]string) string {
	for k, v := range labels {
		if !labelForm.MatchString(k) || len(v) > 256 || !jose.Plain(v) {
			return "labels must have names of a-z A-Z 0-9 . _ / - and printable values of at most 256 bytes"
		}
	}
	return ""
}

// NewTicket issues an enrolment ticket for a task. Once the task has its sandbox a
// ticket serves that sandbox's key alone: to ask again for what it did not hear.
func (b *Broker) NewTicket(ctx context.Context, who Principal, taskID string) (Ticket, error) {
	t, err := b.mine(ctx, who, certain, taskID)
	if err != nil {
		return Ticket{}, err
	}
	switch {
	case t.State == TaskClosed:
		return Ticket{}, closedError()
	case t.Expect.Attestor != enrollName:
		return Ticket{}, E(Conflict, "The task expects another attestor than "+enrollName+".", nil)
	}
	return b.issueTicket(ctx, t.ID)
}

// mine loads a task that who may act on: its own, or any for an operator.
func (b *Broker) mine(ctx context.Context, who Principal, need standing, taskID string) (Task, error) {
	if err := allow(who, need, RoleRunner, RoleOperator); err != nil {
		return Task{}, err
	}
	t, err := b.taskByID(ctx, taskID)
	if err != nil {
		return Task{}, err
	}
	if t.Runner != who.ID && !who.Has(RoleOperator) {
		return Task{}, notFoundTask() // another runner's task: say nothing about it
	}
	return t, nil
}

func (b *Broker) taskByID(ctx context.Context, id string) (Task, error) {
	if !validID(taskPrefix, id) {
		return Task{}, notFoundTask()
	}
	ts, err := b.cfg.Journal.Tasks(ctx, TaskFilter{IDs: []string{id}})
	if err != nil {
		return Task{}, unavailable(err)
	}
	if len(ts) == 0 {
		return Task{}, notFoundTask()
	}
	return ts[0], nil
}

func notFoundTask() *Error { return E(NotFound, "There is no such task.", nil) }

func closedError() *Error {
	return E(Conflict, "The task is complete. Nothing of it is alive and nothing mints for it again.", ErrTaskClosed)
}

// ledgerError is taskError for a task that the journal knows: when the ledger does
// not, it has lost it.
func ledgerError(err error) error {
	if errors.Is(err, ErrNotFound) {
		return unavailable(errors.Join(ErrLost, err))
	}
	return taskError(err)
}

// taskError translates the sentinels of the stores.
func taskError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrTaskClosed), errors.Is(err, ErrDone):
		return closedError()
	case errors.Is(err, ErrNotFound):
		return notFoundTask()
	case errors.Is(err, ErrOutranked):
		return E(Forbidden, "An operator has paused this task. Ask an operator to resume it.", err)
	default:
		return unavailable(err)
	}
}
