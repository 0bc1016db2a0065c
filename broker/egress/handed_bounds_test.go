package egress_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/brokertest"
)

// TestHandedBurst: as many connections as a box has at one time come by its runner as they come by a socket:
// none hears that it came with too many.
func TestHandedBurst(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x, _ := b.carried(t, b.away(t))
	var all sync.WaitGroup
	for range 60 {
		all.Go(func() {
			c, err := x.dial()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = c.Close() }()
			_ = c.SetDeadline(time.Now().Add(patience))
			_, _ = io.WriteString(c, "GET /nothing HTTP/1.1\r\nHost: box\r\nConnection: close\r\n\r\n")
			if out, _ := io.ReadAll(c); !strings.HasPrefix(string(out), "HTTP/1.1 403 ") {
				t.Errorf("%.60q", out)
			}
		})
	}
	all.Wait()
}

// TestHandedPace: a runner that hands on without end is told to wait, and nobody else is.
func TestHandedPace(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	boxes, who := b.away(t), b.Principals[brokertest.Runner]
	s, other := b.task(t), b.task(t)
	open := func(task string) broker.Box {
		x, err := boxes.Open(t.Context(), who, task, broker.BoxSpec{Identity: broker.BoxByRunner})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	x, theirs := open(s.Task.ID), open(other.Task.ID)
	var told atomic.Bool
	var all sync.WaitGroup
	end := time.Now().Add(patience)
	for range 4 {
		all.Go(func() {
			for !told.Load() && time.Now().Before(end) {
				enter, err := boxes.Enter(t.Context(), who, s.Task.ID, x.ID)
				if err == nil {
					enter(nil) // none waits: it is how often alone
				} else if e := broker.AsError(err); e.Kind == broker.TooMany && e.RetryAfter > 0 {
					told.Store(true)
				}
			}
		})
	}
	all.Wait()
	if !told.Load() {
		t.Error("there is no pace")
	}
	enter, err := boxes.Enter(t.Context(), who, other.Task.ID, theirs.ID)
	if err != nil {
		t.Fatalf("another box: %v", err)
	}
	enter(nil)
}

// TestHandedOverTLS: the end of a box waits for nobody who has one of its connections: not for a farewell
// that is not read.
func TestHandedOverTLS(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	boxes, who := b.away(t), b.Principals[brokertest.Runner]
	s := b.task(t)
	x, err := boxes.Open(t.Context(), who, s.Task.ID, broker.BoxSpec{Identity: broker.BoxByRunner})
	if err != nil {
		t.Fatal(err)
	}
	here, there := socketPair(t)
	srv := tls.Server(there, &tls.Config{Certificates: b.upstream.TLS.Certificates})
	c := tls.Client(here, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the certificate is of another name; what is asked here is another question
	shaken := make(chan error, 1)
	go func() { shaken <- srv.Handshake() }()
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-shaken; err != nil {
		t.Fatal(err)
	}
	enter, err := boxes.Enter(t.Context(), who, s.Task.ID, x.ID)
	if err != nil {
		t.Fatal(err)
	}
	enter(srv)
	_, _ = io.WriteString(c, "GET /box HTTP/1.1\r\nHost: box\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil {
		_, err = io.ReadAll(res.Body)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := boxes.Shut(t.Context(), who, s.Task.ID, x.ID); err != nil {
		t.Fatal(err)
	}
	_ = here.SetReadDeadline(time.Now().Add(patience))
	if rest, err := io.ReadAll(here); len(rest) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the end of the box says farewell, or does not come: %x, %v", rest, err)
	}
}
