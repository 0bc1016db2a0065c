package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"ebb/broker/audit"
)

// asksPer is the time in which Limits.Asks counts.
const asksPer = 10 * time.Minute

// denied counts a denial against a task and those above it, and pauses the whole tree
// when there have been too many: what is denied again and again is an agent that is
// lost, or one that waits for a tired person. Delegates share the count of the task
// that they began with, or delegating would be a clean slate.
func (b *Broker) denied(ctx context.Context, taskID string, byPerson bool) error {
	root, err := b.countRoot(ctx, taskID, Touch{Denials: 1})
	if err != nil {
		return err
	}
	// The ledger gives each number once, so that of many denials at once one is the
	// twentieth, and after a person has resumed the task there are twenty more.
	if limit := b.cfg.Limits.Denials; root.Denials > 0 && root.Denials%limit == 0 {
		b.trip(ctx, root.ID, CauseDenials, fmt.Sprintf("%d of its requests were denied", root.Denials))
		return nil
	}
	if !byPerson {
		return nil
	}
	in, err := b.deniedInRow(ctx, root.ID)
	if err == nil && in {
		b.trip(ctx, root.ID, CauseDenials, fmt.Sprintf("people denied %d of its requests in a row", b.cfg.Limits.DenialsInRow))
	}
	return err
}

// deniedInRow reports whether the last answers of people in a tree of tasks, since
// somebody resumed it, were all a no. Silence is none.
func (b *Broker) deniedInRow(ctx context.Context, root string) (bool, error) {
	var since time.Time
	for e, err := range b.cfg.Journal.Entries(ctx, EntryFilter{TaskID: root, Kind: audit.TaskResumed, Desc: true, Limit: 1}) {
		if err != nil {
			return false, err
		}
		since = e.At
	}
	rs, err := b.cfg.Desk.Requests(ctx, RequestFilter{Tree: root, Since: since, Page: Page{Desc: true, Limit: 100}})
	if err != nil {
		return false, err
	}
	rs = slices.DeleteFunc(rs, func(r Request) bool {
		answered := r.State == RequestDenied || r.State == RequestApproved || r.State == RequestIssued
		return !answered || !r.DecidedAt.After(since)
	})
	slices.SortStableFunc(rs, func(x, y Request) int { return y.DecidedAt.Compare(x.DecidedAt) })
	n := b.cfg.Limits.DenialsInRow
	return len(rs) >= n && !slices.ContainsFunc(rs[:n], func(r Request) bool { return r.State != RequestDenied }), nil
}

// heldBack is the data of an audit.RequestHeld entry.
type heldBack struct {
	Root   string   `json:"root"` // the task that a runner opened
	Scope  string   `json:"scope"`
	Groups []string `json:"groups"` // who would have been asked
	Why    string   `json:"why"`    // "task": too many of it wait; "owner": too many of its owner were made
}

// asked counts that a task wanted a person, and pauses its tree when it does so too
// often, whatever became of it.
func (b *Broker) asked(ctx context.Context, root string) {
	_, err := b.cfg.Ledger.Admit(ctx, Admission{Rates: []Rate{{Key: "asks:" + root, Limit: b.cfg.Limits.Asks, Per: asksPer}}})
	if _, often := errors.AsType[*RateError](err); often {
		b.trip(ctx, root, CauseAsks, fmt.Sprintf("it asked people more than %d times in %d minutes", b.cfg.Limits.Asks, asksPer/time.Minute))
	} else if err != nil {
		b.cfg.Logger.WarnContext(ctx, "a question for people could not be counted", "task_id", root, "error", err)
	}
}

