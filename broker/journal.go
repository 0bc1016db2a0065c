package broker

import (
	"context"
	"iter"
	"time"

	"ebb/broker/audit"
	"ebb/broker/provider"
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
	Lane
}

// Lane is the durable queue of what is owed at providers. Replicas share it: a
// claim is fenced, so that of two that work on one lease only the later is heard.
//
// A lease with an Upstream is in the lane as long as its NextAt is set, which is as
// long as it is in no final state: an intent from the moment at which its mint must
// have ended, a live lease from its expiry at the latest, a revoking one from its
// next attempt. MoveTask to closed moves every intent and live lease with an
// Upstream of its task to revoking in the same unit, with NextAt = the end's
// moment, RevokedAt, RevokedBy and Cause of it; claims stay as they are. No intent
// is issued to a closed task, so that none slips past that.
//
// RevokedAt is never after the expiry: when a lease is found or ended later than
// that, it had its whole time.
type Lane interface {
	// Take claims up to n (1..1000) leases of a provider whose NextAt is not after
	// now and whose claim, if there was one, has ended; each claim holds until
	// hold. None means that none is due. Tasks take turns, so that one that owes
	// thousands does not hold up one that owes one. Among those of one task the
	// oldest NextAt is first. An error leaves at most claims that end by
	// themselves.
	Take(ctx context.Context, provider string, now, hold time.Time, n int) ([]Claimed, error)
	// Owing sums up what Take could claim now or later but for live leases before
	// their expiry, by provider and in the order of their names; one that nothing is
	// owed to is left out. It costs what is owed, not what there is.
	Owing(ctx context.Context, now time.Time) ([]Owing, error)
	// Held counts by provider what is in no final state, also what is live and owes
	// nothing yet. It goes through all of it.
	Held(ctx context.Context) (map[string]int, error)
	// Sealed returns up to n (1..1000) leases, in the order of their ids and after
	// the id given ("" = from the first), that are not in a final state and whose
	// handle was not sealed by this key: rotation seals them again (ResealLease).
	Sealed(ctx context.Context, notBy, after string, n int) ([]Lease, error)
}

// Claimed is a lease that the caller may work on until its claim ends. Its State is
// what is recorded, not what is derived: live after its expiry means that its end is
// still to be written down.
type Claimed struct {
	Lease
	Fence int64 // higher with each claim of this lease
}

// Owing is what is owed at one provider.
type Owing struct {
	Provider string
	Intents  int       // without an outcome, and due
	Revoking int       // live ones after their expiry too
	Oldest   time.Time // since when the oldest of them is owed: its RevokedAt, or for an intent its IssuedAt
	NextAt   time.Time // the earliest NextAt among them
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
	OpenTask    *Task      // insert; ErrExists when the id exists. With Ancestors: ErrTaskClosed unless its parent is open, ErrCap when the parent's Uses are bounded and fewer are left than OpenTask is given, or it is given no bound
	OpenLimit   int        // ErrCap when the runner of OpenTask, or with Ancestors the first of them, has as many that are not closed, or the latter has ever had MaxDelegatesEver; 0 = no limit. Replicas may together exceed it by what they open at the same moment
	MoveTask    *TaskMove  // compare-and-swap; ErrDone when the task is closed, ErrNotFound, ErrOutranked
	BindSandbox *SandboxOf // compare-and-swap: only when none is bound; ErrDone
	IssueLease  *Lease     // insert; ErrExists, ErrTaskClosed unless its task is there and not closed. With an Upstream: see there
	IssueLimit  int        // ErrCap when the task of IssueLease has issued, and delegated, as many in all; 0 = no limit
	SettleLease *LeaseMove // compare-and-swap on the fence; ErrDone, ErrTaskClosed, ErrNotFound. Alone but for Entries
	ResealLease *LeaseSeal // compare-and-swap on the handle; ErrDone, ErrNotFound
	EndLease    *LeaseEnd  // compare-and-swap: only from intent, live, revoking; ErrDone, ErrNotFound, ErrOwed
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
// unit those that were narrowed from it, at any depth, as far as they have not
// ended: own tokens are revoked, those with an Upstream revoking.
//
// Of a lease with an Upstream only the lane says how it ended, so that there
// LeaseEnd knows two states (ErrOwed for the others): revoking makes At its NextAt,
// again when it is revoking already; and unconfirmed is a person's word, with
// ProofForced, that ends the claim of whoever works on it and erases the handle.
type LeaseEnd struct {
	ID    string
	State LeaseState
	By    string
	Cause Cause
	At    time.Time
}

// LeaseMove is what came of a step at a provider. It holds only while the claim
// with this fence does (ErrDone when there is a later one, or the lease is in a
// final state); with it the claim ends, unless Hold is set. To repeat it is safe
// until somebody else claims the lease.
//
// One race is decided here: a lease can only become or stay an intent or live when
// it is not revoking. When it is, because its task or it was ended meanwhile, then
// everything but the state is written, NextAt becomes At, and the unit, of which
// nothing else is written, fails with nothing but ErrTaskClosed, which means
// "saved, but it must die". A live lease never goes back to an intent (ErrDone).
type LeaseMove struct {
	ID    string
	Fence int64
	State LeaseState // intent (a handle is saved), live, revoking, or final
	At    time.Time
	Hold  time.Time // zero = give the claim back
	// RevokedAt, RevokedBy and Cause are written once, when the lease leaves live
	// or intent for good. RevokedAt is At, or its expiry when that was earlier.
	By    string
	Cause Cause
	// What the provider said. Class and ExpiresAt: "" and zero = as they were; an
	// expiry never moves to a later time.
	Class     provider.Class
	ExpiresAt time.Time
	// Upstream replaces what was known; an empty Handle leaves the stored one. In a
	// final state it needs a Proof, its NextAt is not looked at, and the stored handle
	// is erased; in the others it needs a NextAt, which for a live lease becomes its
	// expiry when that is earlier.
	Upstream Upstream
}

// LeaseSeal replaces a sealed handle by the same handle under another key. It
// needs no claim: it holds only while the handle is From (ErrDone), so never again
// once it is erased.
type LeaseSeal struct {
	ID, From, To string
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
	Below      string // delegated to by this task, at any depth
	Orphaned   bool   // not closed, while the parent is
	ClosedFrom time.Time
	Page       Page
}

// LeaseFilter selects leases by their derived state (see Lease).
type LeaseFilter struct {
	IDs      []string
	Parents  []string // narrowed from one of these; at most 1000
	TaskID   string
	Tree     string // of this task or of those that were delegated below it
	Owner    string
	Sandbox  string
	Provider string
	State    LeaseState
	From, To time.Time // issued in [From, To)
	Now      time.Time // "expired" is relative to it; required
	Upstream bool      // only those of third parties
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
	// then that one is returned with Asked raised and made is false. Atomic. limit
	// counts those that are pending of the task, of those above it and of all that were
	// delegated below the first of them.
	Create(ctx context.Context, r Request, limit int, e audit.Entry) (out Request, made bool, err error)
	// Vote adds v and settles the request when it is decided: any no denies;
	// the people who said yes approve, once Request.Satisfied by them, the meet of the voted scopes
	// and the shortest TTL. The grant ends at grantUntil, or that TTL after the last
	// vote if it is earlier: who approves five minutes does not approve fifteen.
	// ErrDone when not pending or expired, ErrStale when
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
	Tree      string // of this task or of those that were delegated below it
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
