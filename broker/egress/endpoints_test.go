package egress_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/egress"
)

// kinds returns the audit log entries about the endpoints of a task, in order.
func (b *bed) kinds(t *testing.T, task string) (out []string) {
	t.Helper()
	es, err := b.Broker.Entries(t.Context(), b.Principals[brokertest.Auditor], broker.EntryFilter{TaskID: task, Kind: "box."})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range es {
		if err != nil {
			t.Fatal(err)
		}
		var data struct{ Why string }
		_ = json.Unmarshal(e.Data, &data)
		out = append(out, strings.TrimSpace(e.Kind+" "+data.Why))
	}
	return out
}

// until waits for the effect of another goroutine.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// An endpoint is open until the end of its task, describes itself, and forwards requests that
// leases of the task cover.
func TestEndpointLives(t *testing.T) {
	t.Parallel()
	b := newBed(t, ticks)
	x, sandbox := b.opened(t, "")
	if sandbox.State != broker.EndpointOpen || sandbox.TaskID != x.s.Task.ID || !strings.HasPrefix(sandbox.ID, "egr_") {
		t.Errorf("opened: %+v", sandbox)
	}
	for path, want := range map[string]os.FileMode{sandbox.Socket: 0o666, filepath.Dir(sandbox.Socket): 0o711, filepath.Dir(filepath.Dir(sandbox.Socket)): 0o700} {
		if at, err := os.Stat(path); err != nil || at.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %o", path, at, err, want)
		}
	}
	p := x.placeholder(t, "stripe:charges:read")
	var said struct {
		TaskID      string `json:"task_id"`
		CA          string
		Credentials []struct {
			Placeholder, Provider string
			Scopes                []string
		}
	}
	out := raw(t, x, "GET /sandbox HTTP/1.1\r\nHost: box\r\nConnection: close\r\n\r\n")
	_, body, _ := strings.Cut(out, "\r\n\r\n")
	if err := json.Unmarshal([]byte(body), &said); err != nil || said.TaskID != x.s.Task.ID || said.CA != sandbox.CA || len(said.Credentials) != 1 ||
		said.Credentials[0].Placeholder != p || said.Credentials[0].Scopes[0] != "stripe:charges:read" {
		t.Errorf("/sandbox: %v %q", err, out)
	}
	events := x.stream(t, p)
	other, _ := b.opened(t, "")
	theirs := other.stream(t, other.placeholder(t, "stripe:charges:read"))
	if _, err := b.Broker.CompleteTask(t.Context(), b.Principals[brokertest.Runner], x.s.Task.ID, 0); err != nil {
		t.Fatal(err)
	}
	cut(t, "completed", events)
	until(t, "its socket is gone", func() bool { _, err := os.Lstat(filepath.Dir(sandbox.Socket)); return errors.Is(err, os.ErrNotExist) })
	until(t, "it is in the audit log", func() bool { return fmt.Sprint(b.kinds(t, x.s.Task.ID)) == "[box.opened box.closed task]" })
	if line, err := theirs.ReadString('\n'); err != nil {
		t.Errorf("another task's stream: %q, %v", line, err)
	}
	if _, err := b.sandboxes.Open(t.Context(), b.Principals[brokertest.Runner], x.s.Task.ID, broker.EgressEndpointSpec{}); broker.AsError(err).Kind != broker.Conflict {
		t.Errorf("an endpoint of a completed task: %v", err)
	}
}

