package broker

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// LiveStore is the current state: open tasks, live credentials, used proofs. Its loss does no
// harm: the Store refills it, and a task or token that it does not know is not valid.
// Implementations (redisstore, memstore) are safe for concurrent use by many processes that
// share one store; every compound step is atomic (I10). All times are truncated to
// milliseconds.
//
// An error that is none of the sentinels means that the store could not decide: the broker
// fails closed. It does the same for ErrLost and ErrEvicting. Each call that would report an
// unknown task, lease, value or claim checks at the same moment whether data was lost, and
// returns ErrLost if so.
type LiveStore interface {
	TaskTable
	LeaseTable
	Gate
	Guard
}

// TaskTable holds the open tasks, and closed ones as long as a token of theirs could be
// unexpired.
type TaskTable interface {
	// PutTask stores t. It is idempotent and monotonic: it never reopens a closed task and
	// never unsets a sandbox. keep is the time until which a closed task must be remembered.
	PutTask(ctx context.Context, t Live, keep time.Time) error
	// SetState moves a task in O(1) for any number of leases. It publishes an Event when the
	// task closes, and an Event with PauseMark for each move to paused. first is false when the
	// task was closed before. Any other move of a closed task is ErrTaskClosed. An unknown task
	// is ErrNotFound, except that closing it leaves a tombstone until keep and is no error.
	SetState(ctx context.Context, id string, s TaskState, at, keep time.Time) (c Counts, first bool, err error)
	// Touch applies u atomically and returns the result. ErrTaskClosed when closed.
	Touch(ctx context.Context, id string, u Touch) (Live, error)
	// Due takes up to n open or paused tasks whose Due has passed, and hides each from other
	// callers until hold. If the caller dies, they become due again.
	Due(ctx context.Context, now, hold time.Time, n int) ([]string, error)
}

// A task keeps MaxTaint sources by name. The first source beyond that is stored as MoreTaint,
// which is no name that a runner could report and is never removed. The audit log has all
// names.
const (
	MaxTaint  = 64
	MoreTaint = "+more"
)

// AddTaint adds sources to the sorted set had, in the order given and within MaxTaint. Every
// implementation of the live store uses it.
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

// Touch is a change of a task's counters and facts. Zero members change nothing.
type Touch struct {
	Due        time.Time
	Denials    int      // added
	Violations int      // added
	Taint      []string // see AddTaint
	Sandbox    *Sandbox // set once; a different one later is ErrClaimed
}

// Counts is a task's number of leases at a moment.
type Counts struct {
	Live    int // unexpired and not ended
	Expired int // expired and still remembered
}

// LiveLease is the live store's part of a lease.
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
	// PutLease stores l if its task is open, fewer leases than limits are live, and l was not
	// ended before. Otherwise it returns ErrTaskClosed, ErrTaskPaused, ErrCap, ErrOwnerCap,
	// ErrDone, or ErrNotFound for an unknown task. Putting the same lease twice is no error.
	// refill is set while the Store refills the live store: a lease of a paused task is then
	// accepted.
	//
	// The live leases of an owner never exceed its limit. Their count may be too high for a
	// moment: while a refusal gives back what it counted, and until the expiry of a lease whose
	// put or end was interrupted.
	PutLease(ctx context.Context, l LiveLease, limits LeaseLimits, refill bool) error
	// EndLease refuses l from now on, leaves a tombstone until its expiry and publishes an
	// Event. first is false when l was ended before.
	EndLease(ctx context.Context, l LiveLease, at time.Time) (first bool, err error)
	// Status reports whether the lease is live: known, unexpired at now, not ended, and its
	// task not closed. An unknown lease is false, or ErrLost if the live store may have lost
	// it.
	Status(ctx context.Context, taskID, leaseID string, now time.Time) (alive bool, err error)
	// Follow returns up to max events after cursor ("" = from the oldest kept) and the next
	// cursor; it waits up to wait for the first. An event is kept at least as long as a token
	// that it concerns could be unexpired.
	Follow(ctx context.Context, cursor string, max int, wait time.Duration) ([]Event, string, error)
}

// Event is one entry of the revocation feed.
type Event struct {
	TaskID  string    `json:"task_id"`
	LeaseID string    `json:"lease_id,omitempty"` // empty: the whole task; PauseMark: the task is paused
	At      time.Time `json:"at"`
	Until   time.Time `json:"until"` // the event is not needed after this
}

