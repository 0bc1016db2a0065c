package teams_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/ebb-broker/ebb/broker/agenttext/agenttexttest"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/notify/notifytest"
	"github.com/ebb-broker/ebb/broker/notify/teams"
)

// flow is a test server that accepts messages as a workflow of Teams does. The test fails if a
// message has text that Teams renders as Markdown, or an action that sends data to ebb.
type flow struct {
	t *testing.T

	mu  sync.Mutex
	got []notifytest.Arrived
}

type element struct {
	Type    string
	Inlines []struct{ Type, Text, Weight, Size string }
	Actions []struct{ Type, Title, URL string }
}

func (f *flow) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		f.t.Error(err)
	}
	agenttexttest.ASCII(f.t, "card", string(body))
	var m struct {
		Type        string
		Attachments []struct {
			ContentType string
			Content     struct {
				Type, Version string
				Body          []element
			}
		}
	}
	if err := json.Unmarshal(body, &m); err != nil || m.Type != "message" || len(m.Attachments) != 1 || m.Attachments[0].ContentType != "application/vnd.microsoft.card.adaptive" || m.Attachments[0].Content.Type != "AdaptiveCard" {
		f.t.Fatalf("%v: %s", err, body)
	}
	a := notifytest.Arrived{Size: len(body)}
	for _, e := range m.Attachments[0].Content.Body {
		f.element(e, &a)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.got = append(f.got, a)
	w.WriteHeader(http.StatusAccepted)
}

func (f *flow) element(e element, a *notifytest.Arrived) {
	if e.Type != "RichTextBlock" && e.Type != "ActionSet" || len(e.Inlines)+len(e.Actions) == 0 {
		f.t.Errorf("an element of type %q", e.Type)
	}
	for _, i := range e.Inlines {
		if i.Type != "TextRun" || i.Text == "" || strings.Contains(i.Text, "{{") {
			f.t.Errorf("an inline %+v", i)
		}
		a.Text = append(a.Text, i.Text)
	}
	for _, x := range e.Actions {
		if x.Type != "Action.OpenUrl" {
			f.t.Errorf("an action %+v", x)
		}
		a.Text, a.Links = append(a.Text, x.Title), append(a.Links, x.URL)
	}
}

func (f *flow) arrived() []notifytest.Arrived {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]notifytest.Arrived(nil), f.got...)
}

//ebb:invariant I9 Names in a notification are escaped, so that no character hides, reorders or imitates other text
func TestSender(t *testing.T) {
	t.Parallel()
	notifytest.Run(t, notifytest.Suite{
		MaxSize: 28 << 10, NoIDs: true,
		Open: func(t *testing.T) (notify.Sender, func() []notifytest.Arrived) {
			f := &flow{t: t}
			return notifytest.Hook(t, teams.Body, f), f.arrived
		},
		Hang: func(t *testing.T) notify.Sender {
			return notifytest.Hook(t, teams.Body, http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
				_, _ = io.Copy(io.Discard, q.Body)
				<-q.Context().Done()
			}))
		},
	})
}
