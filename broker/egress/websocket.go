package egress

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress/redact"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// upgrade is a request for a WebSocket.
type upgrade struct {
	key       string   // the upstream proves with a value computed from it that it supports WebSockets
	protocols []string // the upstream may choose one of them
}

// handshakeHeaders mark a request as a handshake (RFC 6455 section 4.1). Extensions are not
// offered, because compressed frames could not be searched.
var handshakeHeaders = []string{"Connection", "Upgrade", "Sec-Websocket-Extensions"}

// upgradeOf parses a handshake and removes the headers that make the request one. nil = not a
// handshake, or one that servers could read differently.
func upgradeOf(r *http.Request) *upgrade {
	h := r.Header
	key, err := base64.StdEncoding.DecodeString(only(h, "Sec-Websocket-Key"))
	if r.ProtoMajor != 1 || r.ProtoMinor != 1 || r.Method != http.MethodGet || r.ContentLength != 0 || len(r.TransferEncoding) > 0 ||
		!strings.EqualFold(only(h, "Connection"), "upgrade") && !strings.EqualFold(only(h, "Connection"), "keep-alive, Upgrade") ||
		!strings.EqualFold(only(h, "Upgrade"), "websocket") || only(h, "Sec-Websocket-Version") != "13" || err != nil || len(key) != 16 {
		return nil
	}
	for _, name := range handshakeHeaders {
		h.Del(name)
	}
	return &upgrade{key: only(h, "Sec-Websocket-Key")}
}

func only(h http.Header, name string) string {
	if len(h[name]) != 1 {
		return ""
	}
	return h[name][0]
}

// acceptOf returns the Sec-WebSocket-Accept for a key, which is defined with SHA-1 (RFC 6455
// section 4.2.2). GODEBUG=fips140=only has no SHA-1: there stricturl.Rule.Check refuses every rule
// that lets a request become a WebSocket.
func acceptOf(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// put turns a request into a handshake again, after all of it was checked.
func (u *upgrade) put(h http.Header) {
	u.protocols = subprotocols(h["Sec-Websocket-Protocol"])
	h.Set("Connection", "Upgrade")
	h.Set("Upgrade", "websocket")
}

// upgrades reports whether a lease covers a WebSocket. Most providers support none. Messages have no
// facts, so that a lease that is limited to one content or to amounts covers none.
func upgrades(use broker.Usable, r *http.Request) bool {
	u, is := use.Injector.(provider.Upgrader)
	return is && use.Lease.Content == "" && use.Lease.MaxAmount == nil && u.Upgrades(r, use.Target)
}

// switched checks a response that accepts a WebSocket. The response to the sandbox is built anew
// from its headers: a reason phrase or the framing of a body could carry data.
func (s *outbound) switched(r *http.Response) error {
	h := r.Header
	body, is := r.Body.(io.ReadWriteCloser)
	protocol := h["Sec-Websocket-Protocol"]
	if !is || !strings.EqualFold(only(h, "Upgrade"), "websocket") || !strings.EqualFold(only(h, "Connection"), "upgrade") || only(h, "Sec-Websocket-Accept") != acceptOf(s.upgrade.key) ||
		len(h["Sec-Websocket-Extensions"]) > 0 || len(protocol) > 1 || len(protocol) == 1 && !slices.Contains(s.upgrade.protocols, protocol[0]) {
		return deny(BadAnswer, errors.New("the upstream accepted a WebSocket handshake with values that the request did not offer"))
	}
	s.clean(h)
	switchedOver(r.Request)
	w := &webSocket{body: body, from: body, s: s, task: s.b.p.sent.get(s.b.who.Root())}
	if s.redactor != nil {
		w.from = s.redactor.Frames(body, func(n int) { s.redacted.Add(int64(n)) })
	}
	w.idle = time.AfterFunc(s.b.p.cfg.SocketTime, func() { s.disconnect(fmt.Errorf("egress: websocket closed: idle for %s", s.b.p.cfg.SocketTime)) })
	*r = http.Response{StatusCode: r.StatusCode, ProtoMajor: 1, ProtoMinor: 1, Header: h, Body: w, Request: r.Request}
	return nil
}

// webSocket is an open WebSocket. After a disconnection it passes no more data on, not even data
// that it has already read.
type webSocket struct {
	body io.ReadWriteCloser
	from io.Reader // data of body, with secrets overwritten
	s    *outbound
	task *atomic.Int64 // bytes that the task has sent
	idle *time.Timer
}

// Read implements io.Reader.
func (w *webSocket) Read(p []byte) (int, error) {
	n, err := w.from.Read(p)
	if w.s.ctx.Err() != nil {
		return 0, context.Cause(w.s.ctx)
	}
	w.s.received.Add(int64(n))
	w.alive(n)
	if errors.Is(err, redact.ErrFrame) {
		w.s.endsBy(BadAnswer)
	}
	return n, unquoted(err)
}

// Write implements io.Writer. The limits of request bodies apply.
func (w *webSocket) Write(p []byte) (int, error) {
	cfg := w.s.b.p.cfg
	if w.s.sent.Add(int64(len(p))) > cfg.RequestBytes || w.task.Add(int64(len(p))) > cfg.TaskBytes {
		w.s.endsBy(TooMuch)
		return 0, deny(TooMuch, nil)
	}
	if w.s.ctx.Err() != nil {
		return 0, context.Cause(w.s.ctx)
	}
	w.alive(len(p))
	n, err := w.body.Write(p)
	return n, unquoted(err)
}

// endsBy records why a WebSocket ends, because ReverseProxy does not return the error of its copy
// loop.
func (s *outbound) endsBy(r stricturl.Reason) { s.ended.CompareAndSwap(nil, &r) }

func (w *webSocket) alive(n int) {
	if n > 0 {
		w.idle.Reset(w.s.b.p.cfg.SocketTime)
	}
}

// Close implements io.Closer.
func (w *webSocket) Close() error {
	w.idle.Stop()
	return w.body.Close()
}
