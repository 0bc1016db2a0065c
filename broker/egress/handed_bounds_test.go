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

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/egress"
)

// TestHandedBurst: the maximum number of connections of a sandbox can arrive by its runner as by a
// socket, without a refusal for too many.
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

// openAway opens a task with an endpoint for a sandbox on another machine.
func (b *bed) openAway(t *testing.T, sandboxes *egress.Endpoints) broker.EgressEndpoint {
	t.Helper()
	x, err := sandboxes.Open(t.Context(), b.Principals[brokertest.Runner], b.task(t).Task.ID, broker.EgressEndpointSpec{Identity: broker.EndpointByRunner})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestHandedPace: a runner that opens connections without end is told to wait, and others are not.
//
//ebb:invariant I6 ebb limits how many connections per second a runner can forward for one sandbox
func TestHandedPace(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	sandboxes := b.away(t)
	x, theirs := b.openAway(t, sandboxes), b.openAway(t, sandboxes)
	enter := func(x broker.EgressEndpoint) error {
		give, err := sandboxes.Enter(t.Context(), b.Principals[brokertest.Runner], x.TaskID, x.ID)
		if err == nil {
			give(nil) // none waits: only the rate counts
		}
		return err
	}
	if before := sandboxes.Pace(x.TaskID, x.ID, rate.NewLimiter(0, 3)); before.Limit() != 100 || before.Burst() != 128 {
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
		t.Errorf("another sandbox: %v", err)
	}
}

// TestHandedWaitOfAll: the waiting connections of all sandboxes are limited together, and one that
// stops waiting frees a place.
func TestHandedWaitOfAll(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	sandboxes := b.away(t)
	if before := sandboxes.Wait(2); before != 512 {
		t.Errorf("%d may wait", before)
	}
	enter := func() (func(net.Conn), error) {
		x := b.openAway(t, sandboxes)
		return sandboxes.Enter(t.Context(), b.Principals[brokertest.Runner], x.TaskID, x.ID)
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

// TestHandedOverTLS: the end of an endpoint does not wait for a runner that does not read the
// close_notify of a connection.
//
//ebb:invariant I6 Closing the egress endpoint of a remote sandbox does not wait for a TLS close_notify on its connections
func TestHandedOverTLS(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	sandboxes, who := b.away(t), b.Principals[brokertest.Runner]
	s := b.task(t)
	x, err := sandboxes.Open(t.Context(), who, s.Task.ID, broker.EgressEndpointSpec{Identity: broker.EndpointByRunner})
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
	enter, err := sandboxes.Enter(t.Context(), who, s.Task.ID, x.ID)
	if err != nil {
		t.Fatal(err)
	}
	enter(srv)
	_, _ = io.WriteString(c, "GET /sandbox HTTP/1.1\r\nHost: box\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil {
		_, err = io.ReadAll(res.Body)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sandboxes.Shut(t.Context(), who, s.Task.ID, x.ID); err != nil {
		t.Fatal(err)
	}
	_ = here.SetReadDeadline(time.Now().Add(patience))
	if rest, err := io.ReadAll(here); len(rest) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the end of the endpoint: a close_notify, or no end: %x, %v", rest, err)
	}
}
