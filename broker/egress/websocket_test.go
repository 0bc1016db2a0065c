package egress_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"github.com/ebb-broker/ebb/broker/egress"
)

// sockets is an upstream whose WebSockets send the credential of the handshake and then echo. Under
// /ws/odd the query sets the response; Sec-WebSocket-Accept is correct unless the query sets it.
// SECRET in it stands for the injected credential.
func sockets(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/ws/odd" {
		websocket.Server{Handler: func(c *websocket.Conn) {
			_, _ = io.WriteString(c, "you are "+c.Request().Header.Get("Authorization"))
			_, _ = io.Copy(c, c)
		}}.ServeHTTP(w, r)
		return
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = strings.NewReplacer("ACCEPT", egress.AcceptOf(r.Header.Get("Sec-Websocket-Key")), "SECRET", r.Header.Get("Authorization")).WriteString(rw, r.URL.Query().Get("answer"))
	_ = rw.Flush()
	_, _ = io.Copy(io.Discard, rw)
}

// socketTo opens a WebSocket as a client library does.
func (x *sandbox) socketTo(t *testing.T, path, auth string) (*websocket.Conn, error) {
	t.Helper()
	c := x.inTunnel(t)
	cfg, err := websocket.NewConfig("wss://"+x.b.host+path, "https://app.example.com")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Header.Set("Authorization", auth)
	return websocket.NewClient(cfg, c)
}

// E83 and E99: the injected credential comes back as asterisks, however long a message is.
//
//ebb:invariant I8 A secret in a WebSocket message from the upstream is overwritten, regardless of the number of frames that carry it
func TestWebSocket(t *testing.T) {
	t.Parallel()
	b := newBed(t, sockets)
	x := b.sandbox(t)
	auth := "Bearer " + x.placeholder(t, "stripe:charges:listen")
	ws, err := x.socketTo(t, "/ws/echo", auth)
	if err != nil {
		t.Fatal(err)
	}
	for _, say := range []string{"", "hello", strings.Repeat("long ", 30000), "echo " + canary} {
		if say != "" {
			if err := websocket.Message.Send(ws, say); err != nil {
				t.Fatal(err)
			}
		} else {
			say = "you are Bearer " + canary
		}
		var heard string
		for len(heard) < len(say) { // in messages of the size that the echo uses
			var part string
			if err := websocket.Message.Receive(ws, &part); err != nil {
				t.Fatalf("after %d bytes: %v", len(heard), err)
			}
			heard += part
		}
		if want := strings.ReplaceAll(say, canary, strings.Repeat("*", len(canary))); heard != want {
			t.Errorf("it says %.100q, want %.100q", heard, want)
		}
	}
	seen := b.arrived()
	if h := seen[len(seen)-1].Header; h.Get("Authorization") != "Bearer "+canary || h.Get("Upgrade") != "websocket" {
		t.Errorf("it arrived with %v", h)
	}
	x.b.proxy.End(x.s.Task.ID)
	_ = ws.SetReadDeadline(time.Now().Add(patience))
	if err := websocket.Message.Receive(ws, new(string)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the end: %v", err)
	}
}

