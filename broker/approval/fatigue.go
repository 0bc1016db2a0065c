package approval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
)

// FatigueGuard throttles tasks that ask people too often.
type FatigueGuard struct {
	approvalStore broker.ApprovalStore
	store         broker.Store
	liveStore     broker.LiveStore
	limits        broker.Limits
	logger        *slog.Logger
	m             *kernel.Metrics
	background    *kernel.Background

	clock    *kernel.Timekeeper
	control  control
	log      *kernel.Recorder
	tasks    tasks
	verdicts *Verdicts
}

// asksPer is the period of Limits.Asks.
const asksPer = 10 * time.Minute

// Denied counts a denial against a task and its ancestors, and pauses the whole tree after too
// many. Repeated denials mean an agent that is lost, or one that waits for a tired person to
// approve. Delegated tasks share the count of the runner's task, because delegating would reset
// it otherwise.
func (g *FatigueGuard) Denied(ctx context.Context, taskID string, byPerson bool) error {
	root, err := g.tasks.CountRoot(ctx, taskID, broker.Touch{Denials: 1})
	if err != nil {
		return err
	}
	// The live store returns each number once, so that of many concurrent denials exactly one is
	// the twentieth. After a person has resumed the task, the next pause comes after twenty more.
	if limit := g.limits.Denials; root.Denials > 0 && root.Denials%limit == 0 {
		g.trip(ctx, root.ID, broker.CauseDenials, fmt.Sprintf("%d of its requests were denied", root.Denials))
		return nil
	}
	if !byPerson {
		return nil
	}
	in, err := g.deniedInRow(ctx, root.ID)
	if err == nil && in {
		g.trip(ctx, root.ID, broker.CauseDenials, fmt.Sprintf("people denied %d of its requests in a row", g.limits.DenialsInRow))
	}
	return err
}

// deniedInRow reports whether the last decisions of people in a tree of tasks, since it was
// last resumed, were all denials. An expired request counts as no decision.
func (g *FatigueGuard) deniedInRow(ctx context.Context, root string) (bool, error) {
	var since time.Time
	for e, err := range g.store.Entries(ctx, broker.EntryFilter{TaskID: root, Kind: audit.TaskResumed, Desc: true, Limit: 1}) {
		if err != nil {
			return false, err
		}
		since = e.At
	}
	rs, err := g.approvalStore.Requests(ctx, broker.RequestFilter{Tree: root, Since: since, Page: broker.Page{Desc: true, Limit: 100}})
	if err != nil {
		return false, err
	}
	rs = slices.DeleteFunc(rs, func(r broker.Request) bool {
		answered := r.State == broker.RequestDenied || r.State == broker.RequestApproved || r.State == broker.RequestIssued
		return !answered || !r.DecidedAt.After(since)
	})
	slices.SortStableFunc(rs, func(x, y broker.Request) int { return y.DecidedAt.Compare(x.DecidedAt) })
	n := g.limits.DenialsInRow
	return len(rs) >= n && !slices.ContainsFunc(rs[:n], func(r broker.Request) bool { return r.State != broker.RequestDenied }), nil
}

// heldBack is the data of an audit.RequestHeld entry.
type heldBack struct {
	Root   string   `json:"root"` // id of the runner's task at the top of the tree
	Scope  string   `json:"scope"`
	Groups []string `json:"groups"` // groups that would have been asked
	Why    string   `json:"why"`    // "task": too many of its requests wait; "owner": too many requests of its owner were made
}

// asked counts a question to people, with any outcome, and pauses the tree of the task when it
// asks too often.
func (g *FatigueGuard) asked(ctx context.Context, root string) {
	_, err := g.liveStore.Admit(ctx, broker.Admission{Rates: []broker.Rate{{Key: "asks:" + root, Limit: g.limits.Asks, Per: asksPer}}})
	if _, often := errors.AsType[*broker.RateError](err); often {
		g.trip(ctx, root, broker.CauseAsks, fmt.Sprintf("it asked people more than %d times in %d minutes", g.limits.Asks, asksPer/time.Minute))
	} else if err != nil {
		g.logger.WarnContext(ctx, "counting a question to people failed", "task_id", root, "error", err)
	}
}

