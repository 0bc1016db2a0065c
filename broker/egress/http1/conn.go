package http1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// conn is a connection to the upstream.
type conn struct {
	net.Conn
	client *Client
	socket syscall.RawConn // nil = unknown
	r      *bufio.Reader
	left   int64 // bytes that may still be read from the connection
	closed atomic.Bool
	expiry *time.Timer // closes it after it was idle for IdleTime; nil before it was idle

	// State of the current request.
	answered bool                  // the upstream has sent at least one byte
	unwatch  func() bool           // ends the watch of its context; false = the connection is being closed
	sent     chan error            // receives the result of sending its body; nil = it has none
	fault    atomic.Pointer[error] // why it could not be sent, other than because of the upstream; the connection is then closed
}

func newConn(c *Client, n net.Conn) *conn {
	k := &conn{Conn: n, client: c, socket: socketOf(n)}
	k.r = bufio.NewReader(k)
	return k
}

// socketOf returns the socket below the layers of a connection; nil = unknown.
func socketOf(n net.Conn) syscall.RawConn {
	for {
		if s, is := n.(syscall.Conn); is {
			if raw, err := s.SyscallConn(); err == nil {
				return raw
			}
			return nil
		}
		above, is := n.(layer)
		if !is {
			return nil
		}
		n = above.NetConn()
	}
}

// Read implements io.Reader for r.
func (k *conn) Read(p []byte) (int, error) {
	if k.left <= 0 {
		return 0, fmt.Errorf("http1: the head of the upstream's response has more than %d bytes", k.client.MaxHead)
	}
	n, err := k.Conn.Read(p[:min(int64(len(p)), k.left)])
	k.left -= int64(n)
	k.answered = k.answered || n > 0
	return n, err
}

// Close implements net.Conn.
func (k *conn) Close() error {
	if !k.closed.Swap(true) {
		k.client.open.Add(-1)
	}
	return k.Conn.Close()
}

// layer is a connection above another one, as TLS is.
type layer interface{ NetConn() net.Conn }

// abort closes the connection while it may be in use. It closes the layer below TLS first:
// tls.Conn.Close blocks for as long as the upstream does not read the response to a KeyUpdate.
func (k *conn) abort() {
	if above, is := k.Conn.(layer); is {
		_ = above.NetConn().Close()
	}
	_ = k.Close()
}

// quiet reports whether an idle connection can carry a request: the upstream has not closed it, and
// has sent nothing.
func (k *conn) quiet() bool {
	if k.socket == nil {
		return true
	}
	quiet := false
	err := k.socket.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return err == nil && quiet
}

// roundTrip sends a request and reads the head of its response. After an error the connection is
// closed.
func (k *conn) roundTrip(r *http.Request) (*http.Response, error) {
	k.answered, k.left, k.sent = false, k.client.MaxHead, nil
	k.unwatch = context.AfterFunc(r.Context(), k.abort)
	var err error
	if hasBody(r) {
		k.sent = make(chan error, 1)
		go k.sendBody(r)
	} else {
		err = k.send(r)
	}
	var res *http.Response
	if err == nil {
		res, err = k.receive(r)
	}
	fault := k.fault.Load() // also if the upstream has responded to the part that was sent
	if err != nil || fault != nil {
		k.unwatch()
		k.abort()
		if fault != nil {
			err = *fault
		}
		return nil, err
	}
	k.left = math.MaxInt64
	if res.StatusCode == http.StatusSwitchingProtocols {
		res.Body = stream{k}
		return res, nil
	}
	b := &body{ReadCloser: res.Body, k: k, reusable: !res.Close && !r.Close}
	if res.Body == http.NoBody {
		b.end(b.reusable)
	} else {
		res.Body = b
	}
	return res, nil
}

// writers is the pool of the buffers that requests are written through.
var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 16<<10) }}

