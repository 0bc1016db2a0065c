package notify

import "time"

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

// Page returns the URL of the message's page: that of its only notice, else the approval
// queue.
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
