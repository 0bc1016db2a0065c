package wire

import "time"

// TaskState is the state of a task. TaskClosed is final.
type TaskState string

// Task states.
const (
	TaskOpen   TaskState = "open"   // credentials can be issued
	TaskPaused TaskState = "paused" // nothing is issued; live credentials stay
	TaskClosed TaskState = "closed" // nothing is issued again and every credential is dead
)

// Cause is why a task or credential ended, or why ebb paused a task.
type Cause string

// Causes.
const (
	CauseCompleted         Cause = "completed"          // the runner completed the task
	CauseStopped           Cause = "stopped"            // a person stopped it, with a reason
	CauseDeadline          Cause = "deadline"           // the deadline of the task passed
	CauseHeartbeat         Cause = "heartbeat"          // the runner sent no heartbeat in time
	CauseExited            Cause = "exited"             // the sandbox exited
	CauseMissedAttestation Cause = "missed_attestation" // the sandbox did not attest itself again in time
	CauseSuspicious        Cause = "suspicious"         // an approver denied a request of the task as suspicious
	CauseParent            Cause = "parent"             // the task that delegated to this one ended
	CauseExpired           Cause = "expired"            // the credential reached its expiry
	CauseDenials           Cause = "denials"            // ebb paused the task: too many of its requests were denied
	CauseAsks              Cause = "asks"               // ebb paused the task: it requested approval too often
)

// Role is what a principal may do.
type Role string

// Roles.
const (
	RoleViewer         Role = "viewer"          // sees tasks and requests, but neither the audit log nor agents' texts
	RoleRunner         Role = "runner"          // opens and completes its own tasks
	RoleApprover       Role = "approver"        // decides requests of its groups
	RoleAuditor        Role = "auditor"         // reads everything and changes nothing
	RoleOperator       Role = "operator"        // everything except approving
	RoleResourceServer Role = "resource_server" // introspects tokens and follows the revocation feed
)

// Caps bound what one task can do. 0 = the configured default.
type Caps struct {
	// Leases is the number of live credentials at one time.
	Leases int `json:"leases,omitempty"`
	// MintsPerMinute is the number of token requests in a minute.
	MintsPerMinute int `json:"mints_per_minute,omitempty"`
	// OpenRequests is the number of requests that wait for a person at one time.
	OpenRequests int `json:"open_requests,omitempty"`
	// Uses is the number of credentials in all, including those of delegated tasks; 0 = no limit.
	Uses int `json:"uses,omitempty"`
}

// Expect describes the sandbox that a runner announces. Evidence that does not match is refused.
type Expect struct {
	// Attestor is the name of a configured attestor.
	Attestor string `json:"attestor"`
	// Selectors must all be in the evidence with the same values. They may be empty for the attestor enroll only, whose
	// ticket names the task.
	Selectors map[string]string `json:"selectors,omitempty"`
}

// Sandbox is the one sandbox of a task. Its subject and key are fixed by the first accepted evidence.
type Sandbox struct {
	// ID is "sbx_" and 32 hex digits: the client_id of the sandbox.
	ID string `json:"id"`
	// Attestor is the attestor that accepted the evidence.
	Attestor string `json:"attestor"`
	// Subject is the attestor's name for the sandbox.
	Subject string `json:"subject"`
	// Class is the class of the evidence: hardware, kernel, signed, ticket or bearer.
	Class string `json:"class"`
	// JKT is the thumbprint of the sandbox's key (RFC 7638), base64url.
	JKT string `json:"jkt"`
	// JWK is the public key of the sandbox (RFC 7517), as JSON in a text.
	JWK string `json:"jwk"`
	// Selectors are what the evidence says of the sandbox.
	Selectors map[string]string `json:"selectors,omitempty"`
	// At is when the evidence was accepted.
	At time.Time `json:"attested_at"`
}

