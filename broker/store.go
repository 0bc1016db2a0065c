package broker

import (
	"context"
	"iter"
	"time"

	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/broker/provider"
)

// Store keeps durable state: tasks, leases and the audit log. One Append is one durable unit:
// after it returns nil, the unit survives kill -9 and power loss. After an error nothing of the
// unit is visible. One exception: a cancelled context or a broken connection can leave the
// outcome unknown, and then repeating the same Append is safe (ids are the keys). Concurrent
// Appends share transactions.
type Store interface {
	// Append applies every part of r together, or none. A part whose compare-and-swap fails
	// makes the whole unit fail with ErrDone, ErrNotFound, ErrExists, ErrCap, ErrOutranked or
	// ErrTaskClosed; other units are not affected. Once a unit that closes a task has returned,
	// no new lease of the task can appear.
	Append(ctx context.Context, r Record) error
	// Begin starts an Append whose outcome wait returns. wait must be called once; until then
	// cancelling ctx can still withdraw the unit.
	Begin(ctx context.Context, r Record) (wait func() error)
	// Writable returns nil when writes succeed: the latest writes did, or a test write does
	// now. Otherwise it returns why, and an error when ctx ends first.
	Writable(ctx context.Context) error
	Tasks(ctx context.Context, f TaskFilter) ([]Task, error)
	Leases(ctx context.Context, f LeaseFilter) ([]Lease, error)
	// Spent returns the sums of a task's holders; the Limit of each is 0.
	Spent(ctx context.Context, taskID string, holders ...string) ([]Spending, error)
	Audit
	RevocationQueue
	Listing
	Statistics
}

// RevocationQueue is the durable queue of pending revocations at providers, shared
// by all replicas. Claims are fenced: when two replicas work on one lease, only the later
// claim's writes are accepted.
//
// A lease with an Upstream is in the queue as long as its NextAt is set, which is until it
// reaches a final state. NextAt of an intent is the moment at which its mint must have ended;
// of a live lease its expiry at the latest; of a revoking lease its next attempt. MoveTask to
// closed moves every intent and live lease with an Upstream of its task to revoking in the same
// unit, with NextAt = the moment of the end, and sets RevokedAt, RevokedBy and Cause; claims
// stay as they are. No intent is recorded for a closed task, so that no lease can be missed.
//
// RevokedAt is never after the expiry: a lease that is found or ended later had its whole
// lifetime.
type RevocationQueue interface {
	// Take claims up to n (1..1000) leases of a provider whose NextAt is not after now and that
	// have no current claim; each claim lasts until hold. An empty result means that no lease
	// is due. Delegation trees take turns (a runner's task with all tasks delegated below it),
	// and so do the tasks of a tree: one tree with thousands of pending revocations does not
	// delay a tree with one. Within a task the oldest NextAt is first. An error leaves at most
	// claims that expire by themselves.
	Take(ctx context.Context, provider string, now, hold time.Time, n int) ([]Claimed, error)
	// DueBy moves the next attempt of every lease in state intent or revoking to at, if it is planned
	// later. It also shortens every claim that ends after at, including claims of live leases. The queue
	// calls DueBy at start and after the clock has jumped or a jump has settled.
	DueBy(ctx context.Context, at time.Time) error
	// RevocationBacklog sums up the leases that Take could claim now or later, except live leases before
	// their expiry, by provider in the order of their names. Providers without such leases are
	// left out. Its cost grows with the number of pending revocations, not with the size of the
	// table.
	RevocationBacklog(ctx context.Context, now time.Time) ([]RevocationBacklog, error)
	// Held counts by provider the leases in no final state, including live leases. It reads all
	// of them.
	Held(ctx context.Context) (map[string]int, error)
	// Sealed returns up to n (1..1000) leases, ordered by id, after the id given ("" = from the
	// first), that are not in a final state and whose handle was sealed by another key: key
	// rotation seals them again (ResealLease).
	Sealed(ctx context.Context, notBy, after string, n int) ([]Lease, error)
}

// Claimed is a lease that the caller may work on until its claim ends. Its State is the
// recorded state, not the derived one: live after its expiry means that the end is not recorded
// yet.
type Claimed struct {
	Lease
	Fence int64 // higher with each claim of this lease
}

