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
	// Begin is an Append whose outcome wait returns. wait must be called, once: until
	// then ctx can still withdraw the unit.
	Begin(ctx context.Context, r Record) (wait func() error)
	// Writable returns nil when writes succeed: the latest ones did, or a write of its own
	// does now. It returns why otherwise, and an error when ctx ends first.
	Writable(ctx context.Context) error
	Tasks(ctx context.Context, f TaskFilter) ([]Task, error)
	Leases(ctx context.Context, f LeaseFilter) ([]Lease, error)
	Audit
	Lane
	Listing
	Statistics
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
	// hold. None means that none is due. Trees take turns (a task of a runner
	// with all that was delegated below it), so that one that owes thousands does not
	// hold up one that owes one, and in the turns of a tree its tasks do. Among those
	// of one task the oldest NextAt is first. An error leaves at most claims that end by
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
	// Durable returns the id of this process run's chain and the last entry of it that is known to be
	// durable (the zero Head before the first), from memory. The error wraps ErrMissing once a new
	// connection has led to a database without that entry; from then on nothing is written.
	Durable() (writer string, last audit.Head, err error)
	// Checkpoints returns signed checkpoints, oldest first.
	Checkpoints(ctx context.Context) ([]audit.Checkpoint, error)
	AddCheckpoint(ctx context.Context, c audit.Checkpoint) error
}

// Desk holds requests that wait for a person.
type Desk interface {
	// Create stores r, unless a pending request with the same Dedupe exists:
	// then that one is returned with Asked raised and made is false. Atomic, but that
	// replicas may together exceed Room.Owner by what they create at the same moment.
	Create(ctx context.Context, r Request, room Room, e audit.Entry) (out Request, made bool, err error)
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
	Ballots
	Queue
	BreakGlassStore
}

// BreakGlassStore keeps periods of break-glass; replicas share it. What is given up by the
// end of a period, Vote refuses: it counts a yes under a period that is open, of the same
// person and not used up, in one step with the vote, and ErrNotFound otherwise.
type BreakGlassStore interface {
	// BeginBreakGlass keeps a new one, in one step with a look at its session: ErrNotFound
	// when that is not of the person or has ended. ErrExists when the person, by whatever name,
	// has one that is not ended, when one of that id began before or by that sign-in, ErrCap
	// when they began most of them since then.
	BeginBreakGlass(ctx context.Context, g BreakGlass, since time.Time, most int, e audit.Entry) error
	// EndBreakGlass and ReviewBreakGlass have one winner each: ErrDone for the others. What
	// goes on the record is made of the period as it is then.
	EndBreakGlass(ctx context.Context, id, by string, at time.Time, entry BreakGlassEntry) (BreakGlass, error)
	ReviewBreakGlass(ctx context.Context, id, by, note string, at time.Time, entry BreakGlassEntry) (BreakGlass, error)
	// BreakGlasses returns the newest first.
	BreakGlasses(ctx context.Context, f BreakGlassFilter) ([]BreakGlass, error)
}

// BreakGlassEntry is what goes on the record of a period, when nothing of it changes any more.
type BreakGlassEntry func(BreakGlass) audit.Entry

// Ballots are votes of one person that count together.
type Ballots interface {
	// VoteAll is a Vote for each of 1 or more ballots, in one durable unit: when one is
	// refused, none counts. A request has at most one of them.
	VoteAll(ctx context.Context, bs []Ballot) ([]Request, error)
}

// Ballot is what Vote takes.
type Ballot struct {
	Vote
	Until   time.Time // see Vote, grantUntil
	Entries []audit.Entry
}

// Queue is what waits for people, in the order in which they should look at it.
type Queue interface {
	// Waiting looks at the next requests that wait, and says where those are that f
	// looks for.
	Waiting(ctx context.Context, f WaitFilter) (WaitSlice, error)
	// CountWaiting counts what waits, by Rank: the worst first, WaitingCap of them at most.
	// After, Limit and what is looked for in the rows do not narrow it.
	CountWaiting(ctx context.Context, f WaitFilter) (map[int]int, error)
	// NewestWaiting returns the ids of up to n (1..1000) requests that wait at this time,
	// newest first; without is that of a WaitFilter.
	NewestWaiting(ctx context.Context, now time.Time, without []string, n int) ([]string, error)
	// Marks is Requests without what takes long to read.
	Marks(ctx context.Context, f RequestFilter) ([]Mark, error)
}
