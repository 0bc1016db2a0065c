package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

// again is an ebb that can be stopped and started again at the same address.
type again struct {
	*outBed
	cmd   *exec.Cmd
	hides string // directory hidden from runs; "" = none
}

func newAgain(t *testing.T, env ...string) *again {
	t.Helper()
	b := &again{outBed: newOutBed(t)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.env = append(env, "EBB_LISTEN="+l.Addr().String())
	_ = l.Close()
	b.start()
	t.Cleanup(func() { b.end(syscall.SIGKILL) })
	b.put()
	return b
}

// start starts ebb, and returns when it responds.
func (b *again) start() {
	b.t.Helper()
	b.cmd = b.ebb("serve")
	b.cmd.Stderr = &b.stderr
	if err := b.cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if c, err := net.Dial("tcp", strings.TrimPrefix(b.env[len(b.env)-1], "EBB_LISTEN=")); err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("ebb did not get ready:\n%s", b.stderr.String())
		}
	}
}

func (b *again) end(sig syscall.Signal) {
	_ = b.cmd.Process.Signal(sig)
	_ = b.cmd.Wait()
}

// looping is a run that requests the upstream again and again until a file
// "enough" exists, and writes a line for each response: curl's exit code and
// the status.
func (b *again) looping() (answers string, done func() (stderr string)) {
	b.t.Helper()
	args := []string{"run", "--scope", "shop:**:*", "--heartbeat", "60s", "--credential", "KEY=shop:orders:read", "--env", "HOST=" + b.host}
	b.hidden = b.hides
	cmd := b.ebb(append(args, "--", "sh", "-c", `until [ -e enough ]; do code=$(curl -sS -m 30 -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $KEY" https://$HOST/v1/loop 2>>errors); echo "$? $code" >>answers; done`)...)
	b.hidden = ""
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return filepath.Join(b.work, "answers"), func() string {
		if err := os.WriteFile(filepath.Join(b.work, "enough"), nil, 0o666); err != nil {
			b.t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			b.t.Errorf("the run ended with %v", err)
		}
		return stderr.String()
	}
}

// await waits until n more lines were written than before, and returns all of
// them.
func (b *again) await(answers string, before, n int) []string {
	b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		text, _ := os.ReadFile(answers)
		lines := strings.Fields(strings.ReplaceAll(strings.TrimSpace(string(text)), " ", "/"))
		if len(lines) >= before+n {
			return lines
		}
		if time.Now().After(end) {
			said, _ := os.ReadFile(filepath.Join(b.work, "errors"))
			b.t.Fatalf("%d answers: %v\n%s\nebb says:\n%s", len(lines), lines, said, b.stderr.String())
		}
	}
}

// TestRunSurvivesRestarts: ebb is killed repeatedly under a loop of curl in a
// sandbox, on this machine and as if on another. A restart loses only the
// request that is running, which the sandbox sees as a broken connection or as
// 503.
//
//ebb:invariant I2 A restart of ebb loses only the requests in flight: `ebb run` reopens the egress endpoint for later connections
func TestRunSurvivesRestarts(t *testing.T) {
	t.Parallel()
	t.Run("here", func(t *testing.T) {
		t.Parallel()
		b := newAgain(t)
		b.survives(t, 14)
		if record := b.must(b.ebb("audit", "list", "--kind", "box.", "-o", "json")); strings.Contains(record, "box.stranger") || !strings.Contains(record, "box.registered") {
			t.Errorf("on the record: %s", record)
		}
	})
	t.Run("on another machine", func(t *testing.T) {
		t.Parallel()
		dir, err := os.MkdirTemp("", "ebb-far-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		b := newAgain(t, "EBB_EGRESS_DIR="+dir, "EBB_EGRESS_REMOTE=true")
		b.hides = dir
		b.survives(t, 6)
	})
}

func (b *again) survives(t *testing.T, restarts int) {
	t.Helper()
	answers, done := b.looping()
	lines := b.await(answers, 0, 2)
	for range restarts {
		b.end(syscall.SIGKILL)
		b.start()
		lines = b.await(answers, len(lines), 2)
	}
	stderr := done()
	lost := 0
	for _, line := range lines {
		if line != "0/200" {
			lost++
		}
	}
	if last := lines[len(lines)-1]; lost > restarts || last != "0/200" {
		said, _ := os.ReadFile(filepath.Join(b.work, "errors"))
		t.Errorf("%d of %d requests are lost in %d restarts: %v\n%s%s", lost, len(lines), restarts, lines, said, stderr)
	}
}

// kills is how often TestKilledUnderLoad kills ebb. EBB_TEST_KILLS sets it for a longer run.
const kills = 6

// TestKilledUnderLoad kills ebb repeatedly while eight loops in a sandbox send requests. Every request
// that the upstream received must be in the audit log.
//
//ebb:invariant I11 After kill -9 under load the audit log has every egress request that the upstream received
func TestKilledUnderLoad(t *testing.T) {
	t.Parallel()
	b := newAgain(t)
	cmd := b.ebb("run", "--scope", "shop:**:*", "--heartbeat", "60s", "--credential", "KEY=shop:orders:read", "--env", "HOST="+b.host, "--", "sh", "-c",
		`for i in 1 2 3 4 5 6 7 8; do (n=0; until [ -e enough ]; do n=$((n+1)); curl -sS -m 30 -o /dev/null -H "Authorization: Bearer $KEY" https://$HOST/v1/load/$i/$n 2>/dev/null; done) & done; wait`)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	received := func() map[string]bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		all := map[string]bool{}
		for _, r := range b.seen {
			all[r.URL.Path] = true
		}
		return all
	}
	await := func(n int) {
		for end := time.Now().Add(patience); len(received()) < n; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("the upstream received %d requests, want %d\nebb says:\n%s", len(received()), n, b.stderr.String())
			}
		}
	}
	times := kills
	if text := os.Getenv("EBB_TEST_KILLS"); text != "" {
		var err error
		if times, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for range times {
		await(len(received()) + 1 + rand.IntN(40))
		b.end(syscall.SIGKILL)
		b.start()
	}
	await(len(received()) + 8)
	if err := os.WriteFile(filepath.Join(b.work, "enough"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the run ended with %v", err)
	}
	recorded := map[string]bool{}
	export := filepath.Join(b.home, "export.jsonl")
	b.must(b.ebb("audit", "export", "-f", export))
	b.must(b.ebb("audit", "verify", export))
	text, err := os.ReadFile(export)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var e audit.Entry
		var x broker.Exchange
		if json.Unmarshal([]byte(line), &e) != nil || e.Kind != audit.EgressAllowed { // the first and last lines are no entries
			continue
		}
		if err := json.Unmarshal(e.Data, &x); err != nil {
			t.Fatal(err)
		}
		recorded[x.Path] = true
	}
	all := received()
	for path := range all {
		if !recorded[path] {
			t.Errorf("the upstream received %s, which the audit log does not have", path)
		}
	}
	t.Logf("%d kills, %d requests at the upstream, %d on the audit log", times, len(all), len(recorded))
}
