package egress

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"ebb/broker"
	"ebb/broker/egress/redact"
	"ebb/broker/exact"
	"ebb/broker/provider"
)

// upgrade is a request that asks for a WebSocket.
type upgrade struct {
	accept    string   // what proves that the upstream has understood it
	protocols []string // of which it may choose one
}

// handshakeHeaders say that a request is one (RFC 6455 section 4.1). Extensions are not asked
// for: of what is compressed nobody could read the frames.
var handshakeHeaders = []string{"Connection", "Upgrade", "Sec-Websocket-Extensions"}

// upgradeOf reads a handshake, nil = it is none that everybody reads alike, and takes out of
// the request what makes it one.
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
	return &upgrade{accept: acceptOf(only(h, "Sec-Websocket-Key"))}
}

func only(h http.Header, name string) string {
	if len(h[name]) != 1 {
		return ""
	}
	return h[name][0]
}

func acceptOf(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// maxSubprotocol is how long the name of one is at most, in bytes: those that are registered are
// shorter, and most tokens longer.
const maxSubprotocol = 31

// subprotocols are those that a client names and that leave. Browsers can set no header, so that
// servers take credentials in the place of a name: openai-insecure-api-key.<key>,
// base64url.bearer.authorization.k8s.io.<token>, header-<base64 of headers>, or what comes behind
// one that only says so: access_token, <token>.
func subprotocols(lines []string) (names []string) {
	said := false
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			if name = strings.Trim(name, " \t"); name == "" {
				continue // as servers do (RFC 9110 section 5.6.1): what comes behind it is behind what was said before
			}
			credential := carriesCredential(name)
			if len(name) <= maxSubprotocol && !credential && !said {
				names = append(names, name)
			}
			said = credential && !strings.Contains(name, ".")
		}
	}
	return names
}

// put makes a request a handshake again, when all of it has been looked at.
func (u *upgrade) put(h http.Header) {
	u.protocols = subprotocols(h["Sec-Websocket-Protocol"])
	h.Set("Connection", "Upgrade")
	h.Set("Upgrade", "websocket")
}

// upgrades reports whether a lease is for a WebSocket, too. Most providers know none.
func upgrades(use broker.Usable, r *http.Request) bool {
	u, is := use.Injector.(provider.Upgrader)
	return is && u.Upgrades(r, use.Target)
}

// switched is an answer by which the upstream agrees to a WebSocket. What of it goes to the box is
// made anew: besides its headers it could say something in its reason, and as what frames a body.
func (s *sending) switched(r *http.Response) error {
	h := r.Header
	body, is := r.Body.(io.ReadWriteCloser)
	protocol := h["Sec-Websocket-Protocol"]
	if !is || !strings.EqualFold(only(h, "Upgrade"), "websocket") || !strings.EqualFold(only(h, "Connection"), "upgrade") || only(h, "Sec-Websocket-Accept") != s.upgrade.accept ||
		len(h["Sec-Websocket-Extensions"]) > 0 || len(protocol) > 1 || len(protocol) == 1 && !slices.Contains(s.upgrade.protocols, protocol[0]) {
		return deny(BadAnswer, errors.New("the upstream has agreed to a WebSocket that nobody asked for"))
	}
	s.clean(h)
	switchedOver(r.Request)
	w := &webSocket{body: body, from: body, s: s, task: s.b.p.sent.get(s.b.who.Root())}
	if s.redactor != nil {
		w.from = s.redactor.Frames(body, func(n int) { s.echoes.Add(int64(n)) })
	}
	w.idle = time.AfterFunc(s.b.p.cfg.SocketTime, func() { s.cut(errIdle) })
	*r = http.Response{StatusCode: r.StatusCode, ProtoMajor: 1, ProtoMinor: 1, Header: h, Body: w, Request: r.Request}
	return nil
}

// webSocket is one that is open, as its upstream is seen from the box. When it is cut nothing
// goes on in it, also of what was on its way.
type webSocket struct {
	body io.ReadWriteCloser
	from io.Reader // what the body says, with secrets overwritten
	s    *sending
	task *atomic.Int64 // bytes that it has sent
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

// Write implements io.Writer: what the box sends is bounded as a body is.
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

// endsBy notes why a WebSocket ends: what copies it tells nobody.
func (s *sending) endsBy(r exact.Reason) { s.ended.CompareAndSwap(nil, &r) }

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
