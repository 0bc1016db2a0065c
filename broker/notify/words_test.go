package notify_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/broker/agenttext/agenttexttest"
	"github.com/ebb-broker/ebb/broker/notify"
)

// A heading contains only ebb's own words. A text has a maximum length and keeps its
// beginning and end.
//
//ebb:invariant I9 Names in a notification are escaped, so that no character hides, reorders or imitates other text
//ebb:invariant I9 The heading of a notification contains no text from agents or other users, except a valid match code
func TestWords(t *testing.T) {
	t.Parallel()
	for name, text := range agenttexttest.Hostile(t) {
		n := notify.Notice{Event: notify.Waiting, Subject: text, Title: text, Risk: text, Reasons: []string{text}, Only: []string{text}, TaskID: text, TaskName: text, Owner: text, By: text, Match: text, Path: "/x"}
		if got, want := n.Heading(), "request waits for you"; got != want {
			t.Errorf("%s: the heading is %q", name, got)
		}
		for _, l := range n.Lines(time.Now()) {
			agenttexttest.Clean(t, name, l.Label+l.Text)
			if utf8.RuneCountInString(l.Text) > 150 || strings.Contains(l.Text, "\n") {
				t.Errorf("%s: %q", name, l)
			}
		}
	}
	for in, want := range map[string]string{"": "", "short": "short", strings.Repeat("a", 20): strings.Repeat("a", 20), "github.com/acme/a-very-long-name/web": "github. ... name/web"} {
		if got := notify.Text(in, 20); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
}

//ebb:invariant I9 The heading of a notification contains no text from agents or other users, except a valid match code
func TestHeadings(t *testing.T) {
	t.Parallel()
	of := func(events ...notify.Event) (m notify.Message) {
		m.Digest = len(events) > 1
		for i, e := range events {
			m.Notices = append(m.Notices, notify.Notice{Event: e, Subject: fmt.Sprint(i), Risk: []string{"low", "high", "medium"}[i%3], Path: fmt.Sprintf("/requests/%d", i)})
		}
		return m
	}
	for want, m := range map[string]notify.Message{
		"Low risk: request waits for you":  of(notify.Waiting),
		"3 requests wait for you":          of(notify.Waiting, notify.Escalated, notify.Waiting),
		"2 requests ended":                 of(notify.Denied, notify.Expired),
		"1 request waits for you, 1 ended": of(notify.Waiting, notify.Denied),
		"3 notifications":                  of(notify.Waiting, notify.Denied, notify.BreakGlass),
	} {
		if got := m.Heading(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	m := of(notify.Waiting, notify.Waiting, notify.BreakGlass, notify.Waiting)
	m.Notices[2].Risk, m.More = "", 7
	shown, more := m.Shown(2)
	if shown[0].Event != notify.BreakGlass || shown[1].Risk != "high" || more != 9 {
		t.Errorf("shown %+v and %d more", shown, more)
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	look := func(name string) (string, bool) { return map[string]string{"A": "secret\n"}[name], name == "A" }
	if s, err := (notify.Key{Variable: "A"}).Read(look); err != nil || s.Reveal() != "secret" || strings.Contains(fmt.Sprintf("%+v", s), "secret") {
		t.Errorf("got %v, %v", s, err)
	}
	for _, k := range []notify.Key{{}, {Variable: "B"}, {File: "/nowhere"}, {File: "/nowhere", Variable: "A"}} {
		if _, err := k.Read(look); err == nil {
			t.Errorf("%+v was read", k)
		}
	}
}
