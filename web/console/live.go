package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/web"
)

const (
	liveRound   = time.Second      // how often the desk is looked at while anybody listens
	livePing    = 20 * time.Second // so that proxies do not take the connection for dead
	liveWrite   = 10 * time.Second
	liveSession = 3 // connections of one session: browsers share one
	liveIDs     = 100
)

// waiting is what a browser is told: how many requests wait for the person, and ids.
// Never a name, a scope or a word of an agent. Who reads lists is also told that the
// record goes on, and fetches of it what they may see.
type waiting struct {
	Count int      `json:"count"`
	IDs   []string `json:"ids"` // the newest
}

// live tells browsers what waits. One look at the desk serves all of them, and the desk
// is the database, so that every replica sees what any other made.
type live struct {
	b *broker.Broker

	mu        sync.Mutex
	listeners map[*listener]struct{}
	sessions  map[string]int
	stop      context.CancelFunc // of the looking; nil = nobody listens
	marks     []broker.Mark
	newest    string // entry of the record
	fresh     bool
}

type listener struct{ wake chan struct{} }

func newLive(b *broker.Broker) *live {
	return &live{b: b, listeners: map[*listener]struct{}{}, sessions: map[string]int{}}
}

// enter begins to listen. It is nil when the session listens too often already.
func (l *live) enter(session string) *listener {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sessions[session] >= liveSession {
		return nil
	}
	l.sessions[session]++
	n := &listener{wake: make(chan struct{}, 1)}
	l.listeners[n] = struct{}{}
	if l.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		l.stop, l.fresh = stop, false
		go l.look(ctx)
	}
	return n
}

func (l *live) leave(session string, n *listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sessions[session]--; l.sessions[session] == 0 {
		delete(l.sessions, session)
	}
	if delete(l.listeners, n); len(l.listeners) == 0 {
		l.stop()
		l.stop = nil
	}
}

// look looks at the desk until nobody listens. While the desk does not answer, what was
// seen last stands.
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
		return // another look is the current one
	}
	l.marks, l.newest, l.fresh = marks, newest, true
	for n := range l.listeners {
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

// of is what waits for who and how far the record is, and whether anybody has looked yet.
func (l *live) of(who broker.Principal) (w waiting, newest string, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.IDs = []string{}
	for _, m := range l.marks {
		if !m.For(who) {
			continue
		}
		if w.Count++; len(w.IDs) < liveIDs {
			w.IDs = append(w.IDs, m.ID)
		}
	}
	if who.Has(readers...) {
		newest = l.newest
	}
	return w, newest, l.fresh
}

// events is GET /events: server-sent events for as long as the session lasts. Each
// tells all there is to tell, so that a browser that comes back has missed nothing.
func (s *Console) events(c echo.Context) error {
	v, err := s.signedIn(c.Request().Context(), c)
	if err != nil {
		return err
	}
	r, w := c.Request(), c.Response()
	if site := r.Header.Values("Sec-Fetch-Site"); len(site) != 1 || site[0] != "same-origin" {
		return broker.E(broker.Forbidden, "Only a page of this console listens.", nil)
	}
	n := s.live.enter(v.session.ID)
	if n == nil {
		return broker.E(broker.TooMany, "This browser listens already.", nil)
	}
	defer s.live.leave(v.session.ID, n)
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
			if _, err := s.signedIn(c.Request().Context(), c); err != nil {
				return nil
			}
		case <-n.wake:
			now, newest, fresh := s.live.of(v.Principal)
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
		_ = rc.SetWriteDeadline(time.Now().Add(liveWrite)) // not every writer has deadlines
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
