package notify

import "time"

// Message is what one place or one person is told at one time. Handed over twice, it has
// the same ID, by which a receiver knows it.
type Message struct {
	ID      string // "msg_" and hex digits
	At      time.Time
	Base    string // the public URL
	Digest  bool   // several notices, or one that had to wait for others
	Notices []Notice
	More    int    // others, of which nothing is kept but that they are
	To      string // address of a person; "" = the channel's own
}

// Link is the page about a notice. m.Base is the operator's, and a path the broker's.
func (m Message) Link(n Notice) string { return m.Base + n.Path }

// Page is the one page that a message leads to.
func (m Message) Page() string {
	if len(m.Notices) == 1 && m.More == 0 {
		return m.Link(m.Notices[0])
	}
	return m.Base + "/queue"
}

// TestMessage is what `ebb notify test` sends.
func TestMessage(id, base string, at time.Time) Message {
	return Message{ID: id, At: at, Base: base, Notices: []Notice{{Event: Test, Subject: id, Title: "Nothing: ebb notify test sent this", Path: "/queue"}}}
}