// full is the answer to a request for which people have no room. It is on the record
// and, while it is new, on the card of its task in the queue.
func (b *Broker) full(ctx context.Context, w want, req Request, cause error) error {
	why, public, wait := "task", "This task has as many requests waiting as it may. Wait for an answer.", time.Minute
	if errors.Is(cause, ErrOwnerCap) {
		why, public = "owner", "People were asked as often for this owner as they may be in an hour. Ask for less, or later."
		wait = b.untilRoom(ctx, req)
	}
	e := b.taskEntry(audit.RequestHeld, w.sandbox.ID, w.live.ID, heldBack{Root: w.live.root(), Scope: req.Scopes.String(), Groups: req.Groups, Why: why})
	b.note(ctx, e)
	b.m.requests.WithLabelValues("held").Inc()
	b.asked(ctx, w.live.root())
	f, _ := req.Sheet() // advice is best effort; the answer stands
	return &Error{Kind: TooMany, Public: public, Cause: cause, RetryAfter: wait,
		Advice: &Advice{Decision: "wait", Code: AskedEnough, WouldAllow: f.WouldAllow, RetryAfter: wholeSeconds(wait)}}
}

// untilRoom is when the oldest of the requests that fill the hour of an owner leaves it.
func (b *Broker) untilRoom(ctx context.Context, req Request) time.Duration {
	rs, err := b.cfg.Desk.Requests(ctx, RequestFilter{Owner: req.Owner, Since: req.CreatedAt.Add(-ownerHour), Page: Page{Desc: true, Limit: 1000}})
	if err != nil {
		return time.Minute
	}
	n := 0
	for _, r := range rs {
		if r.Runner != req.Runner || !r.CreatedAt.After(req.CreatedAt.Add(-ownerHour)) {
			continue
		}
		if n++; n == b.cfg.Limits.OwnerRequests {
			return max(r.CreatedAt.Add(ownerHour).Sub(req.CreatedAt), time.Second)
		}
	}
	return time.Minute // there is room by now
}

// ownerHour is the time in which Limits.OwnerRequests counts.
const ownerHour = time.Hour

func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// trip pauses a task because of what it asked. Of many at once one does. A store that
// is down does not keep it running: it is tried until it is done.
func (b *Broker) trip(ctx context.Context, taskID string, cause Cause, why string) {
	err := b.tryTrip(ctx, taskID, cause, why)
	if err == nil {
		return
	}
	b.cfg.Logger.ErrorContext(ctx, "a task that asks too much could not be paused yet", "task_id", taskID, "error", err)
	b.sequels.begin(context.WithoutCancel(ctx), func(ctx context.Context) {
		for wait := time.Second; err != nil && sleep(ctx, wait); wait = min(2*wait, time.Minute) {
			err = b.tryTrip(ctx, taskID, cause, why)
		}
	})
}

func (b *Broker) tryTrip(ctx context.Context, taskID string, cause Cause, why string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	t, err := b.taskByID(ctx, taskID)
	if err != nil || t.State != TaskOpen {
		if err != nil && AsError(err).Kind == NotFound {
			return nil
		}
		return err
	}
	err = b.setPaused(ctx, Principal{ID: self, Roles: []Role{RoleRunner}}, t, TaskMove{State: TaskPaused, Reason: why, Cause: cause, From: TaskOpen})
	switch {
	case err == nil:
		b.m.requests.WithLabelValues("paused").Inc()
		return nil
	case errors.Is(err, ErrDone), errors.Is(err, ErrTaskClosed): // another was faster, or it is over
		return nil
	}
	return err
}

// pausedError is what a sandbox of a paused task is told.
func pausedError() *Error {
	const wait = time.Minute
	return &Error{Kind: Denied, Public: "The task is paused. Nothing mints until its runner resumes it.", Cause: ErrTaskPaused, RetryAfter: wait,
		Advice: &Advice{Decision: "wait", Code: TaskHeld, RetryAfter: wholeSeconds(wait)}}
}

// rootOfHeld is the task that a runner opened, as an audit.RequestHeld entry says.
func rootOfHeld(e audit.Entry) (heldBack, bool) {
	var h heldBack
	err := json.Unmarshal(e.Data, &h)
	return h, err == nil && h.Root != ""
}