// RevocationBacklog sums up the pending revocations at one provider.
type RevocationBacklog struct {
	Provider string
	Intents  int       // without an outcome, and due
	Revoking int       // including live leases after their expiry
	Oldest   time.Time // when the oldest of them became pending: its RevokedAt, or its IssuedAt for an intent
	NextAt   time.Time // the earliest NextAt among them
}

// Audit reads the audit log.
type Audit interface {
	// Entries yields the entries that match f, by (At, Writer, Seq) ascending
	// or descending as f says. The sequence ends at the first error.
	Entries(ctx context.Context, f EntryFilter) iter.Seq2[audit.Entry, error]
	// Heads returns the last entry of every writer. Only Seq and Hash of it are needed.
	Heads(ctx context.Context) ([]audit.Entry, error)
	// Durable returns from memory the id of this process run's chain and the last entry of it
	// that is known to be durable (the zero Head before the first). The error wraps ErrMissing
	// after a new connection reached a database without that entry; from then on nothing is
	// written.
	Durable() (writer string, last audit.Head, err error)
	// Checkpoints returns signed checkpoints, oldest first.
	Checkpoints(ctx context.Context) ([]audit.Checkpoint, error)
	AddCheckpoint(ctx context.Context, c audit.Checkpoint) error
	// Unsigned returns the heads, by writer, that no valid checkpoint among the newest SearchedCheckpoints
	// names. It calls valid only for checkpoints that name a head not found yet.
	Unsigned(ctx context.Context, heads map[string]audit.Head, valid func(audit.Checkpoint) bool) (rest map[string]audit.Head, err error)
}

// SearchedCheckpoints is the maximum number of checkpoints that Unsigned reads.
const SearchedCheckpoints = 512

// ApprovalStore holds requests that wait for a person.
type ApprovalStore interface {
	// Create stores r, unless a pending request with the same Dedupe exists. Then it increments
	// Asked of that request and returns it, and made is false. Create is atomic, except that
	// replicas may together exceed Room.Owner by requests created at the same moment.
	Create(ctx context.Context, r Request, room Room, e audit.Entry) (out Request, made bool, err error)
	// Vote adds v and settles the request when it is decided. Any denial denies it. Approvals
	// approve it once Request.Satisfied holds for the people who gave them; the grant has the
	// intersection of the approved scopes and the shortest TTL. The grant ends at grantUntil,
	// or that TTL after the last vote if that is earlier: an approval of five minutes must not
	// become one of fifteen. Errors: ErrDone when the request is not pending or has expired,
	// ErrStale when v.Digest differs, ErrExists when the same person voted before. Entries
	// about an approval or a denial are kept only when v leads to it.
	Vote(ctx context.Context, v Vote, grantUntil time.Time, entries ...audit.Entry) (Request, error)
	// Settle moves a request from one state to another. Of concurrent callers one succeeds, and
	// the others get ErrDone.
	Settle(ctx context.Context, id string, from, to RequestState, at time.Time, r Record) (Request, error)
	Requests(ctx context.Context, f RequestFilter) ([]Request, error)
	Queue
	BreakGlassStore
}

// BreakGlassStore keeps break-glass periods; replicas share it. Vote counts an approval under a
// period only if the period is open, belongs to the same person and has approvals left. It
// checks this in the same transaction as the vote, and returns ErrNotFound otherwise.
type BreakGlassStore interface {
	// BeginBreakGlass stores a new period, and checks its session in the same transaction:
	// ErrNotFound when the session belongs to another person or has ended. ErrExists when the
	// person, by any name, has a period that has not ended, or when a period with that id or
	// that sign-in began before. ErrCap when the person began most periods since then.
	BeginBreakGlass(ctx context.Context, g BreakGlass, since time.Time, most int, e audit.Entry) error
	// EndBreakGlass and ReviewBreakGlass succeed for one caller; the others get ErrDone. entry
	// is called with the period as it is then.
	EndBreakGlass(ctx context.Context, id, by string, at time.Time, entry BreakGlassEntry) (BreakGlass, error)
	ReviewBreakGlass(ctx context.Context, id, by, note string, at time.Time, entry BreakGlassEntry) (BreakGlass, error)
	// BreakGlasses returns the periods that match f, newest first.
	BreakGlasses(ctx context.Context, f BreakGlassFilter) ([]BreakGlass, error)
}