// send writes a request and closes its body.
func (k *conn) send(r *http.Request) error {
	w := writers.Get().(*bufio.Writer)
	defer func() {
		w.Reset(nil)
		rest := w.AvailableBuffer()
		clear(rest[:cap(rest)]) // it has held the credential
		writers.Put(w)
	}()
	w.Reset(k.Conn)
	if err := r.Write(w); err != nil {
		return err
	}
	return w.Flush()
}

// source is the body of a request. It tells errors of the body from those of the connection.
type source struct {
	io.ReadCloser
	err error // of Read, other than io.EOF
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// sendBody sends a request with a body. It closes the connection if the body cannot be read or the
// request cannot be written, but not if the upstream accepts no more of it: the upstream may have sent
// its response.
func (k *conn) sendBody(r *http.Request) {
	from := &source{ReadCloser: r.Body}
	out := *r
	out.Body = from
	err := k.send(&out)
	fault := from.err
	if _, upstream := errors.AsType[net.Error](err); fault == nil && !upstream {
		fault = err // such as a body that is shorter than declared
	}
	if fault != nil {
		k.fault.Store(&fault)
		k.abort()
	}
	k.sent <- err
}

// maxInterim is the maximum number of interim responses before a response.
const maxInterim = 5

// receive reads the head of a response, and drops the interim responses before it (RFC 9110 section
// 15.2).
func (k *conn) receive(r *http.Request) (*http.Response, error) {
	for range maxInterim + 1 {
		res, err := http.ReadResponse(k.r, r)
		switch {
		case err != nil:
			return nil, err
		case res.StatusCode >= http.StatusOK, res.StatusCode == http.StatusSwitchingProtocols:
			return res, nil
		case res.StatusCode < http.StatusContinue:
			return nil, fmt.Errorf("http1: the status of the upstream's response is %d, which is below 100", res.StatusCode)
		}
	}
	return nil, fmt.Errorf("http1: the upstream sent more than %d interim responses", maxInterim)
}

// sendTime is how long the end of a response waits for the end of its request.
const sendTime = 50 * time.Millisecond

// complete reports whether the whole request was sent.
func (k *conn) complete() bool {
	if k.sent == nil {
		return true
	}
	late := time.NewTimer(sendTime)
	defer late.Stop()
	select {
	case err := <-k.sent:
		return err == nil
	case <-late.C:
		return false
	}
}

// drained reports whether the data read from the socket ends with the response. crypto/tls may
// hold records that it has not returned yet. With a deadline that has passed it returns them, and does
// not read from the socket.
func (k *conn) drained() bool {
	if k.r.Buffered() > 0 {
		return false
	}
	if _, is := k.Conn.(layer); !is {
		return true
	}
	if k.SetReadDeadline(time.Unix(1, 0)) != nil {
		return false
	}
	_, err := k.r.Peek(1)
	return errors.Is(err, os.ErrDeadlineExceeded) && k.SetReadDeadline(time.Time{}) == nil
}

// body is the body of a response.
type body struct {
	io.ReadCloser
	k        *conn
	reusable bool // neither side has asked to close the connection
	ended    atomic.Bool
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end(b.reusable && errors.Is(err, io.EOF))
	}
	return n, err
}

// Close implements io.Closer. It closes the connection if the body was not read to its end.
func (b *body) Close() error {
	b.end(false)
	return nil
}

// end releases the connection, once. With reuse it keeps the connection for another request, if nothing
// follows the response and the whole request was sent.
func (b *body) end(reuse bool) {
	if b.ended.Swap(true) {
		return
	}
	k := b.k
	reuse = reuse && k.drained()
	if !k.unwatch() || !reuse || !k.complete() {
		k.abort() // a request must not wait for an upstream that reads nothing
		return
	}
	k.client.keep(k)
}

// stream is a connection after a response 101 (RFC 9110 section 15.2.2).
type stream struct{ k *conn }

// Read implements io.Reader.
func (s stream) Read(p []byte) (int, error) { return s.k.r.Read(p) }

// Write implements io.Writer.
func (s stream) Write(p []byte) (int, error) { return s.k.Write(p) }

// Close implements io.Closer.
func (s stream) Close() error {
	s.k.unwatch()
	s.k.abort()
	return nil
}
