package issuance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/people"
)

// TaskOpener opens tasks, including delegated ones, and reads them.
type TaskOpener struct {
	attestors map[string]attest.Attestor
	issuerURL string
	store     broker.Store
	liveStore broker.LiveStore
	limits    broker.Limits
	logger    *slog.Logger
	providers map[string]broker.Provider
	live      *kernel.LiveState
	m         *kernel.Metrics
	people    map[string]bool

	admission *kernel.Admitter
	callers   callers
	clock     *kernel.Timekeeper
	issuer    *TokenIssuer
	log       *kernel.Recorder
	pending   pending
	revoker   revoker
	tickets   tickets
}

var kindForm = lazyregexp.New(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// OpenTask opens a task for a runner. With spec.Ticket it also returns an enrolment ticket.
func (o *TaskOpener) OpenTask(ctx context.Context, who broker.Principal, spec broker.TaskSpec) (broker.Task, *broker.Ticket, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleRunner, broker.RoleOperator); err != nil {
		return broker.Task{}, nil, err
	}
	if err := o.checkSpec(who, spec); err != nil {
		return broker.Task{}, nil, err
	}
	if o.live.Incomplete.Load() {
		return broker.Task{}, nil, broker.StoreError(broker.ErrLost)
	}
	if err := o.clock.SteadyClock(); err != nil {
		return broker.Task{}, nil, err
	}
	now := o.clock.Now()
	owner := spec.Owner
	if owner == "" {
		owner = who.ID
	}
	t := broker.Task{
		ID: broker.NewID(broker.TaskPrefix), Name: spec.Name, Kind: spec.Kind, Owner: owner, Runner: who.ID, Labels: spec.Labels,
		Ceiling: spec.Ceiling, Caps: spec.Caps.Or(o.limits.DefaultCaps), Expect: spec.Expect,
		Heartbeat: spec.Heartbeat, OpenedAt: now, Deadline: now.Add(spec.TTL.Duration()), State: broker.TaskOpen, Delegation: spec.Delegation,
	}
	err := o.store.Append(ctx, broker.Record{OpenTask: &t, OpenLimit: o.limits.RunnerTasks, Entries: []audit.Entry{
		o.log.TaskEntry(audit.TaskOpened, who.ID, t.ID, map[string]any{
			"name": t.Name, "kind": t.Kind, "owner": t.Owner, "ceiling": t.Ceiling, "deadline": t.Deadline,
			"sandbox_expected": t.Expect, "labels": t.Labels, "caps": t.Caps, "delegation": t.Delegation,
		}),
	}})
	if errors.Is(err, broker.ErrCap) {
		return broker.Task{}, nil, &broker.Error{Kind: broker.TooMany, Public: fmt.Sprintf("This runner has its limit of %d open tasks.", o.limits.RunnerTasks), Cause: err, RetryAfter: 10 * time.Second,
			Next: []string{"complete tasks that are no longer needed: ebb task list --state open, ebb task complete TASK"}}
	}
	if err == nil {
		err = o.liveStore.PutTask(ctx, broker.Live{Task: t, Due: t.Due(now)}, o.Keep(t))
	}
	if err != nil {
		o.Abandon(t) // the outcome can be unknown: the store may hold it
		return broker.Task{}, nil, broker.StoreError(err)
	}
	o.m.Tasks.WithLabelValues("opened").Inc()
	if !spec.Ticket {
		return t, nil, nil
	}
	ticket, err := o.tickets.IssueTicket(ctx, t, spec.TicketTTL)
	if err != nil {
		o.Abandon(t)
		return broker.Task{}, nil, err
	}
	return t, &ticket, nil
}

// Abandon ends a task whose id was not returned: it must not stay open.
func (o *TaskOpener) Abandon(t broker.Task) {
	o.pending.KeepEnd(broker.TaskMove{ID: t.ID, State: broker.TaskClosed, Cause: broker.CauseStopped, By: kernel.Self, Reason: kernel.NeverHandedOut, At: t.OpenedAt})
}

// Keep returns until when the live store must remember a task. After that no token of it can be
// unexpired.
func (o *TaskOpener) Keep(t broker.Task) time.Time { return t.Deadline.Add(time.Minute) }

func (o *TaskOpener) checkSpec(who broker.Principal, s broker.TaskSpec) error {
	var what string
	l := o.limits
	switch {
	case s.Name == "" || utf8.RuneCountInString(s.Name) > 80 || !jose.Plain(s.Name):
		what = "name must be 1 to 80 printable characters"
	case !kindForm.MatchString(s.Kind):
		what = "kind must be 1 to 64 of a-z 0-9 . _ -"
	case s.TTL < 1 || s.TTL > broker.Seconds(l.MaxTaskTTL/time.Second):
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
	case s.TicketTTL != 0 && !s.Ticket:
		what = "ticket_ttl_seconds is the lifetime of a ticket, and needs the member ticket"
	}
	what = cmp.Or(what, checkOwner(s.Owner), checkLabels(s.Labels), o.checkExpect("sandbox_expected", s.Expect), o.checkRegistration(s.Expect), o.checkDelegation(s.Delegation))
	if what == "" && s.Ticket && s.Expect.Attestor != broker.EnrollName {
		what = "a ticket needs sandbox_expected.attestor " + broker.EnrollName
	}
	if _, err := l.TicketLife(s.TicketTTL); err != nil {
		return err
	}
	for _, name := range s.Ceiling.Providers() {
		if _, known := o.providers[name]; !known && what == "" {
			return o.unknownProvider(who, name)
		}
	}
	if what != "" {
		return broker.E(broker.Invalid, "The task was not opened: "+what+".", nil)
	}
	return nil
}