// Delegation lets the sandbox of a task delegate a part of the task to other
// sandboxes.
type Delegation struct {
	// Expect describes each of the other sandboxes; the delegating sandbox may require more, never less.
	Expect Expect `json:"sandbox_expected"`
	// Depth is how many times in a row a task may be delegated, 1 to 4; 1 = delegated tasks cannot delegate.
	Depth int `json:"depth"`
	// Open is how many delegated tasks may be open at one time, at any depth, at most 256; 0 = 16.
	Open int `json:"open,omitempty"`
}

// Task is one unit of work whose credentials end with it.
type Task struct {
	// ID is "tsk_" and 32 hex digits.
	ID string `json:"id"`
	// Name is for people; at most 80 code points.
	Name string `json:"name"`
	// Kind is for policies, such as bugfix.
	Kind string `json:"kind"`
	// Owner is the person on whose behalf the task runs, who may never approve its requests.
	Owner string `json:"owner"`
	// Runner is the principal that opened the task.
	Runner string `json:"runner"`
	// Labels are for policies.
	Labels map[string]string `json:"labels,omitempty"`
	// Ceiling is the scope that no credential of the task exceeds.
	Ceiling string `json:"ceiling"`
	// Caps are the bounds that apply.
	Caps Caps `json:"caps"`
	// Expect is the sandbox that the runner announced.
	Expect Expect `json:"sandbox_expected"`
	// Heartbeat is the number of seconds after which a missing heartbeat ends the task; 0 = none is required.
	Heartbeat int64 `json:"heartbeat_seconds"`
	// OpenedAt is when the task was opened.
	OpenedAt time.Time `json:"opened_at"`
	// Deadline is when the task ends at the latest.
	Deadline time.Time `json:"deadline"`
	// Delegation says what the sandbox may delegate; nil = nothing.
	Delegation *Delegation `json:"delegation,omitempty"`
	// Ancestors are the tasks above a delegated task, from the runner's task to the parent.
	Ancestors []string `json:"ancestors,omitempty"`
	// State is the state of the task.
	State TaskState `json:"state"`
	// Cause is why the task ended, or why ebb paused it.
	Cause Cause `json:"cause,omitempty"`
	// Reason is the reason of a pause or stop.
	Reason string `json:"reason,omitempty"`
	// PausedBy is the principal that paused the task.
	PausedBy string `json:"paused_by,omitempty"`
	// PausedAs is the role of PausedBy, RoleOperator or RoleRunner: only an operator resumes what an operator paused.
	PausedAs Role `json:"paused_as,omitempty"`
	// ClosedAt is when the task ended; zero while it has not.
	ClosedAt time.Time `json:"closed_at,omitzero"`
	// ClosedBy is the principal that ended the task.
	ClosedBy string `json:"closed_by,omitempty"`
	// Sandbox is the sandbox of the task; nil until it has enrolled.
	Sandbox *Sandbox `json:"sandbox,omitempty"`
}

// TaskSpec is the body of POST /v1/tasks.
type TaskSpec struct {
	// Name is for people; at most 80 code points.
	Name string `json:"name"`
	// Kind is for policies.
	Kind string `json:"kind"`
	// Owner is the id or address by which the person signs in; "" = the runner itself.
	Owner string `json:"owner"`
	// Labels are for policies.
	Labels map[string]string `json:"labels,omitempty"`
	// TTL is the number of seconds from now to the deadline.
	TTL int64 `json:"ttl_seconds"`
	// Ceiling is the scope that no credential of the task exceeds.
	Ceiling string `json:"ceiling"`
	// Caps bound what the task can do.
	Caps Caps `json:"caps,omitzero"`
	// Expect describes the sandbox.
	Expect Expect `json:"sandbox_expected"`
	// Heartbeat is the number of seconds after which a missing heartbeat ends the task; 0 = none is required.
	Heartbeat int64 `json:"heartbeat_seconds,omitempty"`
	// Ticket asks for an enrolment ticket.
	Ticket bool `json:"ticket,omitempty"`
	// TicketTTL is the lifetime of that ticket in seconds, at most 900; 0 = limits.ticket_ttl of the server.
	TicketTTL int64 `json:"ticket_ttl_seconds,omitempty"`
	// Delegation says what the sandbox may delegate; nil = nothing.
	Delegation *Delegation `json:"delegation,omitempty"`
}

