package broker

import (
	"context"
	"errors"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/expirable"
	"golang.org/x/time/rate"

	"ebb/attest"
	"ebb/broker/pace"
)

// Judging some evidence costs others than ebb: an API server, a container runtime,
// AWS. Whoever can reach ebb could make it ask them as fast as it takes requests. So
// an attestor asks here before it does that (attest.Costly), and is told no
//
//   - for a task that is not there, expects another attestor, or has its sandbox and
//     that is another key: strangers cost nothing but a look at the ledger;
//   - beyond a quarter of what there is per second for one address or local user, and
//     a tenth for one task;
//   - beyond what there is for all, per second and at one time. Of the places one
//     address or user has half at most.
//
// None of it is held against a task: who asks has not shown that it belongs to it.

// judging is the bound of one attestor.
type judging struct {
	places *pace.Gate
	all    *rate.Limiter
}

// judged is the bounds of all attestors in one process. Replicas count for themselves.
type judged struct {
	of        map[string]*judging
	perSecond int
	mu        sync.Mutex
	each      *lru.LRU[string, *rate.Limiter] // by attestor and caller or task
}

// callersKept is of how many callers and tasks it is known how often they came. One
// that is forgotten starts anew; what there is for all bounds them.
const callersKept = 16384

func newJudged(c Config) *judged {
	j := &judged{of: map[string]*judging{}, perSecond: c.Limits.JudgedPerSec, each: lru.NewLRU[string, *rate.Limiter](callersKept, nil, time.Minute)}
	for name := range c.Attestors {
		j.of[name] = &judging{places: pace.NewGate(c.Limits.Judging), all: rate.NewLimiter(rate.Limit(j.perSecond), j.perSecond)}
	}
	return j
}

// allows counts one judgement of a caller or task that may have the given part of what
// there is.
func (j *judged) allows(key string, part int, now time.Time) bool {
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

// judgingWait is how long a judgement waits for a place.
const judgingWait = 2 * time.Second

// Why a judgement was turned away, in the metrics.
const (
	turnedTask   = "task"    // the task is not there, or is not the caller's
	turnedCaller = "caller"  // one address, user or task came too often
	turnedRate   = "rate"    // all of them did
	turnedPlaces = "places"  // all places are taken, or the caller's share
	turnedLedger = "unknown" // the ledger did not say
)

// bounded is ctx for judging evidence of one attestor that somebody shows for a task;
// taskID "" with a principal's.
func (b *Broker) bounded(ctx context.Context, attestor, taskID string, p Possession, person bool) context.Context {
	j := b.judged.of[attestor]
	if j == nil {
		return ctx
	}
	return attest.WithBound(ctx, func(ctx context.Context) (func(), error) {
		leave, why, err := b.enterJudging(ctx, j, attestor, taskID, p, person)
		if err != nil {
			b.m.turnedAway.WithLabelValues(attestor, why).Inc()
			return nil, err
		}
		b.m.judging.WithLabelValues(attestor).Inc()
		return func() {
			b.m.judging.WithLabelValues(attestor).Dec()
			leave()
		}, nil
	})
}

func (b *Broker) enterJudging(ctx context.Context, j *judging, attestor, taskID string, p Possession, person bool) (leave func(), why string, err error) {
	now := b.now()
	if !person { // first, so that strangers use up nothing of those who share their address
		if why, err := b.worthJudging(ctx, attestor, taskID, p); err != nil {
			return nil, why, err
		}
	}
	if !b.judged.allows(attestor+" from "+p.From, 4, now) || !person && !b.judged.allows(attestor+" for "+taskID, 10, now) {
		return nil, turnedCaller, tooOftenJudged()
	}
	if !j.all.AllowN(now, 1) {
		return nil, turnedRate, tooMuchJudged(errors.New("more judgements a second than limits.judgements_per_second"))
	}
	wait, stop := context.WithTimeout(ctx, judgingWait)
	defer stop()
	if leave, err = j.places.Enter(wait, p.From); err != nil {
		return nil, turnedPlaces, tooMuchJudged(err)
	}
	return leave, "", nil
}

// worthJudging looks whether evidence could serve before it costs anything.
func (b *Broker) worthJudging(ctx context.Context, attestor, taskID string, p Possession) (why string, err error) {
	nobodys := attest.Reject(attest.ReasonSelectors, "there is no such task, or it expects another attestor", nil)
	if !validID(taskPrefix, taskID) {
		return turnedTask, nobodys
	}
	if b.down.Load() {
		return turnedLedger, unavailable(ErrLost)
	}
	live, err := b.cfg.Ledger.Admit(ctx, Admission{TaskID: taskID})
	switch {
	case errors.Is(err, ErrNotFound), err == nil && (live.State == TaskClosed || live.Expect.Attestor != attestor):
		return turnedTask, nobodys
	case err != nil:
		return turnedLedger, unavailable(err)
	case live.Sandbox != nil && live.Sandbox.JKT != p.Key.JKT:
		return turnedTask, attest.Reject(attest.ReasonKeyBinding, "the task belongs to another sandbox or another key", nil)
	}
	return "", nil
}

func tooOftenJudged() error {
	return &Error{Kind: TooMany, Public: "Evidence that is costly to judge comes from here too often. Wait, then try again.", RetryAfter: time.Second}
}

func tooMuchJudged(cause error) error {
	return &Error{Kind: Unavailable, Public: "Too much evidence that is costly to judge comes at this time. Wait, then try again.", Cause: cause, RetryAfter: time.Second}
}
