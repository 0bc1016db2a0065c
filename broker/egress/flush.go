package egress

import (
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
