package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/internal/session"
)

const (
	liveRound   = 500 * time.Millisecond // interval of reads of the approval store while a browser listens
	livePing    = 20 * time.Second       // keeps proxies from closing an idle connection
	liveWrite   = 10 * time.Second
	liveSession = 3 // connections of one session; the tabs of a browser share one
	liveIDs     = 100
)

// waiting is the event sent to a browser: the number of requests that wait for the person, and
// their ids. It contains no name, scope or agent text. People who may read lists are also told that
// the audit log has grown, and then fetch the entries that they may see.
type waiting struct {
	Count int      `json:"count"`
	IDs   []string `json:"ids"` // the newest
}

// liveBroker is the part of the core that the server-sent events read.
type liveBroker interface {
	Marks(ctx context.Context) ([]broker.Mark, error)
	Newest(ctx context.Context) (string, error)
}

// live tells browsers which requests wait. One read of the approval store serves all browsers. The
// approval store is in the database, so every replica sees the requests of the others.
type live struct {
	b       liveBroker
	visitor *session.Sessions

	mu        sync.Mutex
	listeners map[*listener]struct{}
	sessions  map[string]int
	stop      context.CancelFunc // stops look; nil = no browser listens
	marks     []broker.Mark
	newest    string // key of the newest audit entry
	fresh     bool
}

type listener struct{ wake chan struct{} }

func newLive(b liveBroker, visitor *session.Sessions) *live {
	return &live{b: b, visitor: visitor, listeners: map[*listener]struct{}{}, sessions: map[string]int{}}
}

// enter registers a listener. It returns nil when the session has liveSession listeners already.
func (l *live) enter(id string) *listener {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sessions[id] >= liveSession {
		return nil
	}
	l.sessions[id]++
	n := &listener{wake: make(chan struct{}, 1)}
	l.listeners[n] = struct{}{}
	if l.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		l.stop, l.fresh = stop, false
		go l.look(ctx)
	}
	return n
}

func (l *live) leave(id string, n *listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sessions[id]--; l.sessions[id] == 0 {
		delete(l.sessions, id)
	}
	if delete(l.listeners, n); len(l.listeners) == 0 {
		l.stop()
		l.stop = nil
	}
}

// look reads the approval store until no browser listens. While the store does
// not answer, the last result stays valid.
func (l *live) look(ctx context.Context) {
	t := time.NewTicker(liveRound)
	defer t.Stop()
	for {
		marks, err1 := l.b.Marks(ctx)
		newest, err2 := l.b.Newest(ctx)
		if err1 == nil && err2 == nil {
			l.saw(ctx, marks, newest)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

func (l *live) saw(ctx context.Context, marks []broker.Mark, newest string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		return // a newer look has replaced this one
	}
	l.marks, l.newest, l.fresh = marks, newest, true
	for n := range l.listeners {
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

// of returns the waiting requests that who may decide and has not voted on, the newest audit entry
// if who may read it, and whether look has finished a first read.
func (l *live) of(who broker.Principal) (w waiting, newest string, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.IDs = []string{}
	for _, m := range l.marks {
		if !m.For(who) || slices.Contains(m.Voters, who.ID) {
			continue
		}
		if w.Count++; len(w.IDs) < liveIDs {
			w.IDs = append(w.IDs, m.ID)
		}
	}
	if who.Has(session.AuditReaders...) {
		newest = l.newest
	}
	return w, newest, l.fresh
}

// events serves GET /events: server-sent events for as long as the session lasts. Each event
// contains the whole state, so that a browser that reconnects misses nothing.
func (l *live) events(c echo.Context) error {
	v, err := l.visitor.SignedIn(c.Request().Context(), c)
	if err != nil {
		return err
	}
	r, w := c.Request(), c.Response()
	if site := r.Header.Values("Sec-Fetch-Site"); len(site) != 1 || site[0] != "same-origin" {
		return broker.E(broker.Forbidden, "Events are for the console's own pages. Programs use the API.", nil)
	}
	n := l.enter(v.Session.ID)
	if n == nil {
		return broker.E(broker.TooMany, "This session already has 3 event streams. Close another tab of the console.", nil)
	}
	defer l.leave(v.Session.ID, n)
	web.EventOf(c).Quiet = true
	w.Header().Set(echo.HeaderContentType, "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	ping := time.NewTicker(livePing)
	defer ping.Stop()
	var last, read string
	for {
		text := ": here\n\n"
		select {
		case <-r.Context().Done():
			return nil
		case <-ping.C:
			if _, err := l.visitor.SignedIn(c.Request().Context(), c); err != nil {
				return nil
			}
		case <-n.wake:
			now, newest, fresh := l.of(v.Principal)
			if text = event(now); !fresh || text == last && newest == read {
				continue
			}
			if text == last {
				text = ""
			} else {
				last = text
			}
			if newest != read {
				read = newest
				text += "event: record\ndata: " + newest + "\n\n"
			}
		}
		rc := http.NewResponseController(w)
		_ = rc.SetWriteDeadline(time.Now().Add(liveWrite)) // a writer without deadlines, as in tests, returns an error
		if _, err := w.Write([]byte(text)); err != nil || rc.Flush() != nil {
			return nil
		}
	}
}

func event(w waiting) string {
	body, err := json.Marshal(w)
	if err != nil {
		return ""
	}
	newest := ""
	if len(w.IDs) > 0 {
		newest = w.IDs[0]
	}
	return fmt.Sprintf("id: %s.%d\nevent: waiting\ndata: %s\n\n", newest, w.Count, body)
}
