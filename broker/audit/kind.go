package audit

import (
	"slices"
)

// Kinds of entries. The set is closed: Chain refuses any other kind, so that a reader of the log
// can know all of them. A stored kind is never renamed.
const (
	BrokerStarted = "broker.started" // a process run began; its first entry
	BrokerStopped = "broker.stopped" // a process run shut down normally

	// Egress endpoints; the stored kinds have their former name.
	EndpointOpened     = "box.opened"     // a runner got an egress endpoint for a tool of a task
	EndpointRegistered = "box.registered" // the network namespace of the sandbox was registered for its egress endpoint
	EndpointClosed     = "box.closed"     // an egress endpoint was closed, with all of its connections
	EndpointStranger   = "box.stranger"   // a process outside the sandbox connected to its egress endpoint; at most once a minute for each task

	EgressAllowed   = "egress.allowed"   // a credential is about to be added to a request
	EgressCompleted = "egress.completed" // the result of an allowed request
	EgressStatement = "egress.statement" // a statement of a database session that may change something is about to be sent
	EgressDenied    = "egress.denied"    // a request was refused; further ones in a flood of one task are counted in the next entry

	PolicyReloaded = "policy.reloaded" // a new policy set is in force
	PolicyRejected = "policy.rejected" // a new policy set was invalid; the last valid one stays

	PolicyDrafted   = "policy.drafted"   // a person proposed a policy set, or changed their proposal
	PolicyDropped   = "policy.dropped"   // a proposed set was dropped
	PolicyPublished = "policy.published" // a second person put a proposed set in force

	KeyAdded   = "key.added"   // a signing key is used from now on: its public half
	KeyRevoked = "key.revoked" // an operator revoked a signing key that may have leaked; the time from which its signatures do not count

	LiveStoreRefilled = "livestore.refilled" // the LiveStore was refilled from the database
	LiveStoreLost     = "livestore.lost"     // the LiveStore lost data; no credential is issued until it is refilled

	LossAccepted = "loss.accepted" // an operator accepted that the database lacks entries; everything issued before is refused

	PrincipalAuthenticated = "principal.authenticated" // an operator, runner, approver ... got a token
	PrincipalRefused       = "principal.refused"       // an operator, runner, approver ... was refused a token

	SessionBegan = "session.began" // a person signed in to the console
	SessionEnded = "session.ended" // a person signed out, in one or more browsers

	PasskeyAdded   = "passkey.added"   // a person registered a passkey
	PasskeyRemoved = "passkey.removed" // a person's passkey was removed
	PasskeyRenamed = "passkey.renamed" // a person renamed a passkey

	PushAdded   = "push.added"   // a person turned on notifications in a browser
	PushRemoved = "push.removed" // a person turned off notifications in a browser

	AbsenceBegun = "absence.begun" // an approver named a delegate: until the end of the absence, notices of requests go to the delegate
	AbsenceEnded = "absence.ended" // an approver ended an absence before its last day

	BreakGlassBegun    = "breakglass.begun"    // a named person approves alone for a while: who, for which incident and why
	BreakGlassUsed     = "breakglass.used"     // a request was approved alone under it
	BreakGlassEnded    = "breakglass.ended"    // it expired, or a person ended it
	BreakGlassReviewed = "breakglass.reviewed" // an auditor reviewed it

	TranscriptRead = "transcript.read" // an auditor read a transcript of a request through egress

	RecordExported = "record.exported" // a person exported a list as a file: its filter, and its size

	TaskOpened    = "task.opened"    // a runner opened it
	TaskTicket    = "task.ticket"    // an enrolment ticket was issued
	TaskTainted   = "task.tainted"   // it has read untrusted data
	TaskPaused    = "task.paused"    // the task was paused: no credential is issued for it
	TaskResumed   = "task.resumed"   // a person ended its pause
	TaskDelegated = "task.delegated" // its sandbox delegated a part of it, as a new task
	TaskClosed    = "task.closed"    // the task ended, and ebb refuses all its credentials

	SandboxEnrolled = "sandbox.enrolled" // its evidence was accepted
	SandboxRejected = "sandbox.rejected" // its evidence was refused
	SandboxToken    = "sandbox.token"    // it got a task token
	SandboxAttested = "sandbox.attested" // it attested again with a request, in a task whose re-attestation deadline ends it
	SandboxHeld     = "sandbox.held"     // the sandbox opened a control connection; the end of the connection counts as the exit of the sandbox
	SandboxExited   = "sandbox.exited"   // its attestor, or the end of its control connection, reported its exit

	RequestCreated   = "request.created"   // approval by a person was requested
	RequestRepeated  = "request.repeated"  // the same was requested again while it waited; once for each request
	RequestHeld      = "request.held"      // approval was needed, but people have been asked too often
	RequestVoted     = "request.voted"     // one person voted
	RequestApproved  = "request.approved"  // the quorum approved
	RequestDenied    = "request.denied"    // a person denied
	RequestExpired   = "request.expired"   // no decision in time
	RequestWithdrawn = "request.withdrawn" // withdrawn by the client, or by the close of its task

	SecretStored  = "secret.stored"  // an operator stored a secret
	SecretRemoved = "secret.removed" // an operator removed a secret

	TokenAsk      = "token.ask"      // approval was needed, and the caller could not wait; at most once a minute for each task
	TokenDenied   = "token.denied"   // denied by policy, a limit or a check
	TokenLimited  = "token.limited"  // rate limit reached; at most once a minute for each task
	TokenReplayed = "token.replayed" // a proof, ticket or assertion was used twice

	LeaseIssued      = "lease.issued"      // a credential was minted
	LeaseRevoked     = "lease.revoked"     // refused by ebb from now on
	LeaseUndelivered = "lease.undelivered" // minted, but not returned to the caller

	// For credentials at third parties only.
	LeaseIntended    = "lease.intended"    // ebb is about to request the credential from the provider
	LeaseAccepted    = "lease.accepted"    // the provider accepted the revocation, which takes effect there later
	LeaseDead        = "lease.dead"        // revoked or expired at the provider, with the proof
	LeaseUnconfirmed = "lease.unconfirmed" // the provider never confirmed; its own expiry has passed
	LeaseForced      = "lease.forced"      // a person ended its pending revocation
	LeaseRetried     = "lease.retried"     // a person requested the next attempt now
	LeaseStuck       = "lease.stuck"       // an attempt to revoke it failed: the first, and every tenth after it
	OrphanRevoked    = "orphan.revoked"    // a credential at the provider without a live lease was revoked
)

