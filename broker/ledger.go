package broker

import (
	"context"
	"slices"
	"time"
)

// Ledger is what is true now: which tasks are open, which credentials live,
// which proofs were used. It is lost without harm: the Journal refills it, and
// what it does not know is not valid. Implementations (redisstore, memstore)
// are safe for concurrent use by many processes that share one store; every
// compound step is atomic (I10). All times are truncated to milliseconds.
//
// An error that is none of the sentinels means "could not judge": the broker
// fails closed. So do ErrLost and ErrEvicting: each call that would answer "there is no such
// task, lease, value or claim" looks at the same moment whether data was lost, and answers
// ErrLost when it was.
type Ledger interface {
	TaskTable
	LeaseTable
	Gate
	Guard
}

// TaskTable holds the tasks that are open, and for as long as a token of theirs
// could still be unexpired, those that are closed.
type TaskTable interface {
	// PutTask makes t known. It is idempotent and monotonic: it never reopens
	// a closed task and never unsets a sandbox. keep says until when a closed
	// task must be remembered.
	PutTask(ctx context.Context, t Live, keep time.Time) error
	// SetState moves a task in O(1), whatever number of leases it holds, and
	// publishes an Event when it closes, and one with PauseMark for each move to paused. first is false when a closed task was
	// closed before; moving a closed task anywhere else is ErrTaskClosed.
	// An unknown task is ErrNotFound, but closing an unknown task leaves a
	// tombstone until keep and is no error.
	SetState(ctx context.Context, id string, s TaskState, at, keep time.Time) (c Counts, first bool, err error)
	// Touch applies u atomically and returns the result. ErrTaskClosed when closed.
	Touch(ctx context.Context, id string, u Touch) (Live, error)
	// Due takes up to n open or paused tasks whose Due has passed and hides each
	// from other takers until hold: if the taker dies, they become due again.
	Due(ctx context.Context, now, hold time.Time, n int) ([]string, error)
}

// A task keeps MaxTaint sources by name. Whatever exceeds that leaves MoreTaint
// behind, once: it is no name that a runner could report, and never goes away. The
// record has all names.
const (
	MaxTaint  = 64
	MoreTaint = "+more"
)

// AddTaint adds sources to the sorted set had, in the order in which they come and
// within that bound. Every ledger does the same.
func AddTaint(had, more []string) []string {
	out := slices.Clone(had)
	for _, s := range more {
		named := len(out)
		if _, marked := slices.BinarySearch(out, MoreTaint); marked {
			named--
		}
		if _, known := slices.BinarySearch(out, s); !known && named >= MaxTaint {
			s = MoreTaint
		}
		if i, known := slices.BinarySearch(out, s); !known {
			out = slices.Insert(out, i, s)
		}
	}
	return out
}

// Touch is a change of a task's running facts. Zero members change nothing.
type Touch struct {
	Due        time.Time
	Denials    int      // added
	Violations int      // added
	Taint      []string // see AddTaint
	Sandbox    *Sandbox // set once; a different one later is ErrClaimed
}

// Counts is how many leases a task had at a moment.
type Counts struct {
	Live    int // unexpired and not ended
	Expired int // expired and still remembered
}

// LiveLease is what the ledger keeps of a lease.
type LiveLease struct {
	ID        string
	TaskID    string
	ExpiresAt time.Time
}

// LeaseLimits bound how many leases are live at one time. 0 = no limit.
type LeaseLimits struct {
	Task  int // of one task
	Owner int // of one owner at one runner, over all tasks
}

