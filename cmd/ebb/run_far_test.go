package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newFarOut is an outBed whose ebb makes sockets that nobody else on this machine finds, as if it were on
// another.
func newFarOut(t *testing.T, remote string) *outBed {
	t.Helper()
	b := newOutBed(t)
	dir, err := os.MkdirTemp("", "ebb-far-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b.env = []string{"EBB_EGRESS_DIR=" + dir, "EBB_EGRESS_REMOTE=" + remote}
	b.serve()
	b.put()
	b.hidden = dir
	return b
}

// TestRunFar: a box whose ebb is on another machine goes out by its runner, and its credential is added
// at that ebb; the record says how the box was known.
func TestRunFar(t *testing.T) {
	t.Parallel()
	b := newFarOut(t, "true")
	out, stderr := b.run(`curl -sS --fail -H "Authorization: Bearer $KEY" https://$HOST/v1/far; curl -sS -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $KEY" https://$HOST/other`)
	if !strings.Contains(out, "/v1/far by Bearer ") || !strings.HasSuffix(out, "403") {
		t.Errorf("%s%s", out, stderr)
	}
	if got := b.authorizations("/v1/far"); len(got) != 1 || got[0] != "Bearer "+runCanary {
		t.Errorf("arrived: %q", got)
	}
	if !strings.Contains(stderr, "1 credential(s) revoked") {
		t.Errorf("it says at the end\n%s", stderr)
	}
	if record := b.must(b.ebb("audit", "list", "--kind", "box.opened", "-o", "json")); !strings.Contains(record, `"identity":"runner"`) && !strings.Contains(record, `"identity": "runner"`) {
		t.Errorf("on the record: %s", record)
	}
}

// TestRunFarIsAsked: an ebb that carries no boxes of other machines leaves them without a way out, and
// the run says what to do.
func TestRunFarIsAsked(t *testing.T) {
	t.Parallel()
	b := newFarOut(t, "false")
	if out, stderr := b.runWithout(`echo in; curl -sS -m 5 https://$HOST/v1/far 2>&1 | head -c 40`); !strings.HasPrefix(out, "in") || !strings.Contains(stderr, "the box has no way out") || !strings.Contains(stderr, "egress.remote") {
		t.Errorf("%s%s", out, stderr)
	}
}

// TestEgressCommand: the way out of a sandbox that `ebb run` has not made, at a port of loopback, until its
// task ends.
func TestEgressCommand(t *testing.T) {
	t.Parallel()
	b := newFarOut(t, "true")
	var opened struct{ Task struct{ ID string } }
	if err := json.Unmarshal([]byte(b.must(b.ebb("task", "open", "--scope", "shop:**:*", "--heartbeat", "0", "-o", "json"))), &opened); err != nil || opened.Task.ID == "" {
		t.Fatal(opened, err)
	}
	ca := filepath.Join(b.work, "ca.pem")
	cmd := b.ebb("egress", opened.Task.ID, "--listen", "127.0.0.1:0", "--anybody", "--ca", ca, "-o", "json")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	var said struct{ Listen, Identity string }
	in := bufio.NewReader(stdout)
	if err := json.NewDecoder(in).Decode(&said); err != nil || said.Identity != "runner" {
		t.Fatalf("%+v, %v\n%s", said, err, stderr.String())
	}
	res, err := (&http.Client{Timeout: patience}).Get("http://" + said.Listen + "/box")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if pem, rerr := os.ReadFile(ca); err != nil || rerr != nil || !strings.Contains(string(body), opened.Task.ID) || !strings.HasPrefix(string(pem), "-----BEGIN CERTIFICATE") {
		t.Errorf("%s, %v, %v", body, err, rerr)
	}
	b.must(b.ebb("task", "complete", opened.Task.ID))
	if res, err := (&http.Client{Timeout: patience}).Get("http://" + said.Listen + "/box"); err == nil { // it hears of the end by this, before it looks
		_ = res.Body.Close()
	}
	ended := make(chan error, 1)
	go func() {
		_, _ = io.Copy(io.Discard, in)
		ended <- cmd.Wait()
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("it ended with %v\n%s", err, stderr.String())
		}
	case <-time.After(patience):
		t.Error("it outlives its task")
	}
}

// TestEgressFlags: what would be no sandbox's is refused before anything is opened.
func TestEgressFlags(t *testing.T) {
	t.Parallel()
	for _, f := range []farFlags{
		{}, {ca: "x"}, {ca: "x", dir: "/d", listen: "127.0.0.1:1"}, {ca: "x", dir: "/d"}, {ca: "x", dir: "/d", anybody: true, namespace: "/proc/1/ns/net"},
		{ca: "x", anybody: true, listen: "0.0.0.0:3128"}, {ca: "x", anybody: true, listen: "10.0.0.1:3128"}, {ca: "x", anybody: true, listen: ":3128"}, {ca: "x", anybody: true, listen: "localhost:3128"}, {ca: "x", listen: "127.0.0.1:1"}, {ca: "x", listen: "127.0.0.1:1", anybody: true, namespace: "/proc/1/ns/net"}, {listen: "127.0.0.1:1", anybody: true},
	} {
		if err := f.check(); err == nil {
			t.Errorf("%+v is taken", f)
		}
	}
	for _, f := range []farFlags{{ca: "x", dir: "/d", anybody: true}, {ca: "x", dir: "/d", namespace: "/proc/1/ns/net"}, {ca: "x", anybody: true, listen: "127.0.0.1:0"}, {ca: "x", anybody: true, listen: "[::1]:3128"}} {
		if err := f.check(); err != nil {
			t.Errorf("%+v: %v", f, err)
		}
	}
}