// PauseMark stands for a lease in the Event of a pause. A pause revokes nothing; its Event
// stops requests under way. It cannot be the id of a lease, and readers that look for leases
// ignore it.
const PauseMark = "+paused"

// PauseKept is how long a feed keeps the Event of a pause. A reader that is later than that
// reads the task's state instead.
const PauseKept = 10 * time.Minute

// Claim is a single-use right: the first value is accepted, later ones are not.
type Claim struct {
	Key   string    // namespaced, e.g. "dpop:<hash>"; at most 128 bytes
	Value string    // see Again; at most 512 bytes
	Until time.Time // forgotten after this
	Again bool      // a repeated claim with the same Value is accepted
}

// Rate is a limit on how often something may happen.
type Rate struct {
	Key   string        // e.g. "mint:<task>"
	Limit int           // in each period Per
	Per   time.Duration //
}

// Admission is everything that a request needs from the live store before it is evaluated, in
// one round trip.
type Admission struct {
	TaskID string // "" = no task
	Claims []Claim
	Rates  []Rate
	Refill bool // the Store refills the live store: a known loss is then no error
}

// Check returns an error if a claim or rate is outside the limits of Claim and Rate. Every live
// store calls it first.
func (a Admission) Check() error {
	const maxKey, maxValue = 128, 512 // bytes
	for _, c := range a.Claims {
		if c.Key == "" || len(c.Key) > maxKey || len(c.Value) > maxValue {
			return fmt.Errorf("claim: the key has %d bytes and must have 1 to %d; the value has %d bytes and must have at most %d", len(c.Key), maxKey, len(c.Value), maxValue)
		}
	}
	for _, r := range a.Rates {
		if r.Key == "" || r.Per <= 0 {
			return fmt.Errorf("rate: key %q with period %s: the key must not be empty, and the period must be positive", r.Key, r.Per)
		}
	}
	return nil
}

// Gate holds claims, rates and one-time values.
type Gate interface {
	// Admit makes every claim, counts every rate and returns the task. It fails with
	// ErrClaimed, a *RateError, or ErrNotFound for an unknown task. A closed or paused task is
	// returned, not refused, so that the caller can report why.
	Admit(ctx context.Context, a Admission) (Live, error)
	// Put stores a value that Take removes. Of concurrent calls of Take one gets it; the
	// others, and all calls after until, get ErrNotFound.
	Put(ctx context.Context, key, value string, until time.Time) error
	Take(ctx context.Context, key string) (string, error)
	// Pace enforces a growing polling interval. A call earlier than the current interval after
	// the previous one returns ok false and the interval. Such a call also adds p.Step to the
	// interval for good, up to p.Most, unless the previous call was early too: of simultaneous
	// calls one counts.
	Pace(ctx context.Context, key string, now time.Time, p Pacing, until time.Time) (cur time.Duration, ok bool, err error)
}

// Pacing is how long a client waits between calls. Most is at least Interval.
type Pacing struct{ Interval, Step, Most time.Duration }

// RateError says that a rate of an Admission was exceeded.
type RateError struct {
	Key        string
	RetryAfter time.Duration
}

// Error implements error.
func (e *RateError) Error() string { return "rate exceeded: " + e.Key }

// Guard notices that a shared store lost data (restart without persistence, failover to a
// lagging replica, flush).
type Guard interface {
	// Check returns nil; ErrLost when data written before is gone since the last Mark of any
	// process; ErrEvicting while the store's configuration allows eviction, and ErrLost after
	// that until the next Mark; or another error when the store cannot be reached.
	Check(ctx context.Context) error
	// Mark records that the live state is complete now.
	Mark(ctx context.Context) error
	// Losses grows with each loss that this process has learned of, including a loss that
	// another process noticed and repaired first. Claims made before a loss may be accepted
	// again. A Mark by another process without a loss changes nothing here.
	Losses() int64
	// Memory returns a random name of the store's content, the same for every process: at least
	// 128 bits in characters of base64url. Each loss ends the name, and the Mark after it makes
	// a new one. "" = the store was not marked since the last loss that this process learned
	// of.
	Memory() string
	Close() error
}
