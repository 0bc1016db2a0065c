//go:build linux

package unixpeer_test

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/unixpeer"
)

func newAttestor(t testing.TB, c unixpeer.Config) *unixpeer.Attestor {
	t.Helper()
	if c.Name == "" {
		c.Name = "box"
	}
	if len(c.Require) == 0 {
		c.Require = []string{"pid", "start_time"}
	}
	a, err := unixpeer.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestSuite(t *testing.T) {
	t.Parallel()
	d, clock := newListener(t), attesttest.NewClock()
	attesttest.Run(t, attesttest.Suite{
		Attestor: newAttestor(t, unixpeer.Config{Now: clock.Now}), Clock: clock,
		Good: func(t *testing.T) attest.Evidence { e, _ := d.evidence(); e.Key = attesttest.NewKey(t); return e },
		Bad: map[string]func(t *testing.T) attest.Evidence{
			"over TCP": func(*testing.T) attest.Evidence { return attest.Evidence{Attestor: "box"} },
			"dead": func(*testing.T) attest.Evidence {
				e, c := d.evidence()
				c.kill()
				return e
			},
			"a document": func(*testing.T) attest.Evidence {
				e, _ := d.evidence()
				e.Document = []byte("pid=1")
				return e
			},
			"a huge document": func(*testing.T) attest.Evidence {
				e, _ := d.evidence()
				e.Document = bytes.Repeat([]byte("x"), attest.MaxDocument+1)
				return e
			},
		},
		NotApplicable: map[string]string{
			"wrong audience": "the socket is ebb's own: what connects to another ebb is not here",
			"wrong issuer":   "the kernel of this machine is the only one",
			"wrong key":      "the evidence names no key; the pipeline gives a process to the first key that it proves",
			"expired":        "a process has no end that it knows of; see dead",
			"not yet valid":  "a process that connects runs",
		},
		Down: func(t *testing.T) (attest.Attestor, attest.Evidence) {
			e, _ := d.evidence()
			return newAttestor(t, unixpeer.Config{Proc: t.TempDir()}), e
		},
		Lures: func(t *testing.T, url string) []attest.Evidence {
			e, _ := d.evidence()
			e.Channel.RemoteAddr = url
			lure := e
			lure.Document = []byte(url)
			return []attest.Evidence{e, lure}
		},
	})
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	d := newListener(t)
	a := newAttestor(t, unixpeer.Config{ExeDigest: true})
	e, c := d.evidence()
	var steps []string
	id, err := a.Attest(attest.WithTrace(t.Context(), func(s attest.Step) { steps = append(steps, s.Check) }), e)
	if err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(c.cmd.Process.Pid)
	if id.Class != attest.ClassKernel || id.Selectors["pid"] != pid || id.Selectors["uid"] != strconv.Itoa(os.Getuid()) || id.Selectors["gid"] != strconv.Itoa(os.Getgid()) {
		t.Errorf("got %+v", id)
	}
	if len(id.Selectors["exe_sha256"]) != 64 || id.Selectors["pidns"] == "" || id.Selectors["userns"] == "" {
		t.Errorf("got %v", id.Selectors)
	}
	// The child shares the network namespace of this process, so it has no selector netns.
	if id.Selectors["netns"] != "" || id.Selectors["cgroup"] != "" {
		t.Errorf("what ebb has too is taken for a sandbox's: %v", id.Selectors)
	}
	if !strings.HasSuffix(id.Subject, "/process/"+pid+"/"+id.Selectors["start_time"]) || !strings.HasPrefix(id.Subject, id.Selectors["host"]) {
		t.Errorf("got subject %q", id.Subject)
	}
	if len(steps) != 3 {
		t.Errorf("steps %q", steps)
	}
	// Two processes of one user are two pieces of evidence and two subjects.
	other, _ := d.evidence()
	if twin, err := a.Attest(t.Context(), other); err != nil || twin.Subject == id.Subject || twin.ReplayID == id.ReplayID ||
		attest.SelectorMatch(map[string]string{"pid": pid, "start_time": id.Selectors["start_time"]}, twin) == nil {
		t.Errorf("got %+v, %v", twin, err)
	}
}

func TestCannotJudge(t *testing.T) {
	t.Parallel()
	d := newListener(t)
	e, _ := d.evidence()
	for name, change := range map[string]func(p *attest.Peer){
		"no pidfd":         func(p *attest.Peer) { p.PIDFD = -1 },
		"another pid tree": func(p *attest.Peer) { p.PID = 0 },
		"a closed pidfd":   func(p *attest.Peer) { p.PIDFD = 1 << 20 },
	} {
		p := *e.Channel.Peer
		change(&p)
		if _, err := newAttestor(t, unixpeer.Config{}).Attest(t.Context(), of(&p)); err == nil || errors.Is(err, attest.ErrRejected) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A process without a required selector is rejected: it is not in a sandbox.
	for _, name := range []string{"container_id", "netns"} {
		_, err := newAttestor(t, unixpeer.Config{Require: []string{name}}).Attest(t.Context(), e)
		if attesttest.Reason(err) != attest.ReasonMeasurement {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A connection that is passed to another process identifies the process that connected.
// After that process has exited, the evidence is rejected.
func TestPassedOn(t *testing.T) {
	t.Parallel()
	d, a := newListener(t), newAttestor(t, unixpeer.Config{})
	c := start(t, "hand over", d.path)
	conn, p := d.accept()
	c.says("connected")
	id, err := a.Attest(t.Context(), of(p))
	if err != nil || id.Selectors["pid"] != strconv.Itoa(c.cmd.Process.Pid) {
		t.Fatalf("got %+v, %v", id, err)
	}
	c.kill()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	b := []byte("x")
	if _, err := conn.Write(b); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(b); err != nil {
		t.Fatalf("the heir does not speak: %v", err)
	}
	if _, err := a.Attest(t.Context(), of(p)); attesttest.Reason(err) != attest.ReasonExited {
		t.Errorf("the heir of a dead process: %v", err)
	}
}

// A zombie counts as exited, although kill(2) still succeeds for it.
func TestZombie(t *testing.T) {
	t.Parallel()
	d, a := newListener(t), newAttestor(t, unixpeer.Config{})
	// The shell executes a program that does not wait for its child.
	start(t, "stay", d.path, "sh", "-c", `"$0" & exec sleep 1000`)
	_, p := d.accept()
	if _, err := a.Attest(t.Context(), of(p)); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var err error
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, err = a.Attest(t.Context(), of(p)); err != nil {
			break
		}
	}
	if attesttest.Reason(err) != attest.ReasonExited {
		t.Errorf("a zombie: %v", err)
	}
	if _, err := os.Stat("/proc/" + strconv.Itoa(p.PID)); err != nil {
		t.Errorf("it was no zombie: %v", err)
	}
}
