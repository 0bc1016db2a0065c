package egress_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/redisstore/redistest"
)

// ticks is an upstream whose responses do not end.
func ticks(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		_, _ = io.WriteString(w, "data: tick\n\n")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(time.Millisecond)
	}
}

// stream opens an endless response and reads its first line.
func (x *sandbox) stream(t *testing.T, placeholder string) *bufio.Reader {
	t.Helper()
	return x.streamBy(t, x.client(t, false), placeholder)
}

// streamBy is stream with a given client.
func (x *sandbox) streamBy(t *testing.T, c *http.Client, placeholder string) *bufio.Reader {
	t.Helper()
	lines, err := x.begin(t, c, placeholder)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// begin is streamBy with a credential that may have expired.
func (x *sandbox) begin(t *testing.T, c *http.Client, placeholder string) (*bufio.Reader, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+x.b.host+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+placeholder)
	res, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	lines := bufio.NewReader(res.Body)
	if line, err := lines.ReadString('\n'); err != nil || res.StatusCode != 200 || line != "data: tick\n" {
		return nil, fmt.Errorf("%s, %q, %w", res.Status, line, err)
	}
	return lines, nil
}

// cut waits for the end of a stream, which must not look complete.
func cut(t *testing.T, what string, r io.Reader) {
	t.Helper()
	if _, err := io.Copy(io.Discard, r); err == nil {
		t.Errorf("%s: the stream ended as if all had come", what)
	}
}

// E100: revocation, pause and the end of a task disconnect their requests. The endpoint of a paused
// task is there when the task is resumed.
func TestCutMidStream(t *testing.T) {
	t.Parallel()
	b := newBed(t, ticks)
	ops := b.Principals[brokertest.Operator]
	x, _ := b.opened(t, "")
	tok, err := x.s.Ask(t, "stripe:charges:read")
	if err != nil {
		t.Fatal(err)
	}
	events := x.stream(t, tok.Token.Reveal())
	if _, err := b.Broker.RevokeLease(t.Context(), ops, tok.LeaseID, "test"); err != nil {
		t.Fatal(err)
	}
	cut(t, "revoked", events)
	p := x.placeholder(t, "stripe:charges:read")
	events = x.stream(t, p)
	if _, err := b.Broker.PauseTask(t.Context(), ops, x.s.Task.ID, "look"); err != nil {
		t.Fatal(err)
	}
	cut(t, "paused", events)
	if res, body := send(t, x.client(t, false), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p); res.StatusCode != 401 || !strings.Contains(body, "no_credential") {
		t.Errorf("while it is paused: %s %q", res.Status, body)
	}
	if _, err := b.Broker.ResumeTask(t.Context(), ops, x.s.Task.ID); err != nil {
		t.Fatal(err)
	}
	x.stream(t, p)
	// The expiry of a credential disconnects as well (I4).
	x.brief(t, "stripe:charges:read", func(tok broker.Token) (err error) {
		events, err = x.begin(t, x.client(t, false), tok.Token.Reveal())
		return err
	})
	cut(t, "expired", events)
}

// streamDespiteDoubts is stream at a broker that listens to its Redis. On a busy machine the broker
// may lose its subscription and disconnect a stream that has just begun.
func (x *sandbox) streamDespiteDoubts(t *testing.T, placeholder string) (lines *bufio.Reader) {
	t.Helper()
	until(t, "an answer begins", func() (begun bool) {
		var err error
		lines, err = x.begin(t, x.client(t, false), placeholder)
		return err == nil
	})
	return lines
}

// E100 and E102: two replicas share a real Redis. An end or pause at one disconnects the requests
// at the other, and when Redis is gone all requests are disconnected.
func TestCutFromAnotherReplica(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t)
	prefix := "egress-" + rand.Text()
	b := newBedOn(t, ticks, func(c *brokertest.Config) { c.LiveStore, c.Run = liveStore(t, server.Addr, prefix), true })
	there := b.Config
	there.LiveStore, there.Registerer = liveStore(t, server.Addr, prefix), nil
	replica, err := core.New(t.Context(), there)
	if err != nil {
		t.Fatal(err)
	}
	ops := b.Principals[brokertest.Operator]
	for what, end := range map[string]func(task, lease string) error{
		"completed": func(task, _ string) error { _, err := replica.CompleteTask(t.Context(), ops, task, 0); return err },
		"paused":    func(task, _ string) error { _, err := replica.PauseTask(t.Context(), ops, task, "look"); return err },
		"revoked": func(_, lease string) error {
			_, err := replica.RevokeLease(t.Context(), ops, lease, "test")
			return err
		},
	} {
		x, _ := b.opened(t, "")
		tok, err := x.s.Ask(t, "stripe:charges:read")
		if err != nil {
			t.Fatal(err)
		}
		events := x.streamDespiteDoubts(t, tok.Token.Reveal())
		if err := end(x.s.Task.ID, tok.LeaseID); err != nil {
			t.Fatal(err)
		}
		cut(t, what+" at another replica", events)
	}
	x, _ := b.opened(t, "")
	p := x.placeholder(t, "stripe:charges:read")
	events := x.streamDespiteDoubts(t, p)
	server.Kill()
	if res, body := send(t, x.client(t, false), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p); res.StatusCode != 503 || !strings.Contains(body, "unavailable") {
		t.Errorf("without Redis: %s %q", res.Status, body)
	}
	cut(t, "without Redis", events)
}

