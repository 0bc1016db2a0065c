package egress_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/egress"
)

// upload begins a request with a body of two bytes and sends one of them.
func (x *sandbox) upload(t *testing.T, placeholder string) io.ReadWriter {
	t.Helper()
	c := x.inTunnel(t)
	_, _ = fmt.Fprintf(c, "POST /v1/charges HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: 2\r\n\r\na", x.b.host, placeholder)
	return c
}

func whole(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, _ = fmt.Fprintf(w, "got %q", body)
}

// E50 and E100: a client that stops in the middle of a body keeps neither its connection nor that
// to the upstream, whether by a timeout or by a pause of its task. A client that continues gets its
// response.
//
//ebb:invariant I12 The time for which a sandbox can keep an upstream waiting for a request body is limited
//ebb:invariant I12 A disconnection does not wait for a sandbox that is still sending a request body
func TestUploadsThatStop(t *testing.T) {
	t.Parallel()
	b := newBed(t, whole)
	b.with(t, func(c *egress.Config) { c.BodyTime = 300 * time.Millisecond })
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:write")
	if out, err := io.ReadAll(x.upload(t, p)); strings.Contains(string(out), "200") || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("half a body: %q, %v", out, err)
	}
	until(t, "the audit log has it as disconnected", func() bool {
		es := b.uses(t, x.s.Task.ID)
		return len(es) > 1 && es[len(es)-1].Kind == audit.EgressCompleted && strings.Contains(string(es[len(es)-1].Data), `"cut":true`)
	})
	b.with(t, func(c *egress.Config) { c.BodyTime = time.Hour })
	y := b.sandbox(t)
	sandboxes := b.openEndpoints(t, "socket")
	b.Broker.Cut(sandboxes)
	p = y.placeholder(t, "stripe:charges:write")
	c := y.upload(t, p)
	_, _ = io.WriteString(c, "b")
	answer := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(c, answer); err != nil || string(answer) != "HTTP/1.1 200" {
		t.Errorf("a whole body: %q, %v", answer, err)
	}
	c = y.upload(t, p)
	until(t, "it is running", func() bool { return len(b.uses(t, y.s.Task.ID)) > 2 })
	if _, err := b.Broker.PauseTask(t.Context(), b.Principals[brokertest.Operator], y.s.Task.ID, "look"); err != nil {
		t.Fatal(err)
	}
	if out, err := io.ReadAll(c); strings.Contains(string(out), "200") || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("paused in the middle of a body: %q, %v", out, err)
	}
}

// The response to a request with a body arrives whole, however soon the upstream begins it.
func TestResponseRightAfterTheBody(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for i := range 3 {
			_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
		}
	})
	x := b.sandbox(t)
	p := x.placeholder(t, "stripe:charges:write")
	c := x.client(t, false)
	for i := range 100 {
		_, body, err := try(t, c, http.MethodPost, "https://"+b.host+"/v1/charges", "amount=1", "Authorization", "Bearer "+p)
		if err != nil || strings.Count(body, "data: ") != 3 {
			t.Fatalf("response %d: %q, %v", i, body, err)
		}
	}
}
