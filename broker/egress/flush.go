package egress

import (
	"bufio"
	"net/http"
	"sync"
	"time"
)

// flushTime is how long a part of an answer that says its length waits for the next: many
// small writes are then one. What has no length, or is a stream of events, goes on at once
// (httputil.ReverseProxy.FlushInterval).
const flushTime = 5 * time.Millisecond

// copyBytes is how much of an answer is copied at one time.
const copyBytes = 32 << 10

// buffers are those that answers are copied in, each used again by who comes next.
type buffers struct{}

var answerBuffers = sync.Pool{New: func() any { return new([copyBytes]byte) }}

// Get implements httputil.BufferPool.
func (buffers) Get() []byte { return answerBuffers.Get().(*[copyBytes]byte)[:] }

// Put implements httputil.BufferPool. What was in it is nobody's any more.
func (buffers) Put(b []byte) {
	clear(b)
	answerBuffers.Put((*[copyBytes]byte)(b))
}

// longAnswer is from how many bytes on the parts of an answer are gathered before they are
// written: parts come as records of TLS, and a write for each of them is several below it.
const longAnswer = 64 << 10

// gathered is a ResponseWriter whose long answers are written in large parts. What is
// gathered goes on with Flush, which ReverseProxy calls in flushTime, and with end.
type gathered struct {
	http.ResponseWriter
	long func() bool // whether the answer is one, as its head says; asked at the first write
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

// Unwrap is for http.ResponseController.
func (g *gathered) Unwrap() http.ResponseWriter { return g.ResponseWriter }

// end writes the rest. After a panic, which cuts an answer, it is not called: then nothing
// more goes out.
func (g *gathered) end() {
	if g.buf == nil {
		return
	}
	_ = g.buf.Flush() // who does not take it has gone
	g.buf.Reset(nil)
	gatherers.Put(g.buf)
	g.buf = nil
}
