package slack_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/broker/agenttext/agenttexttest"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/broker/notify/notifytest"
	"github.com/ebb-broker/ebb/broker/notify/slack"
)

// workspace accepts messages as an incoming webhook does. Payloads beyond the limits of
// Slack's Block Kit reference are invalid_blocks there, and fail the test here.
type workspace struct {
	t      *testing.T
	answer http.HandlerFunc // nil = "ok"

	mu  sync.Mutex
	got []notifytest.Arrived
}

const (
	maxBlocks  = 50
	maxHeader  = 150
	maxSection = 3000
	maxButton  = 75
	maxContext = 10
	maxText    = 40_000
)

func (w *workspace) ServeHTTP(rw http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		w.t.Error(err)
	}
	agenttexttest.ASCII(w.t, "payload", string(body))
	var p map[string]any
	if err := json.Unmarshal(body, &p); err != nil {
		w.t.Errorf("%v: %s", err, body)
	}
	a := notifytest.Arrived{Size: len(body)}
	w.check(p, &a)
	w.mu.Lock()
	w.got = append(w.got, a)
	w.mu.Unlock()
	if w.answer != nil {
		w.answer(rw, q)
		return
	}
	_, _ = io.WriteString(rw, "ok")
}

func (w *workspace) check(p map[string]any, a *notifytest.Arrived) {
	for _, name := range []string{"mrkdwn", "link_names", "unfurl_links", "unfurl_media"} {
		if p[name] != false {
			w.t.Errorf("%s is %v", name, p[name])
		}
	}
	text, _ := p["text"].(string)
	if p["parse"] != "none" || text == "" || len(text) > maxText {
		w.t.Errorf("parse %v, text of %d bytes", p["parse"], len(text))
	}
	// Small screens interpret it as markup: it contains only ebb's own words.
	if strings.ContainsAny(text, "<>&*_~`") || strings.Count(text, ":") > 2 {
		w.t.Errorf("the text could be markup: %q", text)
	}
	a.Text = append(a.Text, text)
	blocks, _ := p["blocks"].([]any)
	if len(blocks) == 0 || len(blocks) > maxBlocks {
		w.t.Errorf("%d blocks", len(blocks))
	}
	for _, b := range blocks {
		w.block(b.(map[string]any), a)
	}
}

func (w *workspace) block(b map[string]any, a *notifytest.Arrived) {
	elements, _ := b["elements"].([]any)
	switch b["type"] {
	case "header":
		w.plain(b["text"], maxHeader, a)
	case "context":
		if len(elements) == 0 || len(elements) > maxContext {
			w.t.Errorf("a context of %d", len(elements))
		}
		for _, e := range elements {
			w.plain(e, maxSection, a)
		}
	case "rich_text":
		if len(elements) == 0 {
			w.t.Error("an empty rich_text")
		}
		n := 0
		for _, e := range elements {
			n += w.section(e.(map[string]any), a)
		}
		if n > maxSection {
			w.t.Errorf("a rich_text of %d characters", n)
		}
	case "actions":
		for _, e := range elements {
			x := e.(map[string]any)
			url, _ := x["url"].(string)
			if x["type"] != "button" || url == "" || len(x) != 3 { // no value, no confirmation
				w.t.Errorf("a control %v", x)
			}
			w.plain(x["text"], maxButton, a)
			a.Links = append(a.Links, url)
		}
	default: // other controls
		w.t.Errorf("a block of type %v", b["type"])
	}
}

func (w *workspace) plain(v any, limit int, a *notifytest.Arrived) {
	x, _ := v.(map[string]any)
	text, _ := x["text"].(string)
	if x["type"] != "plain_text" || x["emoji"] != false || text == "" || utf8.RuneCountInString(text) > limit {
		w.t.Errorf("%d characters: %v", utf8.RuneCountInString(text), x)
	}
	a.Text = append(a.Text, text)
}

func (w *workspace) section(x map[string]any, a *notifytest.Arrived) (n int) {
	if x["type"] != "rich_text_section" {
		w.t.Errorf("an element of type %v", x["type"])
	}
	elements, _ := x["elements"].([]any)
	for _, e := range elements {
		s := e.(map[string]any)
		text, _ := s["text"].(string)
		if text == "" || s["type"] != "text" {
			w.t.Errorf("an element %v", s)
		}
		n += utf8.RuneCountInString(text)
		a.Text = append(a.Text, text)
	}
	return n
}

func (w *workspace) arrived() []notifytest.Arrived {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.got)
}

func open(t *testing.T, answer http.HandlerFunc) (notify.Sender, *workspace) {
	t.Helper()
	w := &workspace{t: t, answer: answer}
	return notifytest.Hook(t, slack.Body, w), w
}

//ebb:invariant I9 Names in a notification are escaped, so that no character hides, reorders or imitates other text
func TestSender(t *testing.T) {
	t.Parallel()
	notifytest.Run(t, notifytest.Suite{
		MaxSize: 100 << 10, NoIDs: true,
		Open: func(t *testing.T) (notify.Sender, func() []notifytest.Arrived) {
			s, w := open(t, nil)
			return s, w.arrived
		},
		Hang: func(t *testing.T) notify.Sender {
			s, _ := open(t, func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() })
			return s
		},
	})
}

// A webhook that its workspace has removed answers 404 or 410. The error repeats neither
// Slack's text nor the URL.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for code, gone := range map[int]bool{http.StatusGone: true, http.StatusNotFound: false, http.StatusForbidden: false, http.StatusInternalServerError: false, http.StatusTooManyRequests: false} {
		s, _ := open(t, func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(code)
			_, _ = io.WriteString(rw, "channel_is_archived by \u202eevil")
		})
		_, err := s.Send(t.Context(), notifytest.Message(1))
		if err == nil || errors.Is(err, notify.ErrGone) != gone || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "evil") {
			t.Errorf("%d: %v", code, err)
		}
	}
}