// unknownProvider names the wrong provider of a ceiling. Operators may list the configured ones, runners may not.
func (o *TaskOpener) unknownProvider(who broker.Principal, name string) *broker.Error {
	e := broker.E(broker.InvalidScope, "The task was not opened: the provider "+broker.Quoted(name)+" of its ceiling is not configured.", nil)
	if who.Has(broker.RoleOperator) {
		e.Public = strings.TrimSuffix(e.Public, ".") + "; configured: " + broker.Named(slices.Collect(maps.Keys(o.providers))) + "."
	}
	return e.Then("name a configured provider in each scope, as PROVIDER:RESOURCE:ACTION; operators list them with 'ebb providers list'")
}

// checkExpect returns why the sandbox that a runner announces is invalid, "" if it is valid.
func (o *TaskOpener) checkExpect(name string, e broker.Expect) string {
	if _, known := o.attestors[e.Attestor]; !known {
		return name + ".attestor " + broker.Quoted(e.Attestor) + " is not configured; configured: " + broker.Named(slices.Collect(maps.Keys(o.attestors)))
	}
	if o.people[e.Attestor] {
		return name + ".attestor recognises principals; configure another one, with another audience, for sandboxes"
	}
	// A ticket names its task; all other evidence needs selectors, because without them every
	// sandbox of that issuer would match.
	if e.Attestor != broker.EnrollName || len(e.Selectors) > 0 {
		if err := attest.CheckSelectors(e.Selectors); err != nil {
			return name + ".selectors must name the sandbox: 1 to 64 selectors, none empty"
		}
		if err := attest.CheckNames(o.attestors[e.Attestor], e.Selectors); err != nil {
			return name + ".selectors: " + err.Error()
		}
	}
	return ""
}

// checkRegistration asks the attestor, if it supports that, whether e names exactly one
// sandbox. The sandbox_expected of a delegation names none yet; it is checked when a task is
// delegated.
func (o *TaskOpener) checkRegistration(e broker.Expect) string {
	if r, can := o.attestors[e.Attestor].(attest.Registrar); can {
		if err := r.CheckRegistration(e.Selectors); err != nil {
			return "the selectors do not name one sandbox: " + err.Error()
		}
	}
	return ""
}

// checkOwner returns why the owner of a task is invalid, "" if it is valid. An empty owner
// means the runner.
func checkOwner(owner string) string {
	if owner == "" {
		return ""
	}
	if err := people.CheckName(owner); err != nil {
		return "owner " + err.Error() + ". Name the id or address by which the person signs in"
	}
	return ""
}

func checkLabels(labels map[string]string) string {
	for k, v := range labels {
		if !broker.LabelForm.MatchString(k) || len(v) > 256 || !jose.Plain(v) {
			return "labels must have names of a-z A-Z 0-9 . _ / - and printable values of at most 256 bytes"
		}
	}
	return ""
}

// NewTicket issues an enrolment ticket for a task. Once the task has its sandbox, a ticket
// works only with that sandbox's key: for a sandbox that missed the first response. ttl is its lifetime, 0 = the default.
func (o *TaskOpener) NewTicket(ctx context.Context, who broker.Principal, taskID string, ttl broker.Seconds) (broker.Ticket, error) {
	t, err := o.Mine(ctx, who, broker.Certain, taskID)
	if err != nil {
		return broker.Ticket{}, err
	}
	switch {
	case t.State == broker.TaskClosed:
		return broker.Ticket{}, kernel.ClosedError(t)
	case t.Expect.Attestor != broker.EnrollName:
		return broker.Ticket{}, broker.E(broker.Conflict, "The task expects the attestor "+broker.Quoted(t.Expect.Attestor)+", so it has no tickets: only tasks of the attestor "+broker.EnrollName+" have them.", nil)
	}
	return o.tickets.IssueTicket(ctx, t, ttl)
}

// Mine returns a task that the principal may act on: its own, or any for an operator.
func (o *TaskOpener) Mine(ctx context.Context, who broker.Principal, need broker.Standing, taskID string) (broker.Task, error) {
	if err := broker.Allow(who, need, broker.RoleRunner, broker.RoleOperator); err != nil {
		return broker.Task{}, err
	}
	t, err := o.TaskByID(ctx, taskID)
	if err != nil {
		return broker.Task{}, err
	}
	if t.Runner != who.ID && !who.Has(broker.RoleOperator) {
		return broker.Task{}, kernel.NotFoundTask(taskID) // another runner's task: its existence stays hidden
	}
	return t, nil
}

func (o *TaskOpener) TaskByID(ctx context.Context, id string) (broker.Task, error) {
	if !broker.ValidID(broker.TaskPrefix, id) {
		return broker.Task{}, kernel.NotFoundTask(id)
	}
	ts, err := o.store.Tasks(ctx, broker.TaskFilter{IDs: []string{id}})
	if err != nil {
		return broker.Task{}, broker.StoreError(err)
	}
	if len(ts) == 0 {
		return broker.Task{}, kernel.NotFoundTask(id)
	}
	return ts[0], nil
}
