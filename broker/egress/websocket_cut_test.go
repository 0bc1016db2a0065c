package egress_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// TestWebSocketsAreCut (E97, E100, E107): a WebSocket is disconnected by a pause, by an end, when
// it is idle, when the sandbox has sent too much, and when the upstream sends an invalid frame.
// Both ends see it, and the audit log has the reason.
//
//ebb:invariant I2 The end or a pause of its task, or the end or expiry of its lease, disconnects a WebSocket
//ebb:invariant I6 The audit log records why a WebSocket ended when the sandbox sent too much or the upstream sent an invalid frame
//ebb:invariant I12 The bytes that a sandbox sends in a WebSocket, and the time for which a WebSocket may be idle, are limited
func TestWebSocketsAreCut(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		with func(*egress.Config)
		cut  func(*sandbox, *websocket.Conn)
		why  stricturl.Reason
	}{
		"pause":            {func(*egress.Config) {}, func(x *sandbox, _ *websocket.Conn) { x.b.proxy.Pause(x.s.Task.ID) }, ""},
		"end":              {func(*egress.Config) {}, func(x *sandbox, _ *websocket.Conn) { x.b.proxy.End(x.s.Task.ID) }, ""},
		"doubt":            {func(*egress.Config) {}, func(x *sandbox, _ *websocket.Conn) { x.b.proxy.Doubt() }, ""},
		"idle":             {func(c *egress.Config) { c.SocketTime = 10 * time.Second }, func(*sandbox, *websocket.Conn) {}, ""},
		"much":             {func(c *egress.Config) { c.RequestBytes = 1 << 10 }, talk, egress.TooMuch},
		"much of its task": {func(c *egress.Config) { c.TaskBytes = 1 << 10 }, talk, egress.TooMuch},
		"no frame":         {func(*egress.Config) {}, func(_ *sandbox, ws *websocket.Conn) { _ = websocket.Message.Send(ws, "odd") }, egress.BadAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gone := make(chan error, 1)
			b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
				websocket.Server{Handler: func(c *websocket.Conn) {
					said := make([]byte, 512)
					n, err := c.Read(said)
					if string(said[:n]) == "odd" {
						c.PayloadType = 3 // reserved (RFC 6455 section 5.2)
						_, _ = c.Write(said)
					}
					if err == nil {
						_, err = io.Copy(io.Discard, c)
					}
					gone <- err
				}}.ServeHTTP(w, r)
			})
			b.with(t, tt.with)
			x := b.sandbox(t)
			ws, err := x.socketTo(t, "/ws/echo", "Bearer "+x.placeholder(t, "stripe:charges:listen"))
			if err != nil {
				t.Fatal(err)
			}
			tt.cut(x, ws)
			over(t, ws)
			ended(t, gone)
			var uses []audit.Entry
			until(t, "its end is in the audit log", func() bool { uses = b.uses(t, x.s.Task.ID); return len(uses) == 2 })
			var last broker.Exchange
			if err := json.Unmarshal(uses[1].Data, &last); err != nil || last.Reason != string(tt.why) || last.Cut != (tt.why == "") {
				t.Errorf("%s, %v", uses[1].Data, err)
			}
		})
	}
}

// talk sends more than a sandbox may in these tests.
func talk(_ *sandbox, ws *websocket.Conn) {
	for range 10 {
		_ = websocket.Message.Send(ws, strings.Repeat("x", 512))
	}
}

// over waits for the end of a WebSocket.
func over(t *testing.T, ws *websocket.Conn) {
	t.Helper()
	_ = ws.SetReadDeadline(time.Now().Add(patience))
	var timeout net.Error
	if err := websocket.Message.Receive(ws, new(string)); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("the sandbox still reads: %v", err)
	}
}

// ended waits until the upstream has seen the end of a WebSocket.
func ended(t *testing.T, gone <-chan error) {
	t.Helper()
	select {
	case <-gone:
	case <-time.After(patience):
		t.Fatal("the upstream reads on")
	}
}

