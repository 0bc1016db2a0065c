package notify

import (
	"slices"
	"time"
)

// Event is the kind of a notice.
type Event string

// Events. A name never changes, because receivers depend on it.
const (
	Waiting    Event = "request.waiting"   // a request waits for a person
	Escalated  Event = "request.escalated" // half of its waiting time is over
	Approved   Event = "request.approved"  //
	Denied     Event = "request.denied"    //
	Expired    Event = "request.expired"   // no decision in time: counts as denied
	Withdrawn  Event = "request.withdrawn" // no decision is needed any more
	TaskPaused Event = "task.paused"       // by the broker itself
	BreakGlass Event = "breakglass"        // a break-glass period began, was used, ended or waits for its review
	Draft      Event = "policy.draft"      // a change of the policy waits for a second person
	Test       Event = "test"              // sent by `ebb notify test`
)

var events = []Event{Waiting, Escalated, Approved, Denied, Expired, Withdrawn, TaskPaused, BreakGlass, Draft, Test}

// Known reports whether e is an event.
func (e Event) Known() bool { return slices.Contains(events, e) }

// over reports whether e is the end of a request.
func (e Event) over() bool { return e == Approved || e == Denied || e == Expired || e == Withdrawn }

// Open reports whether e is relevant only while its request waits.
func (e Event) Open() bool { return e == Waiting || e == Escalated }

// Must reports whether e is sent at once, regardless of preferences and of Plan.Most.
// Otherwise a person who can delay the notice could do alone, unnoticed, an action that
// requires several people.
func (e Event) Must() bool { return e == BreakGlass }

// Notice is one notification: facts of the broker. Names in it are unchanged from runners
// and people; a kind shows them through Lines or Text.
type Notice struct {
	Event    Event     `json:"event"`
	Subject  string    `json:"subject"`           // id of the request, task or audit entry
	Title    string    `json:"title,omitempty"`   // one verb and one target
	Risk     string    `json:"risk,omitempty"`    // low, medium, high
	Reasons  []string  `json:"reasons,omitempty"` // for the risk, at most three
	TaskID   string    `json:"task_id,omitempty"`
	TaskName string    `json:"task_name,omitempty"`
	Owner    string    `json:"owner,omitempty"`   // of the task
	By       string    `json:"by,omitempty"`      // actor; of a request, the people who decided it, only when it has ended
	Granted  string    `json:"granted,omitempty"` // the scope of an approval, if it is narrower than the request
	Code     string    `json:"code,omitempty"`    // of a denial
	Match    string    `json:"match_code,omitempty"`
	Until    time.Time `json:"until,omitzero"` // without a decision by then, the request counts as denied
	Path     string    `json:"path"`           // of the page about it, below the public URL
}
