package broker

import (
	"context"
	"iter"
	"time"

	"ebb/broker/audit"
)

// Journal is what outlives the process: tasks, leases and the audit chain. One
// Append is one durable unit: after it returns nil it survives kill -9 and
// power loss; after an error nothing of it is visible, except that a cancelled
// context or a broken connection can leave the outcome unknown, and then
// repeating the same Append is safe (ids are the keys). Concurrent Appends
// share transactions.
type Journal interface {
	// Append applies every part of r together, or none. A part whose
	// compare-and-swap fails makes the whole unit fail with ErrDone,
	// ErrNotFound, ErrExists, ErrCap, ErrOutranked or ErrTaskClosed, and no other unit. Once a unit that
	// closes a task has returned, no lease of it appears any more.
	Append(ctx context.Context, r Record) error
	Tasks(ctx context.Context, f TaskFilter) ([]Task, error)
	Leases(ctx context.Context, f LeaseFilter) ([]Lease, error)
	Audit
}

// Audit reads the record.
type Audit interface {
	// Entries yields the entries that match f, by (At, Writer, Seq) ascending
	// or descending as f says. The sequence ends at the first error.
	Entries(ctx context.Context, f EntryFilter) iter.Seq2[audit.Entry, error]
	// Heads returns the last entry of every writer (Seq and Hash matter).
	Heads(ctx context.Context) ([]audit.Entry, error)
	// Checkpoints returns signed checkpoints, oldest first.
	Checkpoints(ctx context.Context) ([]audit.Checkpoint, error)
	AddCheckpoint(ctx context.Context, c audit.Checkpoint) error
}

// Record is one durable unit. Entries are appended to this writer's chain.
type Record struct {
	OpenTask    *Task      // insert; ErrExists when the id exists
	OpenLimit   int        // ErrCap when the runner of OpenTask has as many that are not closed; 0 = no limit. Replicas may together exceed it by what they open at the same moment
	MoveTask    *TaskMove  // compare-and-swap; ErrDone when the task is closed, ErrNotFound, ErrOutranked
	BindSandbox *SandboxOf // compare-and-swap: only when none is bound; ErrDone
	IssueLease  *Lease     // insert; ErrExists, ErrTaskClosed unless its task is there and not closed
	EndLease    *LeaseEnd  // compare-and-swap: only from intent, live, revoking; ErrDone, ErrNotFound
	Entries     []audit.Entry
}

// TaskMove changes a task's state. What an operator has paused, only an operator
// pauses anew or resumes: everybody else's move is ErrOutranked. Whoever may end
// it ends it.
type TaskMove struct {
	ID     string
	State  TaskState
	Cause  Cause
	Reason string
	By     string
	As     Role // of a pause or a resume
	At     time.Time
}

// SandboxOf binds a sandbox to a task.
type SandboxOf struct {
	TaskID  string
	Sandbox Sandbox
}

// LeaseEnd ends one lease. When it is revoked, or to be, then so are in the same
// unit those that were narrowed from it, at any depth, as far as they have not ended.
type LeaseEnd struct {
	ID    string
	State LeaseState
	By    string
	Cause Cause
	At    time.Time
}

// Page is a cursor over ids, which sort by time of creation.
type Page struct {
	After string // exclusive; "" = from the start
	Limit int    // 1..1000, 0 = 50
	Desc  bool   // newest first
}

// TaskFilter selects tasks. Zero members match everything.
type TaskFilter struct {
	IDs        []string
	State      TaskState
	Open       bool // open or paused
	Owner      string
	Runner     string
	Kind       string
	ClosedFrom time.Time
	Page       Page
}

// LeaseFilter selects leases by their derived state (see Lease).
type LeaseFilter struct {
	IDs      []string
	Parents  []string // narrowed from one of these; at most 1000
	TaskID   string
	Owner    string
	Sandbox  string
	Provider string
	State    LeaseState
	From, To time.Time // issued in [From, To)
	Now      time.Time // "expired" is relative to it; required
	Page     Page

	ExpiresAfter time.Time // expires, or expired, after it
}

// EntryFilter selects audit entries.
type EntryFilter struct {
	TaskID, LeaseID, RequestID string
	Kind                       string // exact, or a prefix that ends in "."
	Actor                      string
	Writer                     string
	AfterSeq                   int64 // with Writer
	From, To                   time.Time
	Limit                      int // 0 = all
	Desc                       bool
}

// Desk holds requests that wait for a person.
type Desk interface {
	// Create stores r, unless a pending request with the same Dedupe exists:
	// then that one is returned with Asked raised and made is false. Atomic.
	Create(ctx context.Context, r Request, limit int, e audit.Entry) (out Request, made bool, err error)
	// Vote adds v and settles the request when it is decided: any no denies;
	// the people who said yes approve, once Request.Satisfied by them, the meet of the voted scopes
	// and the shortest TTL. ErrDone when not pending or expired, ErrStale when
	// v.Digest differs, ErrExists when the same person voted before. Of the
	// entries, those about an approval or a denial are kept only when v leads to it.
	Vote(ctx context.Context, v Vote, grantUntil time.Time, entries ...audit.Entry) (Request, error)
	// Settle moves a request from one state to another: exactly one caller wins,
	// the others get ErrDone.
	Settle(ctx context.Context, id string, from, to RequestState, at time.Time, r Record) (Request, error)
	Requests(ctx context.Context, f RequestFilter) ([]Request, error)
}

// RequestFilter selects requests.
type RequestFilter struct {
	IDs       []string
	TaskID    string
	Owner     string
	State     RequestState
	Open      bool      // pending or approved: it can still lead to a token
	Group     string    // decidable by this group
	Sight     *Sight    // only what this principal may see; nil = all
	GrantLive time.Time // approved or issued with GrantUntil after it
	Since     time.Time // created or decided after it
	Dedupe    string
	ExpiredAt time.Time // pending with ExpiresAt not after it
	Page      Page
}

// Sight is what a principal who is neither auditor nor operator may see of
// requests: those that its groups decide and those of its own tasks.
type Sight struct {
	Groups []string
	Runner string
}
