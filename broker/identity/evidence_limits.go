package identity

import (
	"context"
	"errors"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/expirable"
	"golang.org/x/time/rate"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/pace"
)

// judging holds the limits of one attestor.
type judging struct {
	places *pace.Gate
	all    *rate.Limiter
}

// Judged holds the limits of all attestors in one process. Replicas count separately.
type Judged struct {
	of        map[string]*judging
	perSecond int
	mu        sync.Mutex
	each      *lru.LRU[string, *rate.Limiter] // by attestor and caller or task
}

// callersKept is the number of callers and tasks with a rate limiter of their own. A forgotten
// one starts again with a full budget; the attestor's overall limits still apply.
const callersKept = 16384

func NewJudged(attestors map[string]attest.Attestor, l broker.Limits) *Judged {
	j := &Judged{of: map[string]*judging{}, perSecond: l.JudgedPerSec, each: lru.NewLRU[string, *rate.Limiter](callersKept, nil, time.Minute)}
	for name := range attestors {
		j.of[name] = &judging{places: pace.NewGate(l.Judging), all: rate.NewLimiter(rate.Limit(j.perSecond), j.perSecond)}
	}
	return j
}

// allows counts one evidence check of a caller or task, whose share is perSecond divided by
// part.
func (j *Judged) allows(key string, part int, now time.Time) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	l, known := j.each.Get(key)
	if !known {
		n := max(j.perSecond/part, 1)
		l = rate.NewLimiter(rate.Limit(n), n)
		j.each.Add(key, l)
	}
	return l.AllowN(now, 1)
}

// judgingWait is how long an evidence check waits for a slot.
const judgingWait = 2 * time.Second

// Reasons for a refused evidence check, in the metrics.
const (
	turnedTask      = "task"    // the task does not exist or is not the caller's
	turnedCaller    = "caller"  // one address, user or task sent too many
	turnedRate      = "rate"    // all callers together sent too many
	turnedPlaces    = "places"  // all slots are taken, or the caller's share
	turnedLiveStore = "unknown" // the live store did not answer
)

// bounded returns a ctx that applies the limits to a check of evidence for a task; taskID is ""
// for a principal's evidence.
func (ej *Evidence) bounded(ctx context.Context, attestor, taskID string, p broker.Possession, person bool) context.Context {
	j := ej.judged.of[attestor]
	if j == nil {
		return ctx
	}
	return attest.WithBound(ctx, func(ctx context.Context) (func(), error) {
		leave, why, err := ej.enterJudging(ctx, j, attestor, taskID, p, person)
		if err != nil {
			ej.m.TurnedAway.WithLabelValues(attestor, why).Inc()
			return nil, err
		}
		ej.m.Judging.WithLabelValues(attestor).Inc()
		return func() {
			ej.m.Judging.WithLabelValues(attestor).Dec()
			leave()
		}, nil
	})
}

func (ej *Evidence) enterJudging(ctx context.Context, j *judging, attestor, taskID string, p broker.Possession, person bool) (leave func(), why string, err error) {
	now := ej.clock.Now()
	if !person { // first, so that strangers do not use up the rate of the address that they share
		if why, err := ej.worthJudging(ctx, attestor, taskID, p); err != nil {
			return nil, why, err
		}
	}
	if !ej.judged.allows(attestor+" from "+p.From, 4, now) || !person && !ej.judged.allows(attestor+" for "+taskID, 10, now) {
		return nil, turnedCaller, tooOftenJudged()
	}
	if !j.all.AllowN(now, 1) {
		return nil, turnedRate, tooMuchJudged(errors.New("more evidence checks a second than limits.judgements_per_second"))
	}
	wait, stop := context.WithTimeout(ctx, judgingWait)
	defer stop()
	if leave, err = j.places.Enter(wait, p.From); err != nil {
		return nil, turnedPlaces, tooMuchJudged(err)
	}
	return leave, "", nil
}

// worthJudging checks whether the evidence could be accepted for the task, before a costly
// check.
func (ej *Evidence) worthJudging(ctx context.Context, attestor, taskID string, p broker.Possession) (why string, err error) {
	nobodys := attest.Reject(attest.ReasonSelectors, "there is no such task, or it expects another attestor", nil)
	if !broker.ValidID(broker.TaskPrefix, taskID) {
		return turnedTask, nobodys
	}
	if ej.live.Incomplete.Load() {
		return turnedLiveStore, broker.StoreError(broker.ErrLost)
	}
	live, err := ej.liveStore.Admit(ctx, broker.Admission{TaskID: taskID})
	switch {
	case errors.Is(err, broker.ErrNotFound), err == nil && (live.State == broker.TaskClosed || live.Expect.Attestor != attestor):
		return turnedTask, nobodys
	case err != nil:
		return turnedLiveStore, broker.StoreError(err)
	case live.Sandbox != nil && live.Sandbox.JKT != p.Key.JKT:
		return turnedTask, attest.Reject(attest.ReasonKeyBinding, "the task belongs to another sandbox or another key", nil)
	}
	return "", nil
}

func tooOftenJudged() error {
	return &broker.Error{Kind: broker.TooMany, Public: "Your address or task sends too much evidence that is costly to check. Wait, then try again.", RetryAfter: time.Second}
}

func tooMuchJudged(cause error) error {
	return &broker.Error{Kind: broker.Unavailable, Public: "ebb receives too much evidence that is costly to check. Wait, then try again.", Cause: cause, RetryAfter: time.Second}
}

// EnterCrowd waits for a slot in g, in the order of arrival. leave may be called more than
// once.
func (ej *Evidence) EnterCrowd(ctx context.Context, g *pace.Gate, name string) (leave func(), err error) {
	if leave := g.TryEnter(name); leave != nil {
		return leave, nil // the usual case needs no timer: a timer takes 3 % of an introspection's processor time
	}
	wait, stop := context.WithTimeout(ctx, kernel.CrowdWait)
	defer stop()
	if leave, err = g.Enter(wait, name); err != nil {
		ej.m.Shed.Inc()
		return nil, &broker.Error{Kind: broker.Unavailable, Public: "Too many requests wait here. Nothing was done; try again shortly.", Cause: err, RetryAfter: time.Second}
	}
	return leave, nil
}
