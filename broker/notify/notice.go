package notify

import "time"

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

// Known reports whether e is an event.
func (e Event) Known() bool { return headings[e] != "" }

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
	Only     []string  `json:"only,omitempty"`    // operations of the one request that the approval would be for: at most MaxOnly, and how many more; empty = it is for no single request
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

// MaxOnly is the highest number of operations of one request in a notice.
const MaxOnly = 3

// Message is sent to one destination or one person at one time. A repeated delivery has
// the same ID, by which the receiver recognises it.
type Message struct {
	ID      string // "msg_" and hex digits
	At      time.Time
	Base    string // the public URL
	Digest  bool   // several notices, or one that was delayed
	Notices []Notice
	More    int    // number of further notices that were not stored
	To      string // address of a person; "" = the channel's own
}

// Link returns the URL of a notice's page. m.Base comes from the operator, the path from
// the broker.
func (m Message) Link(n Notice) string { return m.Base + n.Path }

// Page returns the URL of the message's page: that of its only notice, else the approval queue.
func (m Message) Page() string {
	if len(m.Notices) == 1 && m.More == 0 {
		return m.Link(m.Notices[0])
	}
	return m.Base + "/queue"
}

// TestMessage returns the message of `ebb notify test`.
func TestMessage(id, base string, at time.Time) Message {
	return Message{ID: id, At: at, Base: base, Notices: []Notice{{Event: Test, Subject: id, Title: "Nothing: ebb notify test sent this", Path: "/queue"}}}
}
