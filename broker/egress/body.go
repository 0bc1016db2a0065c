package egress

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// unblock ends the wait for the rest of a request body when ctx is done. The caller calls over
// before the handler of w returns, because w must not be used afterwards. An HTTP/1 connection is
// closed: its server would read the rest of the body in spite of a read deadline.
func unblock(ctx context.Context, w http.ResponseWriter, r *http.Request) (over func()) {
	var mu sync.Mutex
	returned := false
	end := func() {
		mu.Lock()
		defer mu.Unlock()
		conn, is := r.Context().Value(connKey{}).(net.Conn)
		switch {
		case returned || ctx.Err() == nil || stopping(ctx): // when ebb stops, requests are answered: see drain
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

// flushTime is how long a part of a response with a Content-Length waits for the next part, so that
// many small writes become one. Responses without a length and event streams are flushed at once
// (httputil.ReverseProxy.FlushInterval).
const flushTime = 5 * time.Millisecond

// copyBytes is the size in bytes of the buffers that responses are copied through.
const copyBytes = 32 << 10

// buffers is the pool of the buffers that responses are copied through.
type buffers struct{}

var answerBuffers = sync.Pool{New: func() any { return new([copyBytes]byte) }}

// Get implements httputil.BufferPool.
func (buffers) Get() []byte { return answerBuffers.Get().(*[copyBytes]byte)[:] }

// Put implements httputil.BufferPool. It clears the buffer, because another response uses it next.
func (buffers) Put(b []byte) {
	clear(b)
	answerBuffers.Put((*[copyBytes]byte)(b))
}

// longAnswer is the Content-Length in bytes from which on the parts of a response are buffered
// before they are written. Parts arrive as TLS records, and each write causes several writes in the
// layers below.
const longAnswer = 64 << 10

// gathered is a ResponseWriter that buffers long responses. Buffered data is written by Flush,
// which ReverseProxy calls after flushTime, and by end.
type gathered struct {
	http.ResponseWriter
	long func() bool // reports whether the response head announces a long response; called at the first write
	buf  *bufio.Writer
}

var gatherers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, longAnswer) }}

// Write implements io.Writer.
func (g *gathered) Write(p []byte) (int, error) {
	if g.buf == nil && g.long() {
		g.buf = gatherers.Get().(*bufio.Writer)
		g.buf.Reset(g.ResponseWriter)
	}
	if g.buf == nil {
		return g.ResponseWriter.Write(p)
	}
	return g.buf.Write(p)
}

// FlushError is Flush for http.ResponseController.
func (g *gathered) FlushError() error {
	if g.buf != nil {
		if err := g.buf.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(g.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController reach the ResponseWriter below.
func (g *gathered) Unwrap() http.ResponseWriter { return g.ResponseWriter }

// end writes the rest of the buffer. It is not called after a panic that aborts the response, so
// that nothing more is sent then.
func (g *gathered) end() {
	if g.buf == nil {
		return
	}
	_ = g.buf.Flush() // an error means that the client has gone
	g.buf.Reset(nil)
	gatherers.Put(g.buf)
	g.buf = nil
}