// full refuses a request beyond the limits of what people are asked. It is recorded, and for
// asksPer it is shown on the card of its task in the queue.
func (g *FatigueGuard) full(ctx context.Context, w kernel.MintRequest, req broker.Request, cause error) error {
	why, public, wait := "task", "This task has reached its limit of waiting requests. Wait for a decision.", time.Minute
	if errors.Is(cause, broker.ErrOwnerCap) {
		why, public = "owner", "The limit of requests to people for this owner in one hour is reached. Ask for less, or later."
		wait = g.untilRoom(ctx, req)
	}
	e := g.log.TaskEntry(audit.RequestHeld, w.Sandbox.ID, w.Live.ID, heldBack{Root: w.Live.Root(), Scope: req.Scopes.String(), Groups: req.Groups, Why: why})
	g.log.Note(ctx, e)
	g.m.Requests.WithLabelValues("held").Inc()
	g.asked(ctx, w.Live.Root())
	f, _ := req.Sheet() // advice is best effort; the answer stands
	return &broker.Error{Kind: broker.TooMany, Public: public, Cause: cause, RetryAfter: wait,
		Advice: &broker.Advice{Decision: "wait", Code: broker.AskedEnough, WouldAllow: f.WouldAllow, RetryAfter: kernel.WholeSeconds(wait)}}
}

// untilRoom returns how long until the oldest request that counts towards the owner's hour is
// older than that.
func (g *FatigueGuard) untilRoom(ctx context.Context, req broker.Request) time.Duration {
	rs, err := g.approvalStore.Requests(ctx, broker.RequestFilter{Owner: req.Owner, Since: req.CreatedAt.Add(-ownerHour), Page: broker.Page{Desc: true, Limit: 1000}})
	if err != nil {
		return time.Minute
	}
	n := 0
	for _, r := range rs {
		if r.Runner != req.Runner || !r.CreatedAt.After(req.CreatedAt.Add(-ownerHour)) {
			continue
		}
		if n++; n == g.limits.OwnerRequests {
			return max(r.CreatedAt.Add(ownerHour).Sub(req.CreatedAt), time.Second)
		}
	}
	return time.Minute // there is room again
}

// ownerHour is the period of Limits.OwnerRequests.
const ownerHour = time.Hour

// trip pauses a task because of its requests. Of concurrent calls one pauses it. If a store is
// down, the pause is tried again until it succeeds.
func (g *FatigueGuard) trip(ctx context.Context, taskID string, cause broker.Cause, why string) {
	err := g.tryTrip(ctx, taskID, cause, why)
	if err == nil {
		return
	}
	g.logger.ErrorContext(ctx, "a task that asks too often could not be paused; trying again", "task_id", taskID, "error", err)
	g.background.Begin(context.WithoutCancel(ctx), func(ctx context.Context) {
		for wait := time.Second; err != nil && kernel.Sleep(ctx, wait); wait = min(2*wait, time.Minute) {
			err = g.tryTrip(ctx, taskID, cause, why)
		}
	})
}

func (g *FatigueGuard) tryTrip(ctx context.Context, taskID string, cause broker.Cause, why string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	t, err := g.tasks.TaskByID(ctx, taskID)
	if err != nil || t.State != broker.TaskOpen {
		if err != nil && broker.AsError(err).Kind == broker.NotFound {
			return nil
		}
		return err
	}
	err = g.control.SetPaused(ctx, broker.Principal{ID: kernel.Self, Roles: []broker.Role{broker.RoleRunner}}, t, broker.TaskMove{State: broker.TaskPaused, Reason: why, Cause: cause, From: broker.TaskOpen})
	switch {
	case err == nil:
		g.m.Requests.WithLabelValues("paused").Inc()
		return nil
	case errors.Is(err, broker.ErrDone), errors.Is(err, broker.ErrTaskClosed): // another replica paused it, or it has ended
		return nil
	}
	return err
}