// OpenedTask is the answer to TaskSpec.
type OpenedTask struct {
	// Task is the task that was opened.
	Task Task `json:"task"`
	// Ticket is a single-use enrolment ticket for the sandbox alone; "" unless TaskSpec.Ticket was set.
	Ticket string `json:"ticket,omitempty"`
	// TicketExpiresAt is when Ticket expires.
	TicketExpiresAt time.Time `json:"ticket_expires_at,omitzero"`
}

// Ticket is the answer of POST /v1/tasks/{id}/ticket.
type Ticket struct {
	// Ticket is a single-use enrolment ticket for the sandbox alone.
	Ticket string `json:"ticket"`
	// TicketExpiresAt is when Ticket expires.
	TicketExpiresAt time.Time `json:"ticket_expires_at"`
}

// ReasonBody is the body of calls that a person gives a reason for.
type ReasonBody struct {
	// Reason goes into the audit log; at most 500 characters.
	Reason string `json:"reason"`
}

// TaintBody is the body of POST /v1/tasks/{id}/taint.
type TaintBody struct {
	// Sources are names of untrusted sources that the task has read, 1 to 16, such as public-issue-comments.
	Sources []string `json:"sources"`
}

// OwnerStopBody is the body of POST /v1/owners/{digest}/stop.
type OwnerStopBody struct {
	// Owner is the owner whose open and paused tasks end.
	Owner string `json:"owner"`
	// Reason goes into the audit log with each task; at most 500 characters.
	Reason string `json:"reason"`
}

// OwnerStop is the outcome of OwnerStopBody.
type OwnerStop struct {
	// Owner is the owner.
	Owner string `json:"owner"`
	// Tasks are the tasks that were open, oldest first.
	Tasks []StoppedTask `json:"tasks"`
	// More says that open tasks may be left: repeat the call.
	More bool `json:"more,omitempty"`
}

// StoppedTask is the outcome for one of several tasks.
type StoppedTask struct {
	// ID is the task.
	ID string `json:"task_id"`
	// Name is the name of the task.
	Name string `json:"name"`
	// Stopped says that the task has ended. If not, Error tells why: repeat the call.
	Stopped bool `json:"stopped"`
	// Revoked is the number of credentials that were live when the task ended.
	Revoked int `json:"revoked"`
	// Withdrawn is the number of requests that waited for a person.
	Withdrawn int `json:"withdrawn_pending"`
	// PendingRevocations is the number of third-party credentials whose end the provider has not confirmed yet.
	PendingRevocations int `json:"pending_revocations"`
	// Error is why the end is not recorded everywhere yet.
	Error string `json:"error,omitempty"`
}

// Completion is the outcome of the end of a task: ebb refuses every credential of it.
type Completion struct {
	// Task is the task, closed.
	Task Task `json:"task"`
	// Already says that an earlier call ended the task.
	Already bool `json:"already_complete"`
	// Revoked is the number of credentials that were live when the task ended.
	Revoked int `json:"revoked"`
	// AlreadyExpired is the number of credentials that had expired before.
	AlreadyExpired int `json:"already_expired"`
	// Withdrawn is the number of requests that waited for a person.
	Withdrawn int `json:"withdrawn_pending"`
	// Credentials are the newest 100 credentials of the task; the rest is at /v1/leases?task_id=.
	Credentials []Lease `json:"credentials"`
	// Delegated is the number of delegated tasks that ended with it. Revoked and AlreadyExpired include their credentials.
	Delegated int `json:"delegated_tasks,omitempty"`
	// PendingRevocations is the number of third-party credentials whose end the provider has not confirmed yet. ebb refuses them and
	// goes on revoking them.
	PendingRevocations int `json:"pending_revocations"`
	// Receipt says the same of each third-party credential, signed (JWS, RFC 7515); "" without any, or while no key can sign.
	Receipt string `json:"receipt,omitempty"`
}
