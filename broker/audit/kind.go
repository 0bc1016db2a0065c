package audit

import "slices"

// Kinds of entries. The set is closed: Chain refuses any other, so that whoever
// reads the record can know every word in it. A stored kind is never renamed.
const (
	BrokerStarted = "broker.started" // a process run began; its first entry
	BrokerStopped = "broker.stopped" // it ended in good order

	BoxOpened     = "box.opened"     // a runner got a way out for a tool of a task
	BoxRegistered = "box.registered" // which network namespace it is for
	BoxClosed     = "box.closed"     // everything of it is cut
	BoxStranger   = "box.stranger"   // somebody who is not of a box came to its socket; at most once a minute for each task

	EgressAllowed   = "egress.allowed"   // a credential is about to be added to a request
	EgressCompleted = "egress.completed" // how that request ended
	EgressDenied    = "egress.denied"    // a request did not leave; a flood of one task is counted in the next entry

	PolicyReloaded = "policy.reloaded" // a new policy set decides from now on
	PolicyRejected = "policy.rejected" // a new policy set was broken; the last good one stays

	PolicyDrafted   = "policy.drafted"   // somebody proposed a policy set, or changed what they had proposed
	PolicyDropped   = "policy.dropped"   // a proposed set was given up
	PolicyPublished = "policy.published" // a second person put a proposed set in force

	KeyAdded   = "key.added"   // a signing key is used from now on: its public half
	KeyRevoked = "key.revoked" // an operator gave one up that may be known to others; from when on its signatures do not count

	LedgerRefilled = "ledger.refilled" // the ledger was filled from the journal
	LedgerLost     = "ledger.lost"     // the ledger lost data; nothing mints until it is refilled

	LossAccepted = "loss.accepted" // an operator went on although the database lacks entries: which; all that is older is refused

	PrincipalAuthenticated = "principal.authenticated" // an operator, runner, approver ... got a token
	PrincipalRefused       = "principal.refused"       // it did not

	SessionBegan = "session.began" // a person signed in to the console
	SessionEnded = "session.ended" // and out, in one or more browsers

	PasskeyAdded   = "passkey.added"   // a person has another passkey
	PasskeyRemoved = "passkey.removed" // and has one no more
	PasskeyRenamed = "passkey.renamed" // and calls one otherwise

	BreakGlassBegun    = "breakglass.begun"    // a named person approves alone for a while: who, for which incident and why
	BreakGlassUsed     = "breakglass.used"     // and approved this alone
	BreakGlassEnded    = "breakglass.ended"    // by time, or by a person before it
	BreakGlassReviewed = "breakglass.reviewed" // an auditor has looked at what was done under it

	TranscriptRead = "transcript.read" // an auditor read what was written down of a request through egress

	RecordExported = "record.exported" // a person took a list out as a file: with which filter, and how much of it

	TaskOpened    = "task.opened"
	TaskTicket    = "task.ticket"    // an enrolment ticket was issued
	TaskTainted   = "task.tainted"   // it has read what others can write
	TaskPaused    = "task.paused"    // nothing mints
	TaskResumed   = "task.resumed"   //
	TaskDelegated = "task.delegated" // its sandbox gave a part of it to another one, in a task of its own
	TaskClosed    = "task.closed"    // every token of it is dead

	SandboxEnrolled = "sandbox.enrolled" // its evidence was accepted
	SandboxRejected = "sandbox.rejected" // its evidence was refused
	SandboxToken    = "sandbox.token"    // it got a task token
	SandboxAttested = "sandbox.attested" // it showed fresh evidence with a request; where a lapse ends its task
	SandboxHeld     = "sandbox.held"     // it holds a control connection, whose end is its own
	SandboxDied     = "sandbox.died"     // its attestor saw its end, or its control connection did

	RequestCreated   = "request.created"   // a person was asked
	RequestRepeated  = "request.repeated"  // the same was asked again while it waited; once for each request
	RequestHeld      = "request.held"      // a person would have been asked, but people were asked enough
	RequestVoted     = "request.voted"     // one person answered
	RequestApproved  = "request.approved"  // the quorum said yes
	RequestDenied    = "request.denied"    // a person said no
	RequestExpired   = "request.expired"   // nobody answered in time
	RequestWithdrawn = "request.withdrawn" // the client or the end of its task took it back

	SecretStored  = "secret.stored"  // an operator put a secret into the safe
	SecretRemoved = "secret.removed" // or took it out

	TokenAsk      = "token.ask"      // a person would have to be asked, and the caller could not wait; at most once a minute for each task
	TokenDenied   = "token.denied"   // policy, a cap or a check said no
	TokenLimited  = "token.limited"  // asked too often; at most once a minute for each task
	TokenReplayed = "token.replayed" // a proof, ticket or assertion came twice

	LeaseIssued      = "lease.issued"      // a credential was minted
	LeaseRevoked     = "lease.revoked"     // refused here from now on
	LeaseUndelivered = "lease.undelivered" // minted, but it never left

	// Of credentials at third parties alone.
	LeaseIntended    = "lease.intended"    // the provider is about to be asked
	LeaseAccepted    = "lease.accepted"    // the provider took the revocation; it is refused there later
	LeaseDead        = "lease.dead"        // dead at the provider, and how that is known
	LeaseUnconfirmed = "lease.unconfirmed" // the provider never confirmed; its own expiry has passed
	LeaseForced      = "lease.forced"      // a person said that nothing is owed any more
	LeaseRetried     = "lease.retried"     // a person wanted the next attempt now
	LeaseStuck       = "lease.stuck"       // an attempt to take it back failed: the first, and each tenth after it
	OrphanRevoked    = "orphan.revoked"    // found at the provider and on no record as alive, taken back
)

// kinds is the whole table, sorted.
var kinds = []string{
	BoxClosed, BoxOpened, BoxRegistered, BoxStranger,
	BreakGlassBegun, BreakGlassEnded, BreakGlassReviewed, BreakGlassUsed,
	BrokerStarted, BrokerStopped,
	EgressAllowed, EgressCompleted, EgressDenied,
	KeyAdded, KeyRevoked,
	LeaseAccepted, LeaseDead, LeaseForced, LeaseIntended, LeaseIssued, LeaseRetried, LeaseRevoked, LeaseStuck, LeaseUnconfirmed, LeaseUndelivered,
	LedgerLost, LedgerRefilled,
	LossAccepted,
	OrphanRevoked,
	PasskeyAdded, PasskeyRemoved, PasskeyRenamed,
	PolicyDrafted, PolicyDropped, PolicyPublished, PolicyRejected, PolicyReloaded,
	PrincipalAuthenticated, PrincipalRefused,
	RecordExported,
	RequestApproved, RequestCreated, RequestDenied, RequestExpired, RequestHeld, RequestRepeated, RequestVoted, RequestWithdrawn,
	SandboxAttested, SandboxDied, SandboxEnrolled, SandboxHeld, SandboxRejected, SandboxToken,
	SecretRemoved, SecretStored,
	SessionBegan, SessionEnded,
	TaskClosed, TaskDelegated, TaskOpened, TaskPaused, TaskResumed, TaskTainted, TaskTicket,
	TokenAsk, TokenDenied, TokenLimited, TokenReplayed,
	TranscriptRead,
}

// Kinds is the whole table, sorted.
func Kinds() []string { return slices.Clone(kinds) }

// Known reports whether kind is in the table.
func Known(kind string) bool {
	_, ok := slices.BinarySearch(kinds, kind)
	return ok
}