// decodeThrottled decodes an audit.RequestHeld entry.
func decodeThrottled(e audit.Entry) (heldBack, bool) {
	var h heldBack
	err := json.Unmarshal(e.Data, &h)
	return h, err == nil && h.Root != ""
}

// Bounds of the data read for the cards of one queue.
const (
	maxThrottled    = 25 // tasks; requests of further paused tasks are listed as rows
	maxHeldRequests = 50 // of each task, the newest
	maxHeldEntries  = 500
)

// Throttled is a throttled task, shown as one card.
type Throttled struct {
	broker.Task
	Asked   int  // questions in the last ten minutes, including delegated tasks: created and refused ones
	Waiting int  // requests that wait for a decision
	May     bool // the viewer is eligible to decide one of them
}

// Paused reports whether ebb has paused the task because of its requests.
func (h Throttled) Paused() bool { return h.State == broker.TaskPaused && h.Cause != "" }

// Throttled lists the tasks that ebb has paused because of their requests, and those with requests
// refused within asksPer, as far as the viewer may see their requests. mine: only tasks with a
// request that the viewer may decide.
func (g *FatigueGuard) Throttled(ctx context.Context, who broker.Principal, mine bool) ([]Throttled, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleApprover, broker.RoleAuditor, broker.RoleOperator, broker.RoleRunner, broker.RoleViewer); err != nil {
		return nil, err
	}
	ts, err := g.heldTasks(ctx)
	if err != nil {
		return nil, err
	}
	back, err := g.heldBack(ctx)
	if err != nil {
		return nil, err
	}
	var more []string
	for id := range back {
		if len(more) < maxThrottled && !slices.ContainsFunc(ts, func(t broker.Task) bool { return t.ID == id }) {
			more = append(more, id)
		}
	}
	if len(more) > 0 {
		others, err := g.store.Tasks(ctx, broker.TaskFilter{IDs: more, Open: true, Page: broker.Page{Desc: true, Limit: maxThrottled}})
		if err != nil {
			return nil, broker.StoreError(err)
		}
		ts = append(ts, others...)
	}
	var out []Throttled
	for _, t := range ts {
		h, sees, err := g.throttledFor(ctx, who, t, back[t.ID])
		if err != nil {
			return nil, err
		}
		if sees && (h.May || !mine) {
			out = append(out, h)
		}
	}
	return out, nil
}

// heldTasks returns the tasks that ebb has paused because of their requests, newest first.
func (g *FatigueGuard) heldTasks(ctx context.Context) ([]broker.Task, error) {
	ts, err := g.store.Tasks(ctx, broker.TaskFilter{Throttled: true, Page: broker.Page{Desc: true, Limit: maxThrottled}})
	if err != nil {
		return nil, broker.StoreError(err)
	}
	return ts, nil
}

// ThrottledRoots returns the ids of those tasks: their requests are not listed among the other
// waiting ones.
func (g *FatigueGuard) ThrottledRoots(ctx context.Context) ([]string, error) {
	ts, err := g.heldTasks(ctx)
	var out []string
	for _, t := range ts {
		out = append(out, t.ID)
	}
	return out, err
}

// heldBack counts, by the runner's task, the requests refused within asksPer.
func (g *FatigueGuard) heldBack(ctx context.Context) (map[string]int, error) {
	out := map[string]int{}
	for e, err := range g.store.Entries(ctx, broker.EntryFilter{Kind: audit.RequestHeld, From: g.clock.Now().Add(-asksPer), Desc: true, Limit: maxHeldEntries}) {
		if err != nil {
			return nil, broker.StoreError(err)
		}
		if h, ok := decodeThrottled(e); ok {
			out[h.Root]++
		}
	}
	return out, nil
}

