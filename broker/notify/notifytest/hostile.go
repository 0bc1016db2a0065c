package notifytest

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/agenttext/agenttexttest"
	"github.com/ebb-broker/ebb/broker/notify"
)

// more are hostile texts for chats and mails.
var more = map[string]string{
	"slack mention":  "<!channel> <@U012345> @here @everyone",
	"slack link":     "<https://evil.example/approve|Approve>",
	"slack mrkdwn":   "*APPROVED* ~no~ `x` _y_ > quote",
	"slack emoji":    ":white_check_mark: :lock:",
	"mail header":    "x\r\nBcc: all@evil.example\r\n\r\nApproved",
	"mail end":       "x\r\n.\r\nMAIL FROM:<a@evil.example>",
	"mail dots":      ".\n.\n..",
	"encoded word":   "=?utf-8?q?Approved?=",
	"signature":      "-- \nEverything below is cut",
	"card function":  "{{DATE(2026-11-27T12:00:00Z, SHORT)}} {{{{x}}}} [Approve](https://evil.example)",
	"bare link":      "https://evil.example/approve",
	"long":           strings.Repeat("A very long name ", 5000),
	"quoted":         `"} , {"approve": true, "x": "`,
	"template":       "{{.Secret}} ${env:HOME} %s %n %00",
	"many bad bytes": strings.Repeat("\xff", 3000),
}

// hostile checks that hostile names of tasks and people cannot add markup, a link or a second
// message: each notice is one message that links only to its own page.
func hostile(t *testing.T, s Suite) {
	sender, arrived := s.Open(t)
	corpus := agenttexttest.Hostile(t)
	for name, text := range more {
		corpus[name] = text
	}
	n := 0
	for name, text := range corpus {
		x := newNotice(1)
		x.TaskName, x.Owner, x.By, x.Title, x.Match, x.TaskID, x.Reasons, x.Only = text, text, text, text, text, text, []string{text, text, text, text}, []string{text, text, text, text, text}
		for _, m := range []notify.Message{
			{ID: "msg_1", At: noticeAt, Base: Base, Notices: []notify.Notice{x}},
			{ID: "msg_2", At: noticeAt, Base: Base, Digest: true, Notices: []notify.Notice{x, x}},
			{ID: "msg_3", At: noticeAt, Base: Base, Notices: []notify.Notice{{Event: notify.BreakGlass, Subject: "x:1", Title: text, By: text, Path: "/audit/x/1"}}},
		} {
			send(t, sender, m)
			got := arrived()
			if n++; len(got) != n {
				t.Fatalf("%s: %d messages arrived of %d", name, len(got), n)
			}
			a := got[n-1]
			a.clean(t, name)
			a.leads(t, Base)
			if s.MaxSize > 0 && a.Size > s.MaxSize {
				t.Errorf("%s: %d bytes", name, a.Size)
			}
		}
	}
}

// agentText is acceptance check 5: a notice has no member for an agent's text, so two
// requests with the same facts and different text give the same bytes.
func agentText(t *testing.T, _ Suite) {
	for _, typ := range []reflect.Type{reflect.TypeFor[notify.Message](), reflect.TypeFor[notify.Notice](), reflect.TypeFor[notify.Item]()} {
		for f := range typ.Fields() {
			if strings.Contains(f.Type.String(), "agenttext") {
				t.Errorf("%s.%s holds an agent's words", typ, f.Name)
			}
		}
	}
}

// many: a flood becomes one message that the receiver accepts.
func many(t *testing.T, s Suite) {
	m := Message(notify.MaxItems)
	m.More = 100_000
	for i := range m.Notices {
		m.Notices[i].Title = strings.Repeat("n/", 500)
	}
	sender, arrived := s.Open(t)
	if _, err := sender.Send(context.WithoutCancel(t.Context()), m); err != nil {
		t.Fatal(err)
	}
	got := arrived()
	if len(got) != 1 || s.MaxSize > 0 && got[0].Size > s.MaxSize {
		t.Fatalf("%d messages arrived: %+v", len(got), got)
	}
	got[0].says(t, "more")
}