// E100: a WebSocket ends with its lease, including by expiry of the lease.
//
//ebb:invariant I2 The end or a pause of its task, or the end or expiry of its lease, disconnects a WebSocket
func TestWebSocketsEndWithTheirLease(t *testing.T) {
	t.Parallel()
	gone := make(chan error, 16) // including those that expired before they were open
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		websocket.Server{Handler: func(c *websocket.Conn) {
			_, err := io.Copy(io.Discard, c)
			gone <- err
		}}.ServeHTTP(w, r)
	})
	x, _ := b.opened(t, "")
	var ws *websocket.Conn
	open := func(tok broker.Token) (err error) {
		ws, err = x.socketTo(t, "/ws/echo", "Bearer "+tok.Token.Reveal())
		return err
	}
	tok, err := x.s.Ask(t, "stripe:charges:listen")
	if err != nil {
		t.Fatal(err)
	}
	if err := open(tok); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Broker.RevokeLease(t.Context(), b.Principals[brokertest.Operator], tok.LeaseID, "test"); err != nil {
		t.Fatal(err)
	}
	over(t, ws)
	ended(t, gone)
	x.brief(t, "stripe:charges:listen", open)
	over(t, ws)
	ended(t, gone)
}

// E98: after a handshake that the upstream rejects, the next data is an ordinary request and not a
// frame.
func TestWebSocketThatIsNone(t *testing.T) {
	t.Parallel()
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "hi") })
	x := b.sandbox(t)
	c := x.inTunnel(t)
	auth := "Authorization: Bearer " + x.placeholder(t, "stripe:charges:listen") + "\r\n"
	_, _ = fmt.Fprintf(c, "GET /ws/a HTTP/1.1\r\nHost: %s\r\n%sConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", b.host, auth)
	_, _ = fmt.Fprintf(c, "DELETE /v1/charges HTTP/1.1\r\nHost: %s\r\n%s\r\n", b.host, auth)
	answers := bufio.NewReader(c)
	for _, want := range []int{200, 403} {
		res, err := http.ReadResponse(answers, nil)
		if err != nil || res.StatusCode != want {
			t.Fatalf("%v, %v; want %d", res, err, want)
		}
		_, _ = io.Copy(io.Discard, res.Body)
	}
	if seen := b.arrived(); len(seen) != 1 || seen[0].URL.Path != "/ws/a" {
		t.Errorf("%d arrived, the last for %s", len(seen), seen[len(seen)-1].URL)
	}
}

// A response that accepts a WebSocket carries no other data: no secret in its reason phrase or a
// header, and no body framing.
//
//ebb:invariant I8 The response that accepts a WebSocket handshake is built anew, so that its reason phrase and framing carry no secret to the sandbox
func TestWebSocketAnswersAreMadeAnew(t *testing.T) {
	t.Parallel()
	b := newBed(t, sockets)
	x := b.sandbox(t)
	c := x.inTunnel(t)
	const answer = "HTTP/1.1 101 SECRET\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ACCEPT\r\nX-Said: SECRET\r\nSet-Cookie: a=SECRET\r\n" +
		"Transfer-Encoding: chunked\r\nTrailer: SECRET, X-Late\r\n\r\n\x81\x02hi\x88\x00"
	_, _ = fmt.Fprintf(c, "GET /ws/odd?answer=%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", url.QueryEscape(answer), b.host, x.placeholder(t, "stripe:charges:listen"))
	answers := bufio.NewReader(c)
	var got string
	for !strings.HasSuffix(got, "\x88\x00") {
		b, err := answers.ReadByte()
		if err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		got += string([]byte{b})
	}
	head, frames, _ := strings.Cut(got, "\r\n\r\n")
	if !strings.HasPrefix(head, "HTTP/1.1 101 Switching Protocols\r\n") || strings.Contains(got, canary) || frames != "\x81\x02hi\x88\x00" {
		t.Errorf("the sandbox reads %q", got)
	}
	for _, name := range []string{"Trailer", "Transfer-Encoding", "Set-Cookie"} {
		if strings.Contains(head, name) {
			t.Errorf("the sandbox reads %s: %q", name, head)
		}
	}
}
