package broker

import (
	"time"

	"ebb/scopes"
)

// TaskState is where a task is in its life. Closed is final.
type TaskState string

// Task states.
const (
	TaskOpen   TaskState = "open"
	TaskPaused TaskState = "paused" // nothing mints, live tokens stay
	TaskClosed TaskState = "closed" // nothing mints ever again, every token is dead
)

// Cause is why a task was closed, or why ebb itself paused it.
type Cause string

// Causes of a task's end.
const (
	CauseCompleted  Cause = "completed"  // the runner said so
	CauseStopped    Cause = "stopped"    // a person stopped it, with a reason
	CauseDeadline   Cause = "deadline"   // its deadline passed
	CauseHeartbeat  Cause = "heartbeat"  // its runner went silent
	CauseExited     Cause = "exited"     // its sandbox is gone
	CauseLapsed     Cause = "lapsed"     // its sandbox showed no fresh evidence in time
	CauseSuspicious Cause = "suspicious" // an approver denied a request as suspicious
	CauseParent     Cause = "parent"     // the task that delegated to it is over
	CauseExpired    Cause = "expired"    // of a lease alone: it had its whole time
)

// Causes of a pause of ebb's own (see breaker.go).
const (
	CauseDenials Cause = "denials" // too many of its requests were denied
	CauseAsks    Cause = "asks"    // it asked people too often
)

// Seconds is a whole number of seconds, in JSON a number.
type Seconds int64

// Duration converts s.
func (s Seconds) Duration() time.Duration { return time.Duration(s) * time.Second }

// Caps bound what one task can do (I12). 0 means the configured default.
type Caps struct {
	Leases         int `json:"leases,omitempty"`           // live credentials at one time
	MintsPerMinute int `json:"mints_per_minute,omitempty"` // token requests
	OpenRequests   int `json:"open_requests,omitempty"`    // escalations waiting for a person
	Uses           int `json:"uses,omitempty"`             // credentials in all, also those of tasks it delegates to; 0 = no limit
}

// Expect is the sandbox a runner announces: evidence that does not match is
// refused, however valid.
type Expect struct {
	Attestor  string            `json:"attestor"`            // name of a configured attestor
	Selectors map[string]string `json:"selectors,omitempty"` // every one must be present and equal; may be empty for the enroll attestor only, whose ticket names the task
}

// Sandbox is the one sandbox of a task, fixed at its first accepted evidence.
// Later evidence must be of the same subject and the same key.
type Sandbox struct {
	ID        string            `json:"id"`       // "sbx_..." ; the client_id of its tokens
	Attestor  string            `json:"attestor"` // who vouched
	Subject   string            `json:"subject"`  // the attestor's name for it
	Class     string            `json:"class"`    // evidence class: kernel, signed, hardware, ticket, bearer
	JKT       string            `json:"jkt"`      // RFC 7638 thumbprint of its key
	JWK       string            `json:"jwk"`      // that public key as a JWK, for private_key_jwt
	Selectors map[string]string `json:"selectors,omitempty"`
	At        time.Time         `json:"attested_at"`
}

// Task is one unit of work whose credentials live and die together.
type Task struct {
	ID        string            `json:"id"`   // "tsk_..."
	Name      string            `json:"name"` // from the runner; at most 80 code points
	Kind      string            `json:"kind"` // e.g. "bugfix"; policy sees it
	Owner     string            `json:"owner"`
	Runner    string            `json:"runner"` // principal that opened it
	Labels    map[string]string `json:"labels,omitempty"`
	Ceiling   scopes.Set        `json:"ceiling"` // no token of the task ever exceeds it
	Caps      Caps              `json:"caps"`
	Expect    Expect            `json:"sandbox_expected"`
	Heartbeat Seconds           `json:"heartbeat_seconds"` // 0 = none required
	OpenedAt  time.Time         `json:"opened_at"`
	Deadline  time.Time         `json:"deadline"`

	Delegation *Delegation `json:"delegation,omitempty"` // nil: its sandbox may not delegate
	Ancestors  []string    `json:"ancestors,omitempty"`  // of a task that a sandbox delegated to: from the runner's task to its parent

	State    TaskState `json:"state"`
	Cause    Cause     `json:"cause,omitempty"`
	Reason   string    `json:"reason,omitempty"` // of a pause or stop
	PausedBy string    `json:"paused_by,omitempty"`
	PausedAs Role      `json:"paused_as,omitempty"` // operator or runner: the same or an operator resumes it
	ClosedAt time.Time `json:"closed_at,omitzero"`
	ClosedBy string    `json:"closed_by,omitempty"`
	Sandbox  *Sandbox  `json:"sandbox,omitempty"`
}

// Live is what the ledger knows of a task: the task and its running counters.
type Live struct {
	Task
	Due        time.Time // next moment it must be looked at: heartbeat or deadline
	Denials    int       // requests denied so far, by policy or people
	Violations int       // attempts that only an attacker or a bug makes
	Taint      []string  // untrusted sources the task has read, sorted
}
