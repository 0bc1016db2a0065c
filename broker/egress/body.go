package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// bodyChunk is how much of a body has to come in each Config.BodyTime.
const bodyChunk = 4 << 10

// metered is the body of a request on its way out. What is too much is not sent, and what
// comes too slowly is cut, until the upstream answers: then the two of them may take turns.
type metered struct {
	io.ReadCloser
	s    *sending
	task *atomic.Int64

	left  time.Duration // to wait for what is missing of the chunk
	fresh int           // bytes of the chunk that are there
	slow  *time.Timer
}

// meter bounds the body of a request before any of it is read.
func (s *sending) meter(r *http.Request) error {
	cfg, task := s.b.p.cfg, s.b.p.sent.get(s.b.who.Root())
	if r.ContentLength > cfg.RequestBytes || task.Load()+max(r.ContentLength, 0) > cfg.TaskBytes {
		return deny(TooMuch, nil)
	}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &metered{ReadCloser: r.Body, s: s, task: task, left: cfg.BodyTime}
	}
	return nil
}

// Read implements io.Reader.
func (m *metered) Read(p []byte) (int, error) {
	n, err := m.read(p)
	if err != nil && !errors.Is(err, io.EOF) && m.s.ctx.Err() == nil {
		m.s.unread.Store(true)
	}
	request, task := m.s.sent.Add(int64(n)), m.task.Add(int64(n))
	if request > m.s.b.p.cfg.RequestBytes || task > m.s.b.p.cfg.TaskBytes {
		return 0, deny(TooMuch, nil)
	}
	return n, err
}

// read waits for the box no longer than it may. Only the time in which the box keeps it
// waiting counts: an upstream that is slow to take is no fault of its.
func (m *metered) read(p []byte) (int, error) {
	if m.s.answered.Load() {
		return m.ReadCloser.Read(p)
	}
	if m.slow == nil {
		m.slow = time.AfterFunc(m.left, func() {
			if !m.s.answered.Load() {
				m.s.cut(errSlow)
			}
		})
	} else {
		m.slow.Reset(m.left)
	}
	began := time.Now()
	n, err := m.ReadCloser.Read(p)
	m.slow.Stop()
	m.left = max(m.left-time.Since(began), 0)
	if m.fresh += n; m.fresh >= bodyChunk {
		m.fresh, m.left = 0, m.s.b.p.cfg.BodyTime
	}
	return n, err
}

// unblock ends the wait for the rest of a body when ctx is done. over is called before the
// handler of w returns, after which nothing of w may be used. A connection of HTTP/1 is
// closed: its server would still read what is left of the body, whatever deadline it has.
func unblock(ctx context.Context, w http.ResponseWriter, r *http.Request) (over func()) {
	var mu sync.Mutex
	returned := false
	end := func() {
		mu.Lock()
		defer mu.Unlock()
		conn, is := r.Context().Value(connKey{}).(net.Conn)
		switch {
		case returned || ctx.Err() == nil || stopping(ctx): // what ebb stops is answered, see drain
		case is && r.ProtoMajor == 1:
			_ = conn.Close()
		default:
			_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
		}
	}
	stop := context.AfterFunc(ctx, end)
	return func() {
		stop()
		end()
		mu.Lock()
		defer mu.Unlock()
		returned = true
	}
}
