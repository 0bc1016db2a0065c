package broker

import (
	"context"
	"slices"

	"ebb/broker/audit"
)

// Bounds of what is looked at for the cards of one queue.
const (
	maxHeld         = 25 // tasks; of others that are paused, what waits is among the rows
	maxHeldRequests = 50 // of each, the newest
	maxHeldEntries  = 500
)

// Held is a task that asks more than people are shown, as one card.
type Held struct {
	Task
	Asked   int  // in the last ten minutes, with those that delegated tasks asked: what was made and what was held back
	Waiting int  // requests that wait for an answer
	May     bool // who looks has a say in one of them
}

// Paused reports whether ebb has paused the task because of what it asked.
func (h Held) Paused() bool { return h.State == TaskPaused && h.Cause != "" }

// Held lists the tasks that ebb has paused because of what they asked, and those of
// which requests were held back lately, as far as who may see their requests. mine: only
// those of which who has a say in a request.
func (b *Broker) Held(ctx context.Context, who Principal, mine bool) ([]Held, error) {
	if err := allow(who, certain, RoleApprover, RoleAuditor, RoleOperator, RoleRunner, RoleViewer); err != nil {
		return nil, err
	}
	ts, err := b.heldTasks(ctx)
	if err != nil {
		return nil, err
	}
	back, err := b.heldBack(ctx)
	if err != nil {
		return nil, err
	}
	var more []string
	for id := range back {
		if len(more) < maxHeld && !slices.ContainsFunc(ts, func(t Task) bool { return t.ID == id }) {
			more = append(more, id)
		}
	}
	if len(more) > 0 {
		others, err := b.cfg.Journal.Tasks(ctx, TaskFilter{IDs: more, Open: true, Page: Page{Desc: true, Limit: maxHeld}})
		if err != nil {
			return nil, unavailable(err)
		}
		ts = append(ts, others...)
	}
	var out []Held
	for _, t := range ts {
		h, sees, err := b.heldFor(ctx, who, t, back[t.ID])
		if err != nil {
			return nil, err
		}
		if sees && (h.May || !mine) {
			out = append(out, h)
		}
	}
	return out, nil
}

// heldTasks are those that ebb has paused because of what they asked, newest first.
func (b *Broker) heldTasks(ctx context.Context) ([]Task, error) {
	ts, err := b.cfg.Journal.Tasks(ctx, TaskFilter{Held: true, Page: Page{Desc: true, Limit: maxHeld}})
	if err != nil {
		return nil, unavailable(err)
	}
	return ts, nil
}

// heldRoots are their ids: their requests are not among the others that wait.
func (b *Broker) heldRoots(ctx context.Context) ([]string, error) {
	ts, err := b.heldTasks(ctx)
	var out []string
	for _, t := range ts {
		out = append(out, t.ID)
	}
	return out, err
}

// heldBack counts, by the task that a runner opened, what was held back lately.
func (b *Broker) heldBack(ctx context.Context) (map[string]int, error) {
	out := map[string]int{}
	for e, err := range b.cfg.Journal.Entries(ctx, EntryFilter{Kind: audit.RequestHeld, From: b.now().Add(-asksPer), Desc: true, Limit: maxHeldEntries}) {
		if err != nil {
			return nil, unavailable(err)
		}
		if h, ok := rootOfHeld(e); ok {
			out[h.Root]++
		}
	}
	return out, nil
}

func (b *Broker) heldFor(ctx context.Context, who Principal, t Task, back int) (h Held, sees bool, err error) {
	now := b.now()
	ms, err := b.cfg.Desk.Marks(ctx, RequestFilter{Tree: t.ID, Sight: sightOf(who), Page: Page{Desc: true, Limit: maxHeldRequests}})
	if err != nil {
		return h, false, unavailable(err)
	}
	h = Held{Task: t, Asked: back}
	for _, m := range ms {
		if m.CreatedAt.After(now.Add(-asksPer)) {
			h.Asked++
		}
		if m.State == RequestPending && m.ExpiresAt.After(now) {
			h.Waiting++
		}
		h.May = h.May || m.For(who)
	}
	return h, len(ms) > 0 || sightOf(who) == nil || t.Runner == who.ID, nil
}

// DenyAll denies every request of a task, and of what was delegated below it, that waits
// and that who has a say in: one answer of who to each, on the record. It goes on past
// those that were answered meanwhile.
func (b *Broker) DenyAll(ctx context.Context, who Principal, taskID string, code DenyCode, note string) (int, error) {
	if err := allow(who, doubtful, RoleApprover); err != nil {
		return 0, err
	}
	if !validID(taskPrefix, taskID) {
		return 0, notFoundTask()
	}
	rs, err := b.cfg.Desk.Requests(ctx, RequestFilter{Tree: taskID, State: RequestPending, Sight: &Sight{Groups: who.Groups}, Page: Page{Limit: 1000}})
	if err != nil {
		return 0, unavailable(err)
	}
	n := 0
	for _, r := range rs {
		if MayDecide(who, r) != nil {
			continue
		}
		switch _, err := b.Decide(ctx, who, r.ID, Verdict{Code: code, Note: note}); {
		case err == nil:
			n++
		case AsError(err).Kind != Conflict:
			return n, err
		}
	}
	if n == 0 {
		return 0, E(Conflict, "Nothing of this task waits for an answer of yours. Look at the queue again.", nil)
	}
	return n, nil
}

// sayIn reports whether who is an approver of a request of this task, or of one that was
// delegated below it: they may end it, as they may by finding that request suspicious.
func (b *Broker) sayIn(ctx context.Context, who Principal, taskID string) bool {
	if !who.Has(RoleApprover) || !validID(taskPrefix, taskID) {
		return false
	}
	ms, err := b.cfg.Desk.Marks(ctx, RequestFilter{Tree: taskID, Sight: &Sight{Groups: who.Groups}, Page: Page{Desc: true, Limit: 100}})
	return err == nil && slices.ContainsFunc(ms, func(m Mark) bool { return m.For(who) })
}

// owns reports whether a task is of this person, by any of their names.
func owns(who Principal, t Task) bool {
	return t.Owner != "" && who.named(t.Owner)
}

// MayResume reports whether who may let a paused task mint again: its runner, operators,
// and its owner when ebb has paused it because of what it asked. What an operator has
// paused, operators alone.
func MayResume(who Principal, t Task) bool {
	switch {
	case t.State != TaskPaused:
		return false
	case who.Has(RoleOperator):
		return true
	case t.PausedAs == RoleOperator:
		return false
	}
	return who.Has(RoleRunner) && t.Runner == who.ID || t.Cause != "" && owns(who, t)
}

// mayResume is the task when who may resume it.
func (b *Broker) mayResume(ctx context.Context, who Principal, taskID string) (Task, error) {
	t, err := b.mine(ctx, who, certain, taskID)
	if err == nil || AsError(err).Kind == Unavailable || who.ID == "" || who.doubt != nil {
		return t, err
	}
	held, herr := b.taskByID(ctx, taskID)
	if herr == nil && MayResume(who, held) {
		return held, nil
	}
	return t, err
}
