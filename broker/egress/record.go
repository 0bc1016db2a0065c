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

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// exchange returns the audit log entry of a request, with only those fields that every server would
// read in the same way.
func (b *endpoint) exchange(r *http.Request) broker.Exchange {
	x := broker.Exchange{Tool: b.who.Tool}
	if stricturl.Method(r.Method) == nil || r.Method == http.MethodConnect {
		x.Method = r.Method
	}
	if tun, is := r.Context().Value(tunnelKey{}).(*tunnel); is {
		x.Host = tun.host.String()
		if path := r.URL.EscapedPath(); !strings.ContainsFunc(path, func(c rune) bool { return c <= ' ' || c > '~' }) {
			x.Path = path[:min(len(path), broker.MaxExchangePath)]
		}
	} else if h, err := stricturl.ParseHost(r.RequestURI, 0); err == nil && r.Method == http.MethodConnect {
		x.Host = h.String()
	}
	return x
}

// allow writes to the audit log that a request may be sent. finish must be called afterwards.
func (s *outbound) allow(use broker.Usable) error {
	p := s.b.p
	if !p.pending.add(s.b.who.Root()) {
		return deny(NoRecord, errors.New("too many requests wait for their completion entry in the audit log"))
	}
	s.x.Untrusted = slices.Contains(p.cfg.Untrusted, s.host.Name)
	if err := p.cfg.Record.UseAllowed(s.ctx, s.b.who, use, s.x); err != nil {
		p.pending.remove(s.b.who.Root())
		return deny(NoRecord, err)
	}
	s.allowed, s.began = true, time.Now()
	if s.tunnel.b != nil {
		s.tunnel.used.Do(s.b.workLimits.empty.give)
	}
	return nil
}

// finish writes the end of a request to the audit log, without making the client wait.
func (s *outbound) finish() {
	if !s.allowed {
		return
	}
	p, x := s.b.p, s.x
	x.Cut, x.Sent, x.Received, x.Redacted, x.Millis = s.interrupted(), s.sent.Load(), s.received.Load(), s.redacted.Load(), time.Since(s.began).Milliseconds()
	if why := s.ended.Load(); why != nil {
		x.Reason = string(*why)
	}
	ctx := context.WithoutCancel(s.ctx)
	go func() {
		defer p.pending.remove(s.b.who.Root())
		p.cfg.Record.UseCompleted(ctx, s.b.who, s.leaseID, x)
	}()
}

// interrupted reports whether the request or response ended early.
func (s *outbound) interrupted() bool { return s.broken.Load() || s.ctx.Err() != nil }

// pendingEnds counts the requests that the audit log has as allowed but not yet as completed.
type pendingEnds struct {
	mu   sync.Mutex
	of   share
	none chan struct{} // closed when there are none; nil = no call of wait is running
}

func (e *pendingEnds) add(task string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.of.take(task, 1, taskPending, maxPending)
}

func (e *pendingEnds) remove(task string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of.give(task, 1); e.of.n == 0 && e.none != nil {
		close(e.none)
		e.none = nil
	}
}

// wait waits until there are none, for at most patience.
func (e *pendingEnds) wait(patience time.Duration) {
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

// sentBytes counts what each root task has sent, including its subtasks.
type sentBytes struct {
	mu sync.Mutex
	of map[string]*atomic.Int64
}

func (m *sentBytes) get(taskID string) *atomic.Int64 {
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

func (m *sentBytes) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, id)
}
