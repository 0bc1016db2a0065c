package broker

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/scopes"
)

var LabelForm = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$`)

// Reached says how far the end of a task or credential is recorded, when it is not recorded
// everywhere yet.
type Reached struct {
	Process   string // this process: always ReachedDone
	LiveStore string // the live state that all replicas read
	Database  string // the audit log
	Restart   string // ReachedDone = the end survives a restart that comes before the database has it
}

// States of an end at one place.
const (
	ReachedDone    = "done"
	ReachedPending = "pending" // ebb keeps trying
	ReachedLost    = "lost"    // a restart loses the end: no write succeeded
)

// TaskState is the state of a task. Closed is final.
type TaskState string

// Task states.
const (
	TaskOpen   TaskState = "open"
	TaskPaused TaskState = "paused" // no token is issued; live tokens stay valid
	TaskClosed TaskState = "closed" // no token is issued ever again, and every token is refused
)

// Cause is why a task was closed, or why ebb itself paused it.
type Cause string

// Causes of a task's end.
const (
	CauseCompleted         Cause = "completed"          // its runner completed it
	CauseStopped           Cause = "stopped"            // a person stopped it, with a reason
	CauseDeadline          Cause = "deadline"           // its deadline passed
	CauseHeartbeat         Cause = "heartbeat"          // no heartbeat of its runner arrived in time
	CauseExited            Cause = "exited"             // its sandbox exited
	CauseMissedAttestation Cause = "missed_attestation" // its sandbox missed the re-attestation deadline
	CauseSuspicious        Cause = "suspicious"         // an approver denied a request as suspicious
	CauseParent            Cause = "parent"             // the task that delegated to it ended
	CauseExpired           Cause = "expired"            // of a lease only: its lifetime passed
)

// Causes of a pause by ebb itself (see breaker.go).
const (
	CauseDenials Cause = "denials" // too many of its requests were denied
	CauseAsks    Cause = "asks"    // it asked people too often
)

// Seconds is a whole number of seconds, in JSON a number.
type Seconds int64

// Duration returns s as a time.Duration.
func (s Seconds) Duration() time.Duration { return time.Duration(s) * time.Second }

// Caps limit one task (I12). 0 means the configured default.
type Caps struct {
	Leases         int `json:"leases,omitempty"`           // live credentials at one time
	MintsPerMinute int `json:"mints_per_minute,omitempty"` // token requests
	OpenRequests   int `json:"open_requests,omitempty"`    // requests waiting for a person
	Uses           int `json:"uses,omitempty"`             // credentials over the whole life, including tasks that it delegates to; 0 = no limit
}

// Expect is the sandbox that a runner announces. Evidence of another sandbox is refused even
// when it is valid.
type Expect struct {
	Attestor  string            `json:"attestor"`            // name of a configured attestor
	Selectors map[string]string `json:"selectors,omitempty"` // every one must be present and equal; may be empty only for the enroll attestor, whose ticket names the task
}

// Sandbox is the one sandbox of a task, fixed at its first accepted evidence.
// Later evidence must be of the same subject and the same key.
type Sandbox struct {
	ID        string            `json:"id"`       // "sbx_..."; the client_id of its tokens
	Attestor  string            `json:"attestor"` // name of the attestor of its evidence
	Subject   string            `json:"subject"`  // the attestor's name for it
	Class     string            `json:"class"`    // evidence class: kernel, signed, hardware, ticket, bearer
	JKT       string            `json:"jkt"`      // RFC 7638 thumbprint of its key
	JWK       string            `json:"jwk"`      // that public key as a JWK, for private_key_jwt
	Selectors map[string]string `json:"selectors,omitempty"`
	At        time.Time         `json:"attested_at"`
}

// Task is one unit of work. Its credentials end with it.
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
	Ancestors  []string    `json:"ancestors,omitempty"`  // of a delegated task: from the runner's task to its parent

	State    TaskState `json:"state"`
	Cause    Cause     `json:"cause,omitempty"`
	Reason   string    `json:"reason,omitempty"` // of a pause or stop
	PausedBy string    `json:"paused_by,omitempty"`
	PausedAs Role      `json:"paused_as,omitempty"` // operator or runner: an operator, or the runner when it paused the task, resumes it
	ClosedAt time.Time `json:"closed_at,omitzero"`
	ClosedBy string    `json:"closed_by,omitempty"`
	Sandbox  *Sandbox  `json:"sandbox,omitempty"`
}

// Live is the live store's view of a task: the task and its counters.
type Live struct {
	Task
	Due        time.Time // when it must be checked next: heartbeat or deadline
	Denials    int       // requests denied so far, by policy or people
	Violations int       // attempts that only an attacker or a bug makes
	Taint      []string  // untrusted sources that the task has read, sorted
}

// Taint is the data of an audit.TaskTainted entry; a refill reads it back.
type Taint struct {
	Sources []string `json:"sources"`
}

func (r *Reached) Sentence() string {
	s := "Live store: " + r.LiveStore + ". Database: " + r.Database + "."
	if r.Restart == ReachedLost {
		s += " A restart before the database has it can lose the end."
	}
	return s
}

// Is refuses every sandbox and every key except the bound ones.
func (s Sandbox) Is(id attest.Identity, p Possession) error {
	if s.JKT != p.Key.JKT || (id.TaskID == "" && (s.Attestor != id.Attestor || s.Subject != id.Subject)) {
		return attest.Reject(attest.ReasonKeyBinding, "the task belongs to another sandbox or another key", nil)
	}
	return nil
}

// Due returns when a task must be checked next.
func (t Task) Due(now time.Time) time.Time {
	if t.Heartbeat > 0 {
		if beat := now.Add(t.Heartbeat.Duration()); beat.Before(t.Deadline) {
			return beat
		}
	}
	return t.Deadline
}

// Delegation allows the sandbox of a task to delegate a part of the task's rights to other
// sandboxes. Each of them gets a task of its own. That task is limited by the delegating task
// and ends with it.
type Delegation struct {
	Expect Expect `json:"sandbox_expected"` // selectors that each delegate must have; the delegating sandbox may demand more, never fewer
	Depth  int    `json:"depth"`            // number of levels; 1 = delegates cannot delegate further
	Open   int    `json:"open,omitempty"`   // open delegated tasks at one time below the runner's task, at any depth; 0 = DefaultDelegates
}

// Bounds of delegation.
const (
	MaxDelegationDepth = 4
	DefaultDelegates   = 16
	MaxDelegates       = 256
	MaxDelegatesEver   = 4096 // below one task of a runner over its whole life: ending the task reads each of them
)

// DelegationSpec is what a sandbox delegates. Zero members keep the value of the delegating
// task, unless their comment says otherwise.
type DelegationSpec struct {
	Ceiling   scopes.Set
	TTL       time.Duration // never past the end of the delegating task; 0 = until then
	Uses      int           // credentials in all; required when the delegating task has such a limit
	Selectors map[string]string
	Depth     int // number of further levels of delegation; 0 = none
}

// Child returns the task that t delegates to another sandbox, and is the only place that
// decides what may be delegated: the child exceeds t in nothing. notAfter is the end of the
// delegating sandbox's evidence; the zero time means that the evidence has none. A spec that
// exceeds t is refused, never narrowed, except for the deadline, which is shortened.
func (t Task) Child(s DelegationSpec, id string, now, notAfter time.Time) (Task, error) {
	d := t.Delegation
	switch {
	case d == nil:
		return Task{}, E(Forbidden, "This task may not delegate. Its runner allows it with the member delegation when it opens the task.", nil)
	case s.Ceiling.Empty():
		return Task{}, E(InvalidScope, "Name at least one scope to delegate.", nil)
	case !t.Ceiling.Covers(s.Ceiling):
		return Task{}, t.OverCeiling(s.Ceiling)
	case s.Depth < 0 || s.Depth >= d.Depth:
		return Task{}, E(Invalid, fmt.Sprintf("depth must be less than that of the task: 0 to %d.", d.Depth-1), nil)
	case s.Uses < 0 || t.Caps.Uses > 0 && (s.Uses < 1 || s.Uses > t.Caps.Uses):
		return Task{}, E(Invalid, "uses must be positive, and at most the uses of the delegating task when those are limited.", nil)
	case s.TTL < 0:
		return Task{}, E(Invalid, "The lifetime must be positive.", nil)
	}
	expect, err := d.Expect.and(s.Selectors)
	if err != nil {
		return Task{}, err
	}
	out := Task{
		ID: id, Name: t.Name, Kind: t.Kind, Owner: t.Owner, Runner: t.Runner, Labels: maps.Clone(t.Labels),
		Ceiling: s.Ceiling, Caps: t.Caps, Expect: expect, OpenedAt: now, Deadline: t.Deadline, State: TaskOpen,
		Ancestors: append(slices.Clone(t.Ancestors), t.ID),
	}
	out.Caps.Uses = s.Uses
	if s.Depth > 0 {
		out.Delegation = &Delegation{Expect: d.Expect, Depth: s.Depth, Open: d.Open}
	}
	if !notAfter.IsZero() && notAfter.Before(out.Deadline) {
		out.Deadline = notAfter
	}
	if end := now.Add(s.TTL); s.TTL > 0 && end.Before(out.Deadline) {
		out.Deadline = end
	}
	if out.Deadline.Sub(now) < time.Second {
		return Task{}, E(Denied, "Less than one second is left until the task or its evidence ends. Open a new task.", nil)
	}
	return out, nil
}

// OverCeiling returns the error for scopes that exceed the task's ceiling.
func (t Task) OverCeiling(asked scopes.Set) *Error {
	e := E(InvalidScope, "The scope "+Bounded(asked)+" exceeds the ceiling of the task, which is "+Bounded(t.Ceiling)+".", nil).
		Then("request a scope within the ceiling, or ask the runner for a task with a wider one (ebb task open --scope)")
	e.Advice = &Advice{Decision: "denied", Code: TooBroad, WouldAllow: t.Ceiling.Narrow(asked), DoNotRetrySame: true}
	return e
}

// Root returns the id of the runner's task at the top of the delegation tree: t itself, or its
// first ancestor.
func (t Task) Root() string {
	if len(t.Ancestors) > 0 {
		return t.Ancestors[0]
	}
	return t.ID
}

// and returns e with more selectors. A selector that e already has cannot get another value.
func (e Expect) and(more map[string]string) (Expect, error) {
	all := maps.Clone(e.Selectors)
	if len(more) > 0 && all == nil {
		all = map[string]string{}
	}
	for k, v := range more {
		// A sandbox writes these, and people read them.
		if !LabelForm.MatchString(k) || len(v) > 256 || !jose.Plain(v) {
			return e, E(Invalid, "selectors must have names of a-z A-Z 0-9 . _ / - and printable values of at most 256 bytes.", nil)
		}
		if had, taken := all[k]; taken && had != v {
			return e, E(Invalid, "A selector contradicts what the runner expects of sandboxes that are delegated to.", nil)
		}
		all[k] = v
	}
	if len(more) > 0 {
		if err := attest.CheckSelectors(all); err != nil {
			return e, E(Invalid, "selectors must name the sandbox: 1 to 64 selectors, none empty.", err)
		}
	}
	return Expect{Attestor: e.Attestor, Selectors: all}, nil
}

// TaskSpec is a runner's request to open a task.
type TaskSpec struct {
	Name      string            `json:"name"`
	Kind      string            `json:"kind"`
	Owner     string            `json:"owner"`
	Labels    map[string]string `json:"labels,omitempty"`
	TTL       Seconds           `json:"ttl_seconds"` // deadline from now
	Ceiling   scopes.Set        `json:"ceiling"`
	Caps      Caps              `json:"caps,omitzero"`
	Expect    Expect            `json:"sandbox_expected"`
	Heartbeat Seconds           `json:"heartbeat_seconds,omitempty"`
	Ticket    bool              `json:"ticket,omitempty"`             // also return an enrolment ticket
	TicketTTL Seconds           `json:"ticket_ttl_seconds,omitempty"` // lifetime of that ticket; 0 = Limits.TicketTTL

	Delegation *Delegation `json:"delegation,omitempty"` // nil: the sandbox may not delegate
}

// Completion is the outcome of a task's end: none of its credentials is accepted any more.
type Completion struct {
	Task           Task
	Already        bool // an earlier call ended it
	Revoked        int  // credentials that were live at that moment
	AlreadyExpired int
	Withdrawn      int
	Credentials    []Lease // newest first, at most 100; the rest at /v1/leases?task_id=
	// Delegated is the number of tasks delegated below it, at any depth, that ended with it.
	// Revoked and AlreadyExpired include their credentials. PendingRevocations and Receipt also cover
	// delegated tasks that had ended before.
	Delegated int
	// PendingRevocations is the number of third-party credentials whose revocation is pending. ebb refuses
	// them everywhere, and the revocation queue works on them.
	PendingRevocations int
	// Receipt lists the outcome of each credential, signed (JWS, RFC 7515); "" without
	// credentials, or while no key can sign.
	Receipt string
}

// OwnerStop is the outcome of stopping the open tasks of an owner.
type OwnerStop struct {
	Owner string
	Tasks []StoppedTask // oldest first
	More  bool          // open tasks may be left: repeat the call
}

// StoppedTask is the outcome for one task. If Stopped is false, Error tells why, and Stopped
// becomes true with a later call.
type StoppedTask struct {
	ID, Name           string
	Stopped            bool
	Revoked            int // credentials that were live at that moment
	Withdrawn          int
	PendingRevocations int // as in Completion
	Error              string
}