// BreakGlassEntry returns the audit entry of a period after its change.
type BreakGlassEntry func(BreakGlass) audit.Entry

// Queue lists the requests that wait for people, in the order in which people should decide
// them.
type Queue interface {
	// Waiting reads the next waiting requests and returns the places of those that match f.
	Waiting(ctx context.Context, f WaitFilter) (WaitSlice, error)
	// CountWaiting counts waiting requests by Rank, highest first, WaitingCap of them at most.
	// It ignores f.After, f.Limit, f.Provider and f.Text.
	CountWaiting(ctx context.Context, f WaitFilter) (map[int]int, error)
	// NewestWaiting returns the ids of up to n (1..1000) requests that wait at this time,
	// newest first; without has the meaning of WaitFilter.Without.
	NewestWaiting(ctx context.Context, now time.Time, without []string, n int) ([]string, error)
	// Marks is Requests without the members that take long to read.
	Marks(ctx context.Context, f RequestFilter) ([]Mark, error)
}

// Record is one durable unit. Entries are appended to this process's audit chain.
type Record struct {
	OpenTask    *Task      // insert; ErrExists when the id exists. With Ancestors: ErrTaskClosed unless its parent is open; ErrCap when the parent's Uses are limited and OpenTask has no limit or a higher one than is left
	OpenLimit   int        // ErrCap when the runner of OpenTask, or with Ancestors the first of them, has as many open tasks, or that first ancestor has ever had MaxDelegatesEver; 0 = no limit. Replicas may together exceed it by tasks opened at the same moment
	MoveTask    *TaskMove  // compare-and-swap; ErrDone when the task is closed, ErrNotFound, ErrOutranked
	BindSandbox *SandboxOf // compare-and-swap: only when no sandbox is bound; ErrDone
	IssueLease  *Lease     // insert; ErrExists; ErrTaskClosed unless its task exists and is not closed. With an Upstream: see Upstream
	IssueLimit  int        // ErrCap when the task of IssueLease has issued and delegated as many in all; 0 = no limit
	SettleLease *LeaseMove // compare-and-swap on the fence; ErrDone, ErrTaskClosed, ErrNotFound. The unit may hold nothing else except Entries
	ResealLease *LeaseSeal // compare-and-swap on the handle; ErrDone, ErrNotFound
	EndLease    *LeaseEnd  // compare-and-swap: only from intent, live, revoking; ErrDone, ErrNotFound, ErrPendingRevocation
	Spend       []Spending // ErrCap when a sum would exceed the limit. The unit may hold nothing else except Entries
	Entries     []audit.Entry
	Late        bool // the unit holds only Entries, and no caller waits for them: they may wait some milliseconds to share the next commit
}

// TaskMove changes a task's state. Only an operator can pause anew or resume a task that an
// operator has paused; the move of any other caller fails with ErrOutranked. Such a pause does
// not keep other callers from ending the task. A pause by ebb itself, because of the task's
// requests, has a Cause.
type TaskMove struct {
	ID     string
	State  TaskState
	Cause  Cause
	Reason string
	By     string
	As     Role // role of the caller, for a pause or a resume
	At     time.Time
	From   TaskState // required current state, otherwise ErrDone; "" = any but closed
}

// SandboxOf binds a sandbox to a task.
type SandboxOf struct {
	TaskID  string
	Sandbox Sandbox
}

// LeaseEnd ends one lease. When the lease becomes revoked or revoking, then so do, in the same
// unit, all leases narrowed from it at any depth that have not ended: own tokens become
// revoked, leases with an Upstream revoking.
//
// Of a lease with an Upstream only the revocation queue records how it ended. LeaseEnd
// therefore accepts two states for it (ErrPendingRevocation for the others). revoking sets NextAt to At,
// also when the lease is revoking already. unconfirmed is a person's statement: it sets
// ProofForced, ends the current claim and erases the handle.
type LeaseEnd struct {
	ID    string
	State LeaseState
	By    string
	Cause Cause
	At    time.Time
}