// TestWebSocketsThatAreRefused: a handshake is a request that the rule and the upstream must accept
// as well: the rule by allowing upgrades, the upstream by proving that it understood the handshake
// (E53, E73, E97, E98, E99).
//
//ebb:invariant I6 A request becomes a WebSocket only if its rule allows WebSockets and the upstream's response accepts this specific handshake
//ebb:invariant I6 A request becomes a WebSocket only if the rule of its lease allows WebSockets
//ebb:invariant I6 A WebSocket opens only if the upstream's response accepts this specific handshake and nothing that the request did not offer
func TestWebSocketsThatAreRefused(t *testing.T) {
	t.Parallel()
	b := newBed(t, sockets)
	x := b.sandbox(t)
	listen, read := "Bearer "+x.placeholder(t, "stripe:charges:listen"), "Bearer "+x.placeholder(t, "stripe:charges:read")
	const agreed = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
	const shake = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	odd := func(answer string) string { return "/ws/odd?answer=" + url.QueryEscape(answer) }
	for name, tt := range map[string]struct{ path, auth, headers, status string }{
		"its own key, too":       {odd(agreed + "Sec-WebSocket-Accept: ACCEPT\r\nSec-WebSocket-Protocol: api-key.theirs\r\n\r\n"), listen, shake + "Sec-WebSocket-Protocol: a, api-key.theirs\r\n", "502"},
		"as it should be":        {odd(agreed + "Sec-WebSocket-Accept: ACCEPT\r\n\r\n"), listen, shake, "101"},
		"kept alive":             {odd(agreed + "Sec-WebSocket-Accept: ACCEPT\r\n\r\n"), listen, strings.Replace(shake, "Connection: ", "Connection: keep-alive, ", 1), "101"},
		"a protocol":             {odd(agreed + "Sec-WebSocket-Accept: ACCEPT\r\nSec-WebSocket-Protocol: b\r\n\r\n"), listen, shake + "Sec-WebSocket-Protocol: a, b\r\n", "101"},
		"its rule says nothing":  {"/v1/echo", read, shake, "403"},
		"nothing in its place":   {"/ws/echo", "", shake, "401"},
		"another path":           {"/other", listen, shake, "403"},
		"no Accept":              {odd(agreed + "\r\n"), listen, shake, "502"},
		"another's Accept":       {odd(agreed + "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOp=\r\n\r\n"), listen, shake, "502"},
		"two":                    {odd(agreed + "Sec-WebSocket-Accept: ACCEPT\r\nSec-WebSocket-Accept: ACCEPT\r\n\r\n"), listen, shake, "502"},
		"an extension":           {odd(agreed + "Sec-WebSocket-Accept: ACCEPT\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"), listen, shake, "502"},
		"a protocol of its own":  {odd(agreed + "Sec-WebSocket-Accept: ACCEPT\r\nSec-WebSocket-Protocol: c\r\n\r\n"), listen, shake + "Sec-WebSocket-Protocol: a, b\r\n", "502"},
		"two protocols":          {odd(agreed + "Sec-WebSocket-Accept: ACCEPT\r\nSec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: b\r\n\r\n"), listen, shake + "Sec-WebSocket-Protocol: a, b\r\n", "502"},
		"to something else, too": {odd(agreed + "Upgrade: h2c\r\nSec-WebSocket-Accept: ACCEPT\r\n\r\n"), listen, shake, "502"},
		"and the end":            {odd(strings.Replace(agreed, "Connection: Upgrade", "Connection: Upgrade, close", 1) + "Sec-WebSocket-Accept: ACCEPT\r\n\r\n"), listen, shake, "502"},
		"to something else":      {odd("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ACCEPT\r\n\r\n"), listen, shake, "502"},
		"an answer that is none": {odd("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi"), listen, shake, "200"},
		"another version":        {"/ws/echo", listen, strings.Replace(shake, "13", "8", 1), "400"},
		"for something else":     {"/ws/echo", listen, strings.Replace(shake, "websocket", "h2c", 1), "400"},
		"a short key":            {"/ws/echo", listen, strings.Replace(shake, "dGhlIHNhbXBsZSBub25jZQ==", "c2hvcnQ=", 1), "400"},
		"more than that":         {"/ws/echo", listen, strings.Replace(shake, "Connection: ", "Connection: Authorization, ", 1), "400"},
		"with a body":            {"/ws/echo", listen, shake + "Content-Length: 2\r\n", "400"},
		"its credential":         {"/ws/echo", listen, shake + "Sec-WebSocket-Protocol: ebb-placeholder.lse_x\r\n", "403"},
	} {
		c := x.inTunnel(t)
		if tt.auth != "" {
			tt.headers += "Authorization: " + tt.auth + "\r\n"
		}
		_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nSec-WebSocket-Extensions: permessage-deflate\r\n%s\r\n", tt.path, b.host, tt.headers)
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "HTTP/1.1 "+tt.status) {
			t.Errorf("%s: %q, %v; want %s", name, line, err, tt.status)
		}
		_ = c.Close()
	}
	for _, r := range b.arrived() {
		if r.Header.Get("Upgrade") != "" && (r.Header.Get("Sec-Websocket-Extensions") != "" || r.URL.Path == "/v1/echo" || strings.HasPrefix(r.URL.Path, "/other")) {
			t.Errorf("%s arrived with %v", r.URL, r.Header)
		}
	}
}
