package egress_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"ebb/broker"
	"ebb/broker/brokertest"
	"ebb/broker/egress"
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

// openAway opens a task with a box on another machine.
func (b *bed) openAway(t *testing.T, boxes *egress.Boxes) broker.Box {
	t.Helper()
	x, err := boxes.Open(t.Context(), b.Principals[brokertest.Runner], b.task(t).Task.ID, broker.BoxSpec{Identity: broker.BoxByRunner})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestHandedPace: a runner that hands on without end is told to wait, and nobody else is.
func TestHandedPace(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	boxes := b.away(t)
	x, theirs := b.openAway(t, boxes), b.openAway(t, boxes)
	enter := func(x broker.Box) error {
		give, err := boxes.Enter(t.Context(), b.Principals[brokertest.Runner], x.TaskID, x.ID)
		if err == nil {
			give(nil) // none waits: it is how often alone
		}
		return err
	}
	if before := boxes.Pace(x.TaskID, x.ID, rate.NewLimiter(0, 3)); before.Limit() != 100 || before.Burst() != 128 {
		t.Errorf("%v a second, %d at once", before.Limit(), before.Burst())
	}
	for i := range 3 {
		if err := enter(x); err != nil {
			t.Fatal(i, err)
		}
	}
	if e := broker.AsError(enter(x)); e == nil || e.Kind != broker.TooMany || e.RetryAfter <= 0 {
		t.Errorf("one more: %v", e)
	}
	if err := enter(theirs); err != nil {
		t.Errorf("another box: %v", err)
	}
}

// TestHandedWaitOfAll: of all boxes, too, only so many connections wait, and one that waits no more makes
// room for another's.
func TestHandedWaitOfAll(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	boxes := b.away(t)
	if before := boxes.Wait(2); before != 512 {
		t.Errorf("%d may wait", before)
	}
	enter := func() (func(net.Conn), error) {
		x := b.openAway(t, boxes)
		return boxes.Enter(t.Context(), b.Principals[brokertest.Runner], x.TaskID, x.ID)
	}
	first, err := enter()
	if err != nil {
		t.Fatal(err)
	}
	second, err := enter()
	if err != nil {
		t.Fatal(err)
	}
	defer second(nil)
	if _, err := enter(); err == nil || broker.AsError(err).Kind != broker.TooMany {
		t.Errorf("one more: %v", err)
	}
	first(nil)
	third, err := enter()
	if err != nil {
		t.Fatalf("when there is room again: %v", err)
	}
	third(nil)
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