// LeaseMove records the outcome of a step at a provider. It is accepted only for the current
// claim: ErrDone when there is a claim with a later fence, or when the lease is in a final
// state. It ends the claim, unless Hold is set. Repeating it is safe until another replica
// claims the lease.
//
// It also decides one race: a lease can become or stay an intent or live only when it is not
// revoking. When it is revoking, because it or its task was ended meanwhile, everything but the
// state is written and NextAt becomes At. The rest of the unit is not written, and the unit
// fails with exactly ErrTaskClosed: "saved, but the credential must be revoked". A live lease
// never goes back to an intent (ErrDone).
type LeaseMove struct {
	ID    string
	Fence int64
	State LeaseState // intent (a handle is saved), live, revoking, or final
	At    time.Time
	Hold  time.Time // zero = release the claim
	// RevokedAt, RevokedBy and Cause are written once, when the lease leaves live or intent for
	// good. RevokedAt is At, or the lease's expiry when that was earlier.
	By    string
	Cause Cause
	// Class and ExpiresAt are the provider's values; "" and zero keep the stored ones. An
	// expiry never moves to a later time.
	Class     provider.Class
	ExpiresAt time.Time
	// Upstream replaces the stored Upstream; an empty Handle keeps the stored handle. In a
	// final state it needs a Proof, NextAt is ignored, and the stored handle is erased. In the
	// other states it needs a NextAt; for a live lease the expiry replaces it when that is
	// earlier.
	Upstream Upstream
}

// LeaseSeal replaces a sealed handle by the same handle under another key. It needs no claim.
// It applies only while the stored handle equals From (ErrDone otherwise), so never after the
// handle is erased.
type LeaseSeal struct {
	ID, From, To string
}

// PolicyStore keeps policy sets: drafts that people propose, and published releases. Replicas
// share it. Each change and its audit entry are written together, or neither is.
type PolicyStore interface {
	PolicyDrafts
	PolicyReleases
}

// PolicyDrafts keeps the sets that people propose.
type PolicyDrafts interface {
	// PutDraft stores d. With was "" it is a new draft: ErrCap when there are
	// policyset.MaxDrafts, ErrExists for a known id. Otherwise it replaces the draft with this
	// id and the digest was: ErrNotFound, ErrStale.
	PutDraft(ctx context.Context, d policyset.Draft, was string, e audit.Entry) error
	// DropDraft deletes the draft with this id and digest: ErrNotFound, ErrStale.
	DropDraft(ctx context.Context, id, digest string, e audit.Entry) error
	// Draft returns one draft: ErrNotFound.
	Draft(ctx context.Context, id string) (policyset.Draft, error)
	// Drafts returns all drafts, the most recently changed first.
	Drafts(ctx context.Context) ([]policyset.Draft, error)
}

// PolicyReleases keeps the published sets, numbered 1, 2, 3 ...
type PolicyReleases interface {
	// Publish stores r as the next release and deletes the draft that it was made from. Of
	// concurrent calls one succeeds. ErrNotFound without that draft; ErrStale when the draft's
	// digest differs, or when the newest release is not r.Number-1.
	Publish(ctx context.Context, r policyset.Release, e audit.Entry) error
	// NewestRelease returns the number of the newest release, 0 without any.
	NewestRelease(ctx context.Context) (int64, error)
	// Release returns one release: ErrNotFound.
	Release(ctx context.Context, number int64) (policyset.Release, error)
	// Releases returns up to n (1..1000) releases before a number (0 = from the newest), newest
	// first, without their files.
	Releases(ctx context.Context, before int64, n int) ([]policyset.Release, error)
}

// MarkStore keeps high-water marks of the audit log outside the database, each under the id of
// the process run that wrote it.
type MarkStore interface {
	Marks(ctx context.Context) (map[string][]byte, error)
	// PutMark replaces the mark of a writer; a reader sees the old one or the new one.
	PutMark(ctx context.Context, writer string, mark []byte) error
	DropMark(ctx context.Context, writer string) error
}
