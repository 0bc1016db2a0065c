package egress

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ebb/broker"
	"ebb/broker/exact"
)

// exchange is what the record says of a request: as much of it as everybody reads alike.
func (b *box) exchange(r *http.Request) broker.Exchange {
	x := broker.Exchange{Tool: b.who.Tool}
	if exact.Method(r.Method) == nil || r.Method == http.MethodConnect {
		x.Method = r.Method
	}
	if tun, is := r.Context().Value(tunnelKey{}).(*tunnel); is {
		x.Host = tun.host.String()
		if path := r.URL.EscapedPath(); !strings.ContainsFunc(path, func(c rune) bool { return c <= ' ' || c > '~' }) {
			x.Path = path[:min(len(path), broker.MaxExchangePath)]
		}
	} else if h, err := exact.ParseHost(r.RequestURI, 0); err == nil && r.Method == http.MethodConnect {
		x.Host = h.String()
	}
	return x
}

// allow puts a request on the record as one that may leave. Afterwards finish is owed.
func (s *sending) allow(use broker.Usable) error {
	p := s.b.p
	if !p.ends.owe(s.b.who.Root()) {
		return deny(NoRecord, errors.New("too many requests have no end on the record yet"))
	}
	s.x.Untrusted = slices.Contains(p.cfg.Untrusted, s.host.Name)
	if err := p.cfg.Record.UseAllowed(s.ctx, s.b.who, use, s.x); err != nil {
		p.ends.paid(s.b.who.Root())
		return deny(NoRecord, err)
	}
	s.allowed, s.began = true, time.Now()
	if s.tunnel.b != nil {
		s.tunnel.used.Do(s.b.free.empty.give)
	}
	return nil
}

// finish puts the end of a request on the record. Who sent it does not wait for that.
func (s *sending) finish() {
	if !s.allowed {
		return
	}
	p, x := s.b.p, s.x
	x.Cut, x.Sent, x.Received, x.Redacted, x.Millis = s.isCut(), s.sent.Load(), s.received.Load(), s.echoes.Load(), time.Since(s.began).Milliseconds()
	if why := s.ended.Load(); why != nil {
		x.Reason = string(*why)
	}
	ctx := context.WithoutCancel(s.ctx)
	go func() {
		defer p.ends.paid(s.b.who.Root())
		p.cfg.Record.UseCompleted(ctx, s.b.who, s.leaseID, x)
	}()
}

// isCut reports whether what has ended did not end by itself.
func (s *sending) isCut() bool { return s.broken.Load() || s.ctx.Err() != nil }

// ends count the requests that are on the record as allowed, and not as over.
type ends struct {
	mu   sync.Mutex
	of   share
	none chan struct{} // closed at none; nil = nobody waits
}

func (e *ends) owe(task string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.of.take(task, 1, taskEnds, maxEnds)
}

func (e *ends) paid(task string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of.give(task, 1); e.of.n == 0 && e.none != nil {
		close(e.none)
		e.none = nil
	}
}

// wait waits until there are none, or until it has waited long enough.
func (e *ends) wait(patience time.Duration) {
	e.mu.Lock()
	if e.of.n == 0 {
		e.mu.Unlock()
		return
	}
	if e.none == nil {
		e.none = make(chan struct{})
	}
	none := e.none
	e.mu.Unlock()
	select {
	case <-none:
	case <-time.After(patience):
	}
}

// meters are what tasks of runners have sent, with those below them.
type meters struct {
	mu sync.Mutex
	of map[string]*atomic.Int64
}

func (m *meters) get(taskID string) *atomic.Int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[string]*atomic.Int64{}
	}
	if m.of[taskID] == nil {
		m.of[taskID] = new(atomic.Int64)
	}
	return m.of[taskID]
}

func (m *meters) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, id)
}
