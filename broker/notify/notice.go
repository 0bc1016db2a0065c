package notify

import (
	"slices"
	"time"
)

// Event is what happened.
type Event string

// Events. A name is never changed: receivers tell them apart by it.
const (
	Waiting    Event = "request.waiting"   // a request waits for a person
	Escalated  Event = "request.escalated" // half of its time is over, and it still does
	Approved   Event = "request.approved"  //
	Denied     Event = "request.denied"    //
	Expired    Event = "request.expired"   // nobody answered in time: a no
	Withdrawn  Event = "request.withdrawn" // nobody needs to answer any more
	TaskPaused Event = "task.paused"       // by the broker itself
	BreakGlass Event = "breakglass"        // somebody passed the rules in an emergency, or that waits for its review
	Draft      Event = "policy.draft"      // a change of the policy waits for a second person
	Test       Event = "test"              // an operator tries a channel
)

var events = []Event{Waiting, Escalated, Approved, Denied, Expired, Withdrawn, TaskPaused, BreakGlass, Draft, Test}

// Known reports whether e is an event.
func (e Event) Known() bool { return slices.Contains(events, e) }

// Over reports whether e is how a request ended.
func (e Event) Over() bool { return e == Approved || e == Denied || e == Expired || e == Withdrawn }

// Open reports whether e is worth telling only while its request waits.
func (e Event) Open() bool { return e == Waiting || e == Escalated }

// Must reports whether e is told at once, whatever anybody wishes and however much it is: who
// could have it held back would do alone, unheard, what takes several people.
func (e Event) Must() bool { return e == BreakGlass }

// Notice is one thing that people are told: facts of the broker. Names in it are as
// runners and people gave them; whatever shows one draws it (see Words).
type Notice struct {
	Event    Event     `json:"event"`
	Subject  string    `json:"subject"`           // id of the request, task, or entry of the record
	Title    string    `json:"title,omitempty"`   // one verb and one target
	Risk     string    `json:"risk,omitempty"`    // low, medium, high
	Reasons  []string  `json:"reasons,omitempty"` // for the risk, at most three
	TaskID   string    `json:"task_id,omitempty"`
	TaskName string    `json:"task_name,omitempty"`
	Owner    string    `json:"owner,omitempty"` // of the task
	By       string    `json:"by,omitempty"`    // who did it; never for a request: see doc.go of notifier
	Match    string    `json:"match_code,omitempty"`
	Until    time.Time `json:"until,omitzero"` // no answer by then is a no
	Path     string    `json:"path"`           // of the page about it, below the public URL
}
