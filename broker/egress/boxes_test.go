package egress_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/brokertest"
	"ebb/broker/redisstore/redistest"
)

// ticks is an upstream whose answers go on.
func ticks(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		_, _ = io.WriteString(w, "data: tick\n\n")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(time.Millisecond)
	}
}

// stream opens an answer that goes on, and has read its first line.
func (x *box) stream(t *testing.T, placeholder string) *bufio.Reader {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+x.b.host+"/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+placeholder)
	res, err := x.client(t, false).Do(r)
	if err != nil || res.StatusCode != 200 {
		t.Fatal(res, err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	lines := bufio.NewReader(res.Body)
	if line, err := lines.ReadString('\n'); err != nil || line != "data: tick\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return lines
}

// cut waits for the end of a stream, which must be one that nobody takes for whole.
func cut(t *testing.T, what string, r io.Reader) {
	t.Helper()
	if _, err := io.Copy(io.Discard, r); err == nil {
		t.Errorf("%s: the stream ended as if all had come", what)
	}
}

// kinds are the entries about boxes of a task, in order.
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

// until waits for what another goroutine does.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// A box is open from its opening to the end of its task, knows what it is, and lets
// out what its task has credentials for.
func TestBoxLives(t *testing.T) {
	t.Parallel()
	b := newBed(t, ticks)
	x, box := b.opened(t, "")
	if box.State != broker.BoxOpen || box.TaskID != x.s.Task.ID || !strings.HasPrefix(box.ID, "box_") {
		t.Errorf("opened: %+v", box)
	}
	for path, want := range map[string]os.FileMode{box.Socket: 0o666, filepath.Dir(box.Socket): 0o711, filepath.Dir(filepath.Dir(box.Socket)): 0o700} {
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
	out := raw(t, x, "GET /box HTTP/1.1\r\nHost: box\r\nConnection: close\r\n\r\n")
	_, body, _ := strings.Cut(out, "\r\n\r\n")
	if err := json.Unmarshal([]byte(body), &said); err != nil || said.TaskID != x.s.Task.ID || said.CA != box.CA || len(said.Credentials) != 1 ||
		said.Credentials[0].Placeholder != p || said.Credentials[0].Scopes[0] != "stripe:charges:read" {
		t.Errorf("/box: %v %q", err, out)
	}
	events := x.stream(t, p)
	other, _ := b.opened(t, "")
	theirs := other.stream(t, other.placeholder(t, "stripe:charges:read"))
	if _, err := b.Broker.CompleteTask(t.Context(), b.Principals[brokertest.Runner], x.s.Task.ID, 0); err != nil {
		t.Fatal(err)
	}
	cut(t, "completed", events)
	until(t, "its socket is gone", func() bool { _, err := os.Lstat(filepath.Dir(box.Socket)); return errors.Is(err, os.ErrNotExist) })
	until(t, "it is on the record", func() bool { return fmt.Sprint(b.kinds(t, x.s.Task.ID)) == "[box.opened box.closed task]" })
	if line, err := theirs.ReadString('\n'); err != nil {
		t.Errorf("another task's stream: %q, %v", line, err)
	}
	if _, err := b.boxes.Open(t.Context(), b.Principals[brokertest.Runner], x.s.Task.ID, ""); broker.AsError(err).Kind != broker.Conflict {
		t.Errorf("a box of a task that is complete: %v", err)
	}
}

// Whose box it is says who opened the task; tools keep to their own credentials.
func TestBoxIsOfItsRunnerAndTool(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	x, box := b.opened(t, "git")
	mine, other := b.Principals[brokertest.Runner], b.Principals[brokertest.Runner2]
	for name, try := range map[string]func() error{
		"opens":     func() error { _, err := b.boxes.Open(t.Context(), other, x.s.Task.ID, ""); return err },
		"registers": func() error { _, err := b.boxes.Register(t.Context(), other, x.s.Task.ID, box.ID, 7); return err },
		"closes":    func() error { _, err := b.boxes.Shut(t.Context(), other, x.s.Task.ID, box.ID); return err },
	} {
		if err := try(); broker.AsError(err).Kind != broker.NotFound {
			t.Errorf("another runner %s: %v", name, err)
		}
	}
	if _, err := b.boxes.Open(t.Context(), mine, x.s.Task.ID, "no tool"); broker.AsError(err).Kind != broker.Invalid {
		t.Errorf("a tool with a space: %v", err)
	}
	r := x.s.Request(t, "stripe:charges:read")
	r.Tool = "curl"
	tok, err := b.Broker.Token(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if res, body := send(t, x.client(t, false), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+tok.Token.Reveal()); res.StatusCode != 401 || !strings.Contains(body, "no_credential") {
		t.Errorf("77: another tool's placeholder: %s %q", res.Status, body)
	}
	if res, _ := send(t, x.client(t, false), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+x.placeholder(t, "stripe:charges:read")); res.StatusCode != 200 {
		t.Errorf("any tool's: %s", res.Status)
	}
	for range 7 {
		if _, err := b.boxes.Open(t.Context(), mine, x.s.Task.ID, ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.boxes.Open(t.Context(), mine, x.s.Task.ID, ""); broker.AsError(err).Kind != broker.Conflict {
		t.Errorf("a ninth: %v", err)
	}
	if got, err := b.boxes.Shut(t.Context(), mine, x.s.Task.ID, box.ID); err != nil || got.State != broker.BoxClosed {
		t.Errorf("closed: %+v, %v", got, err)
	}
	if c, err := x.dial(); err == nil {
		_ = c.Close()
		t.Error("a closed box has a socket")
	}
}

// Boxes that open while their task ends are all gone when both are done.
func TestBoxesRaceTheEnd(t *testing.T) {
	t.Parallel()
	b := newBed(t, echo)
	for range 8 {
		s := b.task(t)
		var wg sync.WaitGroup
		sockets := make(chan string, 16)
		for range 4 {
			wg.Go(func() {
				if box, err := b.boxes.Open(t.Context(), b.Principals[brokertest.Runner], s.Task.ID, ""); err == nil {
					sockets <- box.Socket
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

// 100: what is revoked, paused or over is cut; a paused task's box is there when it is
// resumed.
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
	// A credential that has its whole time is cut then, too (I4).
	r := x.s.Request(t, "stripe:charges:read")
	r.TTL = 2 * time.Second
	if tok, err = b.Broker.Token(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	cut(t, "expired", x.stream(t, tok.Token.Reveal()))
}

// Two replicas share a real Redis: what ends or pauses at one cuts what goes on at the
// other, and when Redis is gone nothing goes on.
func TestCutFromAnotherReplica(t *testing.T) {
	t.Parallel()
	server := redistest.Run(t)
	prefix := "egress-" + rand.Text()
	b := newBedOn(t, ticks, func(c *brokertest.Config) { c.Ledger, c.Run = ledger(t, server.Addr, prefix), true })
	there := b.Config
	there.Ledger, there.Registerer = ledger(t, server.Addr, prefix), nil
	replica, err := broker.New(t.Context(), there)
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
		events := x.stream(t, tok.Token.Reveal())
		if err := end(x.s.Task.ID, tok.LeaseID); err != nil {
			t.Fatal(err)
		}
		cut(t, what+" at another replica", events)
	}
	x, _ := b.opened(t, "")
	p := x.placeholder(t, "stripe:charges:read")
	events := x.stream(t, p)
	server.Kill()
	if res, body := send(t, x.client(t, false), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p); res.StatusCode != 503 || !strings.Contains(body, "unavailable") {
		t.Errorf("without Redis: %s %q", res.Status, body)
	}
	cut(t, "without Redis", events)
}

// A pause that was lifted before somebody hears of it cuts nothing: the feed tells old
// ones to who begins anew.
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
	if _, err := b.Config.Ledger.EndLease(t.Context(), broker.LiveLease{ID: tok.LeaseID, TaskID: other.s.Task.ID, ExpiresAt: time.Now().Add(time.Minute)}, time.Now()); err != nil {
		t.Fatal(err)
	}
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
