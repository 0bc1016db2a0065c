package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/web/client"
)

// newFarOut is an outBed whose ebb creates its sockets where no other process
// of this machine finds them, as if it were on another machine.
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

// TestRunFar: a sandbox whose ebb is on another machine uses egress through its
// runner, and that ebb adds its credential; the audit log has how the sandbox
// was identified.
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

// TestRunFarIsAsked: an ebb without egress.remote opens no egress endpoint for
// it, and the run names the setting.
func TestRunFarIsAsked(t *testing.T) {
	t.Parallel()
	b := newFarOut(t, "false")
	if out, stderr := b.runWithout(`echo in; curl -sS -m 5 https://$HOST/v1/far 2>&1 | head -c 40`); !strings.HasPrefix(out, "in") || !strings.Contains(stderr, "the sandbox has no egress endpoint") || !strings.Contains(stderr, "egress.remote") {
		t.Errorf("%s%s", out, stderr)
	}
}

// TestRunFarSaysWhy: the run prints why a connection of its sandbox could not
// be forwarded.
func TestRunFarSaysWhy(t *testing.T) {
	t.Parallel()
	b := newFarOut(t, "true")
	cmd := b.ebb("run", "--scope", "shop:**:*", "--", "sh", "-c", `trap '' TERM; printf %s $EBB_TASK_ID >id.new; mv id.new id; until curl -sS -m 5 --noproxy '*' "$HTTPS_PROXY/sandbox" | grep -q unavailable; do sleep 0.1; done`)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	b.must(b.ebb("task", "complete", b.await("id"))) // ebb has closed the endpoint
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if n := strings.Count(stderr.String(), "ebb: a connection of the sandbox could not be forwarded: "); n != 1 {
		t.Errorf("said %d times:\n%s", n, stderr.String())
	}
}

// TestNotHandedOn: the reason of a failed connection is printed when it differs
// from the previous one.
func TestNotHandedOn(t *testing.T) {
	t.Parallel()
	var stderr strings.Builder
	c := &cli{stderr: &stderr}
	failed := (runReport{c}).notHandedOn()
	for _, why := range []string{"a", "a", "b\nc", "b\nc", "a"} {
		failed(errors.New(why))
	}
	const line = "ebb: a connection of the sandbox could not be forwarded: "
	if got, want := stderr.String(), line+"a\n"+line+out.Line("b\nc")+"\n"+line+"a\n"; got != want {
		t.Errorf("said\n%swant\n%s", got, want)
	}
}

// TestEgressCommand: the egress endpoint of a sandbox that `ebb run` did not
// create, at a port of loopback, until its task ends.
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
	res, err := (&http.Client{Timeout: patience}).Get("http://" + said.Listen + "/sandbox")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if pem, rerr := os.ReadFile(ca); err != nil || rerr != nil || !strings.Contains(string(body), opened.Task.ID) || !strings.HasPrefix(string(pem), "-----BEGIN CERTIFICATE") {
		t.Errorf("%s, %v, %v", body, err, rerr)
	}
	b.must(b.ebb("task", "complete", opened.Task.ID))
	if res, err := (&http.Client{Timeout: patience}).Get("http://" + said.Listen + "/sandbox"); err == nil { // the request makes it notice the end before it polls
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

// TestEgressSaysWhy: `ebb egress` logs why a connection could not be forwarded,
// and continues.
func TestEgressSaysWhy(t *testing.T) {
	t.Parallel()
	b := newFarBed(t)
	o, err := client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: b.url, HTTP: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/connect") {
			return nil, errors.New("a cable is cut")
		}
		return http.DefaultTransport.RoundTrip(r)
	})}}, ClientID: "runner", Key: b.keys["runner"]})
	if err != nil {
		t.Fatal(err)
	}
	shown, stdout := io.Pipe()
	var stderr strings.Builder
	c := &cli{stdout: stdout, stderr: &stderr, format: out.JSON}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- (egressCommand{c}).egressFar(ctx, o, b.task.ID, farFlags{listen: "127.0.0.1:0", anybody: true, ca: filepath.Join(t.TempDir(), "ca.pem")})
		_ = stdout.Close()
	}()
	var listener farEndpoint
	if err := json.NewDecoder(shown).Decode(&listener); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, shown) }()
	for range 2 {
		conn, err := net.Dial("tcp", listener.Listen)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		if heard, _ := io.ReadAll(conn); !strings.HasPrefix(string(heard), "HTTP/1.1 503 ") { // the response comes before a request, which http.Client does not accept
			t.Errorf("the sandbox hears %q", heard)
		}
		_ = conn.Close()
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := stderr.String(); !strings.Contains(got, `level=WARN msg="a connection of the sandbox could not be forwarded" error=`) || !strings.Contains(got, "a cable is cut") {
		t.Errorf("it logs\n%s", got)
	}
}

// TestEgressFlags: flags that would let others use the endpoint are refused
// before it is opened.
//
//ebb:invariant I6 A TCP egress endpoint listens only on a loopback address
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
