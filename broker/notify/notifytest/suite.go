package notifytest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/agenttext/agenttexttest"
	"github.com/ebb-broker/ebb/broker/notify"
)

// Arrived is a message as its receiver got it.
type Arrived struct {
	ID   string   // by which the receiver knows it
	Size int      // bytes on the wire
	Text []string // all texts that people may be shown, decoded
	// Links are all links and buttons of the message; it has no forms.
	Links []string
}

// Suite is one kind under test.
type Suite struct {
	// Open makes a sender and a receiver that accepts everything. The second result
	// returns the messages that arrived, in order.
	Open func(t *testing.T) (notify.Sender, func() []Arrived)
	// Hang makes a sender whose receiver accepts connections and never answers.
	Hang func(t *testing.T) notify.Sender
	// NoIDs is set if the receiver gets no message ids.
	NoIDs bool
	// OneLink is set if a message has one link, to the page of all its notices.
	OneLink bool
	// MaxSize is the largest message that the receiver accepts, in bytes.
	MaxSize int
}

// Run tests the contract of notify.Sender.
func Run(t *testing.T, s Suite) {
	for name, f := range map[string]func(*testing.T, Suite){
		"Facts": facts, "Same": same, "Events": events, "Digest": digest, "Hostile": hostile, "AgentText": agentText, "Many": many, "Cancelled": cancelled, "Hangs": hangs, "Where": where,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); f(t, s) })
	}
}

func send(t *testing.T, s notify.Sender, m notify.Message) {
	t.Helper()
	said, err := s.Send(t.Context(), m)
	if err != nil || said == "" || strings.ContainsAny(said, "\r\n") {
		t.Fatalf("Send = %q, %v", said, err)
	}
}

// one sends m and returns what arrived.
func one(t *testing.T, s Suite, m notify.Message) Arrived {
	t.Helper()
	sender, arrived := s.Open(t)
	send(t, sender, m)
	got := arrived()
	if len(got) != 1 {
		t.Fatalf("%d messages arrived", len(got))
	}
	return got[0]
}

// says fails unless every word is in the shown texts.
func (a Arrived) says(t *testing.T, words ...string) {
	t.Helper()
	all := strings.Join(a.Text, "\n")
	for _, w := range words {
		if !strings.Contains(all, w) {
			t.Errorf("it does not say %q: %q", w, all)
		}
	}
}

func (a Arrived) leads(t *testing.T, base string, paths ...string) {
	t.Helper()
	var found int
	for _, l := range a.Links {
		if !strings.HasPrefix(l, base+"/") {
			t.Errorf("it leads to %q", l)
		}
		for _, p := range paths {
			if l == base+p {
				found++
			}
		}
	}
	if found < len(paths) {
		t.Errorf("it leads to %q, want %q", a.Links, paths)
	}
}

func facts(t *testing.T, s Suite) {
	n := newNotice(1)
	a := one(t, s, notify.Message{ID: "msg_1", At: noticeAt, Base: Base, Notices: []notify.Notice{n}})
	a.says(t, n.Title, "igh", n.Reasons[0], n.Reasons[1], n.TaskID, n.TaskName, n.Owner, n.Match)
	a.leads(t, Base, n.Path)
}

// A receiver recognises a message that arrives twice by its id.
func same(t *testing.T, s Suite) {
	sender, arrived := s.Open(t)
	m := Message(1)
	send(t, sender, m)
	m.At = m.At.Add(time.Minute)
	send(t, sender, m)
	m.ID = "msg_other"
	send(t, sender, m)
	got := arrived()
	if s.NoIDs && len(got) == 3 {
		return
	}
	if len(got) != 3 || got[0].ID != got[1].ID || got[0].ID == got[2].ID || got[0].ID == "" {
		t.Errorf("ids of what arrived: %+v", got)
	}
}

func events(t *testing.T, s Suite) {
	seen := map[string]notify.Event{}
	for _, e := range []notify.Event{notify.Waiting, notify.Escalated, notify.Approved, notify.Denied, notify.Expired, notify.Withdrawn, notify.TaskPaused, notify.BreakGlass, notify.Draft, notify.Test} {
		n := newNotice(1)
		n.Event = e
		a := one(t, s, notify.Message{ID: "msg_1", At: noticeAt, Base: Base, Notices: []notify.Notice{n}})
		a.says(t, n.Heading())
		if other, twice := seen[n.Heading()]; twice {
			t.Errorf("%s and %s are told in the same words", e, other)
		}
		seen[n.Heading()] = e
	}
}

func digest(t *testing.T, s Suite) {
	m := Message(3)
	m.Notices[1].Event, m.Notices[1].Risk, m.Notices[1].Match = notify.Denied, "low", "FERN-17"
	m.More = 4711
	a := one(t, s, m)
	a.says(t, "AMBER-42", "FERN-17", "denied", "4711")
	a.leads(t, Base, "/queue")
	if !s.OneLink {
		a.leads(t, Base, m.Notices[0].Path, m.Notices[1].Path)
	}
}

func cancelled(t *testing.T, s Suite) {
	sender, arrived := s.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sender.Send(ctx, Message(1)); err == nil || len(arrived()) > 0 {
		t.Errorf("Send = %v, %d arrived", err, len(arrived()))
	}
}

// A receiver that never answers does not block a sender beyond its deadline.
func hangs(t *testing.T, s Suite) {
	sender := s.Hang(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := sender.Send(ctx, Message(1)); err == nil {
		t.Error("it was sent")
	}
}

func where(t *testing.T, s Suite) {
	sender, _ := s.Open(t)
	w := sender.Where()
	agenttexttest.ASCII(t, "Where", w)
	if w == "" || strings.Contains(w, "secret") || strings.Count(w, "/") > 2 {
		t.Errorf("Where = %q", w)
	}
}

func (a Arrived) clean(t *testing.T, where string) {
	t.Helper()
	for i, text := range a.Text {
		agenttexttest.Clean(t, fmt.Sprintf("%s, text %d", where, i), text)
	}
}