// kinds is the complete table, sorted.
var kinds = []string{
	AbsenceBegun, AbsenceEnded,
	EndpointClosed, EndpointOpened, EndpointRegistered, EndpointStranger,
	BreakGlassBegun, BreakGlassEnded, BreakGlassReviewed, BreakGlassUsed,
	BrokerStarted, BrokerStopped,
	EgressAllowed, EgressCompleted, EgressDenied, EgressStatement,
	KeyAdded, KeyRevoked,
	LeaseAccepted, LeaseDead, LeaseForced, LeaseIntended, LeaseIssued, LeaseRetried, LeaseRevoked, LeaseStuck, LeaseUnconfirmed, LeaseUndelivered,
	LiveStoreLost, LiveStoreRefilled,
	LossAccepted,
	OrphanRevoked,
	PasskeyAdded, PasskeyRemoved, PasskeyRenamed,
	PolicyDrafted, PolicyDropped, PolicyPublished, PolicyRejected, PolicyReloaded,
	PrincipalAuthenticated, PrincipalRefused,
	PushAdded, PushRemoved,
	RecordExported,
	RequestApproved, RequestCreated, RequestDenied, RequestExpired, RequestHeld, RequestRepeated, RequestVoted, RequestWithdrawn,
	SandboxAttested, SandboxEnrolled, SandboxExited, SandboxHeld, SandboxRejected, SandboxToken,
	SecretRemoved, SecretStored,
	SessionBegan, SessionEnded,
	TaskClosed, TaskDelegated, TaskOpened, TaskPaused, TaskResumed, TaskTainted, TaskTicket,
	TokenAsk, TokenDenied, TokenLimited, TokenReplayed,
	TranscriptRead,
}

// Kinds returns the complete table, sorted.
func Kinds() []string { return slices.Clone(kinds) }

// Known reports whether kind is in the table.
func Known(kind string) bool {
	_, ok := slices.BinarySearch(kinds, kind)
	return ok
}