// Only the runner that opened the task may use its endpoints, and each tool may use only its own
// leases.
func TestEndpointIsOfItsRunnerAndTool(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x, sandbox := b.opened(t, "git")
	mine, other := b.Principals[brokertest.Runner], b.Principals[brokertest.Runner2]
	for name, try := range map[string]func() error{
		"opens": func() error {
			_, err := b.sandboxes.Open(t.Context(), other, x.s.Task.ID, broker.EgressEndpointSpec{})
			return err
		},
		"registers": func() error {
			_, err := b.sandboxes.Register(t.Context(), other, x.s.Task.ID, sandbox.ID, 7)
			return err
		},
		"closes": func() error { _, err := b.sandboxes.Shut(t.Context(), other, x.s.Task.ID, sandbox.ID); return err },
	} {
		if err := try(); broker.AsError(err).Kind != broker.NotFound {
			t.Errorf("another runner %s: %v", name, err)
		}
	}
	if _, err := b.sandboxes.Open(t.Context(), mine, x.s.Task.ID, broker.EgressEndpointSpec{Tool: "no tool"}); broker.AsError(err).Kind != broker.Invalid {
		t.Errorf("a tool with a space: %v", err)
	}
	r := x.s.Request(t, "stripe:charges:read")
	r.Tool = "curl"
	tok, err := b.Broker.Token(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if res, body := send(t, x.client(t, false), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+tok.Token.Reveal()); res.StatusCode != 401 || !strings.Contains(body, "no_credential") {
		t.Errorf("E77: another tool's placeholder: %s %q", res.Status, body)
	}
	if res, _ := send(t, x.client(t, false), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+x.placeholder(t, "stripe:charges:read")); res.StatusCode != 200 {
		t.Errorf("any tool's: %s", res.Status)
	}
	for range 7 {
		if _, err := b.sandboxes.Open(t.Context(), mine, x.s.Task.ID, broker.EgressEndpointSpec{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.sandboxes.Open(t.Context(), mine, x.s.Task.ID, broker.EgressEndpointSpec{}); broker.AsError(err).Kind != broker.Conflict {
		t.Errorf("a ninth: %v", err)
	}
	if got, err := b.sandboxes.Shut(t.Context(), mine, x.s.Task.ID, sandbox.ID); err != nil || got.State != broker.EndpointClosed {
		t.Errorf("closed: %+v, %v", got, err)
	}
	if c, err := x.dial(); err == nil {
		_ = c.Close()
		t.Error("a closed endpoint has a socket")
	}
}

// Endpoints that are opened while their task ends are all closed when both are done.
func TestEndpointsRaceTheEnd(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	for range 8 {
		s := b.task(t)
		var wg sync.WaitGroup
		sockets := make(chan string, 16)
		for range 4 {
			wg.Go(func() {
				if sandbox, err := b.sandboxes.Open(t.Context(), b.Principals[brokertest.Runner], s.Task.ID, broker.EgressEndpointSpec{}); err == nil {
					sockets <- sandbox.Socket
				}
			})
		}
		wg.Go(func() {
			if _, err := b.Broker.CompleteTask(t.Context(), b.Principals[brokertest.Runner], s.Task.ID, 0); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		close(sockets)
		for path := range sockets {
			until(t, "the socket is gone", func() bool { _, err := os.Lstat(path); return errors.Is(err, os.ErrNotExist) })
		}
	}
}

// endsThen is a broker whose task ends just after TaskOver has returned false.
type endsThen struct {
	*core.Broker
	end func(lineage []string)
}

// TaskOver implements egress.Runners.
func (e endsThen) TaskOver(taskID string, above ...string) bool {
	over := e.Broker.TaskOver(taskID, above...)
	e.end(append([]string{taskID}, above...))
	return over
}

// An endpoint whose task, or a task above it, ends while the endpoint is opened is closed like any
// other: End finds it even before TaskOver is called.
//
//ebb:invariant I2 The end of a task closes its egress endpoints and those of tasks delegated below it, including endpoints that are just being opened
func TestEndpointWhoseTaskEndsAsItOpens(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	_, delegate := b.delegating(t)
	for name, of := range map[string]struct {
		task string
		end  int // index in its lineage
	}{"its own": {b.task(t).Task.ID, 0}, "a delegate's": {delegate.s.Task.ID, 0}, "one above": {delegate.s.Task.ID, 1}} {
		dir, err := os.MkdirTemp("", "ebb-egress-")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		runners := endsThen{b.Broker, func(lineage []string) { b.proxy.End(lineage[of.end]) }}
		sandboxes, err := egress.NewEndpoints(egress.EndpointsConfig{Proxy: b.proxy, Runners: runners, Dir: dir, Identity: broker.EndpointBySocket})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = sandboxes.Close() }()
		sandbox, err := sandboxes.Open(t.Context(), b.Principals[brokertest.Runner], of.task, broker.EgressEndpointSpec{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		until(t, "the socket is gone: "+name, func() bool { _, err := os.Lstat(filepath.Dir(sandbox.Socket)); return errors.Is(err, os.ErrNotExist) })
	}
}