// LeaseTable holds live leases.
type LeaseTable interface {
	// PutLease records l if its task is open, fewer leases than limits say are live, and l
	// was not ended before: otherwise ErrTaskClosed, ErrTaskPaused, ErrCap,
	// ErrOwnerCap, ErrDone, or ErrNotFound for an unknown task. Putting the same
	// lease twice is no error. refill is set while the Journal refills the ledger: a
	// paused task is then no obstacle.
	//
	// What is live of an owner is never more than its limit. It may for a moment be
	// thought more than it is: while a refusal gives back what it took, and until its
	// expiry a lease whose put or end was cut off half-way.
	PutLease(ctx context.Context, l LiveLease, limits LeaseLimits, refill bool) error
	// EndLease refuses l from now on, leaves a tombstone until its expiry and
	// publishes an Event. first is false when it was ended before.
	EndLease(ctx context.Context, l LiveLease, at time.Time) (first bool, err error)
	// Status says whether the lease is live: known, unexpired at now, not ended,
	// and its task not closed. Unknown is false, unless the ledger may have lost the lease:
	// then it is ErrLost.
	Status(ctx context.Context, taskID, leaseID string, now time.Time) (alive bool, err error)
	// Follow returns up to max events after cursor ("" = from the oldest kept)
	// and the next cursor, waiting up to wait for the first. It keeps events at
	// least as long as a token they concern could be unexpired.
	Follow(ctx context.Context, cursor string, max int, wait time.Duration) ([]Event, string, error)
}

// Event is one line of the revocation feed.
type Event struct {
	TaskID  string    `json:"task_id"`
	LeaseID string    `json:"lease_id,omitempty"` // empty: the whole task; PauseMark: it is paused
	At      time.Time `json:"at"`
	Until   time.Time `json:"until"` // forget it after this
}

// PauseMark stands for a lease in the Event of a pause, which ends nothing: it is told
// so that what is under way stops. It is no id that a lease could have, and what knows
// leases alone overlooks it.
const PauseMark = "+paused"

// PauseKept is how long a feed keeps the Event of a pause. Who hears of it later asks
// what the task is by then.
const PauseKept = 10 * time.Minute

// Claim is a single-use right: the first value wins.
type Claim struct {
	Key   string    // namespaced, e.g. "dpop:<hash>"; at most 128 bytes
	Value string    // the same value may claim again when Rebind; at most 512 bytes
	Until time.Time // forgotten afterwards
	Again bool      // a repeated claim with the same Value is accepted
}

// Rate is a bound on how often something happens.
type Rate struct {
	Key   string        // e.g. "mint:<task>"
	Limit int           // per Per
	Per   time.Duration //
}

// Admission is everything a request needs from the ledger before it is judged,
// in one round trip.
type Admission struct {
	TaskID string // "" = no task
	Claims []Claim
	Rates  []Rate
	Refill bool // the Journal refills the ledger: a loss that is known already is no obstacle
}

// Gate holds claims, rates and one-time values.
type Gate interface {
	// Admit makes every claim and counts every rate, and returns the task. It
	// fails with ErrClaimed, a *RateError, or ErrNotFound for an unknown task. A
	// closed or paused task is returned, not refused: the caller says why.
	Admit(ctx context.Context, a Admission) (Live, error)
	// Put stores a value that Take removes: Take has exactly one winner; to
	// everybody else, and after until, it is ErrNotFound.
	Put(ctx context.Context, key, value string, until time.Time) error
	Take(ctx context.Context, key string) (string, error)
	// Pace enforces a polling interval that grows: a call earlier than the
	// current interval after the previous one adds step to it for good and
	// returns ok false and the new interval.
	Pace(ctx context.Context, key string, now time.Time, interval, step time.Duration, until time.Time) (cur time.Duration, ok bool, err error)
}

// RateError says that a rate of an Admission was exceeded.
type RateError struct {
	Key        string
	RetryAfter time.Duration
}

// Error implements error.
func (e *RateError) Error() string { return "rate exceeded: " + e.Key }

// Guard notices that a shared store lost what was written to it (restart
// without persistence, failover to a lagging replica, flush).
type Guard interface {
	// Check returns nil, ErrLost when data written before is gone since the
	// last Mark of any process, ErrEvicting while the store is configured so that it
	// could evict, then ErrLost until the next Mark, or another error when the store
	// cannot be reached.
	Check(ctx context.Context) error
	// Mark says that the ledger is complete now.
	Mark(ctx context.Context) error
	// Losses grows with each loss that this process has learned of, also of one
	// that another process noticed and cured before this one looked. What was
	// claimed before then may be claimed again. Another process that marks a
	// ledger which lost nothing changes nothing here.
	Losses() int64
	Close() error
}