// sure forwards all disconnections except Doubt, which a busy machine can cause.
type sure struct{ kernel.RevocationListener }

func (sure) Doubt() {}

// A pause that was lifted before a replica hears of it disconnects nothing: the feed repeats old
// pauses to new subscribers.
func TestOldPauses(t *testing.T) {
	t.Parallel()
	b := newBed(t, ticks)
	ops := b.Principals[brokertest.Operator]
	x, _ := b.opened(t, "")
	p := x.placeholder(t, "stripe:charges:read")
	if _, err := b.Broker.PauseTask(t.Context(), ops, x.s.Task.ID, "look"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Broker.ResumeTask(t.Context(), ops, x.s.Task.ID); err != nil {
		t.Fatal(err)
	}
	lines := x.stream(t, p)
	evs, _, err := b.Broker.Follow(t.Context(), ops, "", 100, 0)
	if err != nil || len(evs) != 0 {
		t.Errorf("resource servers hear of a pause: %v, %v", evs, err)
	}
	other, _ := b.opened(t, "")
	tok, err := other.s.Ask(t, "stripe:charges:read")
	if err != nil {
		t.Fatal(err)
	}
	later := other.stream(t, tok.Token.Reveal())
	if _, err := b.Config.LiveStore.EndLease(t.Context(), broker.LiveLease{ID: tok.LeaseID, TaskID: other.s.Task.ID, ExpiresAt: time.Now().Add(time.Minute)}, time.Now()); err != nil {
		t.Fatal(err)
	}
	b.Broker.Cut(sure{b.sandboxes})
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = b.Broker.Run(ctx) })
	defer func() { stop(); wg.Wait() }()
	cut(t, "what the feed told after the pause", later)
	for range 10 {
		if _, err := lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
}

// The end of a task disconnects its streams, and no more data arrives. Other tasks are not
// affected.
//
//ebb:invariant I2 The end of a task disconnects its open egress streams
//ebb:invariant I8 An upstream connection is never used for the credentials of two leases
func TestEndCutsStreams(t *testing.T) {
	t.Parallel()
	b := newBed(t, ticks)
	for _, h2 := range []bool{false, true} {
		x, other := b.sandbox(t), b.sandbox(t)
		open := func(x *sandbox) *bufio.Reader {
			return x.streamBy(t, x.client(t, h2), x.placeholder(t, "stripe:charges:read"))
		}
		mine, theirs := open(x), open(other)
		if n := b.proxy.End(x.s.Task.ID); n == 0 {
			t.Error("nothing was disconnected")
		}
		if _, err := io.Copy(io.Discard, mine); err == nil {
			t.Error("the stream ended as if all had come")
		}
		if err := <-x.ended; !errors.Is(err, egress.ErrOver) {
			t.Errorf("Serve: %v", err)
		}
		if c, err := x.dial(); err == nil {
			_ = c.Close()
			t.Error("the endpoint is still open")
		}
		for range 10 {
			if _, err := theirs.ReadString('\n'); err != nil {
				t.Fatalf("the stream of another task: %v", err)
			}
		}
	}
}

// E77: after the end of a lease, the next request is refused, and its streams are disconnected.
//
//ebb:invariant I2 The egress proxy uses no lease that has expired or was revoked
func TestLeaseEnds(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x := b.sandbox(t)
	tok, err := x.s.Ask(t, "stripe:charges:read")
	if err != nil {
		t.Fatal(err)
	}
	p, c := tok.Token.Reveal(), x.client(t, false)
	if res, body := send(t, c, "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p); res.StatusCode != 200 {
		t.Fatal(res.Status, body)
	}
	if _, err := b.Broker.RevokeLease(t.Context(), b.Principals["ops"], tok.LeaseID, "test"); err != nil {
		t.Fatal(err)
	}
	if res, body := send(t, c, "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p); res.StatusCode != 401 || !strings.Contains(body, "no_credential") {
		t.Errorf("revoked: %s %q", res.Status, body)
	}
	if _, err := b.Broker.CompleteTask(t.Context(), b.Principals["ci"], x.s.Task.ID, 0); err != nil {
		t.Fatal(err)
	}
	if c, err := x.dial(); err == nil {
		_ = c.Close()
		t.Error("the endpoint of a completed task is open")
	}
}