func (g *FatigueGuard) throttledFor(ctx context.Context, who broker.Principal, t broker.Task, back int) (h Throttled, sees bool, err error) {
	now := g.clock.Now()
	ms, err := g.approvalStore.Marks(ctx, broker.RequestFilter{Tree: t.ID, Sight: kernel.SightOf(who), Page: broker.Page{Desc: true, Limit: maxHeldRequests}})
	if err != nil {
		return h, false, broker.StoreError(err)
	}
	h = Throttled{Task: t, Asked: back}
	for _, m := range ms {
		if m.CreatedAt.After(now.Add(-asksPer)) {
			h.Asked++
		}
		if m.State == broker.RequestPending && m.ExpiresAt.After(now) {
			h.Waiting++
		}
		h.May = h.May || m.For(who)
	}
	return h, len(ms) > 0 || kernel.SightOf(who) == nil || t.Runner == who.ID, nil
}

// DenyAll denies every waiting request of a task and its delegated tasks that the person may
// decide, with one recorded vote for each. Requests decided meanwhile are skipped.
func (g *FatigueGuard) DenyAll(ctx context.Context, who broker.Principal, taskID string, code broker.DenyCode, note string) (int, error) {
	if err := broker.Allow(who, broker.Doubtful, broker.RoleApprover); err != nil {
		return 0, err
	}
	if !broker.ValidID(broker.TaskPrefix, taskID) {
		return 0, kernel.NotFoundTask(taskID)
	}
	rs, err := g.approvalStore.Requests(ctx, broker.RequestFilter{Tree: taskID, State: broker.RequestPending, Sight: &broker.Sight{Groups: who.Groups}, Page: broker.Page{Limit: 1000}})
	if err != nil {
		return 0, broker.StoreError(err)
	}
	n := 0
	for _, r := range rs {
		if broker.MayDecide(who, r) != nil {
			continue
		}
		switch _, err := g.verdicts.Decide(ctx, who, r.ID, broker.Verdict{Code: code, Note: note}); {
		case err == nil:
			n++
		case broker.AsError(err).Kind != broker.Conflict:
			return n, err
		}
	}
	if n == 0 {
		return 0, broker.E(broker.Conflict, "No request of this task waits for your decision. Reload the queue.", nil)
	}
	return n, nil
}

// SayIn reports whether the person may decide a request of this task or of a task delegated below
// it. Such a person may also end the task, as they could by denying the request as suspicious.
func (g *FatigueGuard) SayIn(ctx context.Context, who broker.Principal, taskID string) bool {
	if !who.Has(broker.RoleApprover) || !broker.ValidID(broker.TaskPrefix, taskID) {
		return false
	}
	ms, err := g.approvalStore.Marks(ctx, broker.RequestFilter{Tree: taskID, Sight: &broker.Sight{Groups: who.Groups}, Page: broker.Page{Desc: true, Limit: 100}})
	return err == nil && slices.ContainsFunc(ms, func(m broker.Mark) bool { return m.For(who) })
}

// owns reports whether a task belongs to this person, under any of their names.
func owns(who broker.Principal, t broker.Task) bool {
	return t.Owner != "" && who.Named(t.Owner)
}

// MayResume reports whether a person may resume a paused task. A task that an operator paused
// can be resumed by operators only. Otherwise its runner and operators may, and also its owner
// when ebb paused it because of its requests.
func MayResume(who broker.Principal, t broker.Task) bool {
	switch {
	case t.State != broker.TaskPaused:
		return false
	case who.Has(broker.RoleOperator):
		return true
	case t.PausedAs == broker.RoleOperator:
		return false
	}
	return who.Has(broker.RoleRunner) && t.Runner == who.ID || t.Cause != "" && owns(who, t)
}

// MayResume returns the task if the person may resume it.
func (g *FatigueGuard) MayResume(ctx context.Context, who broker.Principal, taskID string) (broker.Task, error) {
	t, err := g.tasks.Mine(ctx, who, broker.Certain, taskID)
	if err == nil || broker.AsError(err).Kind == broker.Unavailable || who.ID == "" || who.Doubt != nil {
		return t, err
	}
	held, herr := g.tasks.TaskByID(ctx, taskID)
	if herr == nil && MayResume(who, held) {
		return held, nil
	}
	return t, err
}
