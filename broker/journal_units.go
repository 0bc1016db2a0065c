package broker

import (
	"time"

	"ebb/broker/audit"
	"ebb/broker/provider"
)

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
	Late        bool // Entries alone, for which nobody waits: they may wait some milliseconds to share the commit of what comes next
}

// TaskMove changes a task's state. What an operator has paused, only an operator
// pauses anew or resumes: everybody else's move is ErrOutranked. Whoever may end
// it ends it. A pause has a Cause when ebb makes it because of what the task asks.
type TaskMove struct {
	ID     string
	State  TaskState
	Cause  Cause
	Reason string
	By     string
	As     Role // of a pause or a resume
	At     time.Time
	From   TaskState // the move holds only from here (ErrDone); "" = from any but closed
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
