package client_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/web/client"
)

// patience limits the wait of a test for an expected event.
const patience = 2 * time.Minute

// held returns an enrolled sandbox whose connection breaks with the returned
// function, and the result of its Hold.
func held(t *testing.T, h *fixture, grace time.Duration) (s *client.Sandbox, task string, cut func(), done chan error) {
	t.Helper()
	made := &connected{yes: make(chan struct{})}
	task, s = h.enrolled(made)
	ctx, cancel := context.WithCancel(t.Context())
	done = make(chan error, 1)
	go func() { done <- s.Hold(ctx, grace) }()
	select { // a connection that was never made cannot break
	case <-made.yes:
	case err := <-done:
		t.Fatal("it gave up: ", err)
	case <-time.After(patience):
		t.Fatal("no connection was made")
	}
	return s, task, cancel, done
}

// connected reports that ebb accepted the first control connection.
type connected struct {
	yes  chan struct{}
	once sync.Once
}

func (c *connected) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && strings.HasSuffix(r.URL.Path, "/oauth2/hold") && resp.StatusCode == http.StatusOK {
		c.once.Do(func() { close(c.yes) })
	}
	return resp, err
}

// enrolled returns an open task and its sandbox, which reaches ebb through
// transport.
func (h *fixture) enrolled(transport http.RoundTripper) (string, *client.Sandbox) {
	h.t.Helper()
	spec := brokertest.Spec()
	task, ticket, err := h.env.Broker.OpenTask(h.t.Context(), h.env.Principals[brokertest.Runner], spec)
	if err != nil {
		h.t.Fatal(err)
	}
	s, err := client.NewSandbox(client.SandboxConfig{Config: client.Config{Issuer: h.issuer, HTTP: &http.Client{Transport: transport}}, Key: brokertest.NewKey(h.t)})
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := s.Enrol(h.t.Context(), ticket.Ticket); err != nil {
		h.t.Fatal(err)
	}
	return task.ID, s
}

func (h *fixture) task(id string) broker.Task {
	h.t.Helper()
	ts, err := h.env.Config.Store.Tasks(h.t.Context(), broker.TaskFilter{IDs: []string{id}})
	if err != nil || len(ts) != 1 {
		h.t.Fatal(len(ts), err)
	}
	return ts[0]
}

func (h *fixture) closes(id string, within time.Duration) bool {
	h.t.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if h.task(id).State == broker.TaskClosed {
			return true
		}
	}
	return false
}

// TestHoldBreaks: the task ends when the connection breaks.
func TestHoldBreaks(t *testing.T) {
	t.Parallel()
	h := newFixture(t, false)
	_, task, cut, done := held(t, h, 0)
	if h.task(task).State != broker.TaskOpen {
		t.Fatal("closed too early")
	}
	cut()
	if <-done == nil {
		t.Error("Hold says that the task ended in good order")
	}
	if !h.closes(task, patience) {
		t.Fatal("the task of a sandbox whose connection broke is open")
	}
	if got := h.task(task); got.Cause != broker.CauseExited || got.Reason != "connection_closed" {
		t.Errorf("got %s, %s", got.Cause, got.Reason)
	}
}

// TestHoldComesBack: a sandbox that reconnects within its grace period keeps
// its task.
func TestHoldComesBack(t *testing.T) {
	t.Parallel()
	const grace = 10 * time.Second
	h := newFixture(t, false)
	s, task, cut, done := held(t, h, grace)
	cut()
	<-done
	ctx, end := context.WithCancel(t.Context())
	again := make(chan error, 1)
	go func() { again <- s.Hold(ctx, time.Second) }()
	if h.closes(task, grace+2*time.Second) {
		t.Fatal("a sandbox that came back was taken for gone")
	}
	end()
	<-again
	if !h.closes(task, patience) {
		t.Error("the second connection broke, and the task is open")
	}
}

// TestHoldHearsTheEnd: Hold returns when the task ends.
func TestHoldHearsTheEnd(t *testing.T) {
	t.Parallel()
	h := newFixture(t, true)
	_, task, cut, done := held(t, h, 0)
	defer cut()
	if _, err := h.env.Broker.CompleteTask(t.Context(), h.env.Principals[brokertest.Runner], task, 0); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("the sandbox was not told")
	}
}

// TestHoldStrangers: only the sandbox can open a control connection, and too
// many connections are refused.
func TestHoldStrangers(t *testing.T) {
	t.Parallel()
	h := newFixture(t, false)
	task, s := h.enrolled(nil)
	en, err := client.NewSandbox(client.SandboxConfig{Config: client.Config{Issuer: h.issuer}, Key: brokertest.NewKey(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := en.Hold(t.Context(), 0); err == nil {
		t.Error("a sandbox that has not enrolled holds a connection")
	}
	if err := s.Hold(t.Context(), 2*time.Minute); err == nil {
		t.Error("too long a grace was taken")
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	results := make(chan error, 6)
	for range 6 {
		go func() { results <- s.Hold(ctx, 10*time.Second) }()
	}
	for range 2 {
		select {
		case err := <-results:
			if err == nil || ctx.Err() != nil {
				t.Errorf("got %v", err)
			}
		case <-time.After(patience):
			t.Fatal("more than four connections of one task are held")
		}
	}
	if h.task(task).State != broker.TaskOpen {
		t.Error("a refused connection ended the task")
	}
}

// busy answers the first calls for a control connection with 429, as for a task
// that exceeded its rate limit.
type busy struct{ left atomic.Int32 }

func (b *busy) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/oauth2/hold") && b.left.Add(-1) >= 0 {
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.WriteString(`{"error":"temporarily_unavailable"}`)
		resp := w.Result()
		resp.Request = r
		return resp, nil
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestHoldWhileBusy: a sandbox that has just hit a rate limit keeps its control
// connection, and with it its task.
func TestHoldWhileBusy(t *testing.T) {
	t.Parallel()
	h := newFixture(t, true)
	transport := &busy{}
	transport.left.Store(2)
	task, s := h.enrolled(transport)
	done := make(chan error, 1)
	go func() { done <- s.Hold(t.Context(), 0) }()
	for end := time.Now().Add(patience); transport.left.Load() >= 0 && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-done:
			t.Fatalf("it gave up: %v", err)
		default:
		}
	}
	if _, err := h.env.Broker.CompleteTask(t.Context(), h.env.Principals[brokertest.Runner], task, 0); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestHoldAfterTheEnd: a sandbox whose connection broke just before its task
// ended learns of the end when it reconnects.
func TestHoldAfterTheEnd(t *testing.T) {
	t.Parallel()
	h := newFixture(t, true)
	task, s := h.enrolled(nil)
	if _, err := h.env.Broker.CompleteTask(t.Context(), h.env.Principals[brokertest.Runner], task, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Hold(t.Context(), 0); err != nil {
		t.Error(err)
	}
}
