package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// request serves one request inside a tunnel. It refuses requests that are not for exactly the host
// of the tunnel, or not covered by a lease of the caller.
func (b *endpoint) request(w http.ResponseWriter, r *http.Request) {
	tun, is := r.Context().Value(tunnelKey{}).(*tunnel)
	if !is {
		b.refuse(w, r, deny(NotTunnelled, nil))
		return
	}
	if err := denied(r); err != nil {
		b.refuseUnread(w, r, err)
		return
	}
	x := b.exchange(r)
	socket := upgradeOf(r)
	leaseID, err := b.read(r, tun.host)
	if err != nil {
		b.refuse(w, r, err)
		return
	}
	select {
	case b.busy <- struct{}{}:
		defer func() { <-b.busy }()
	case <-r.Context().Done():
		b.abort(w, r)
		return
	}
	if socket != nil {
		socket.put(r.Header)
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer b.p.active.add(cancel, lineage(b.who)...)()
	var rechoose func() (string, error)
	if leaseID == "" {
		rechoose = func() (string, error) { return b.credentialLessAgain(ctx, r, tun.host) }
		if leaseID, err = b.credentialLess(ctx, r, tun.host); ctx.Err() != nil {
			b.abort(w, r)
			return
		} else if err != nil {
			b.refuse(w, r, err)
			return
		}
	}
	transcriptRecorder := b.newRecorder(r, tun.host)
	out := &outbound{b: b, ctx: ctx, disconnect: cancel, leaseID: leaseID, rechoose: rechoose, host: tun.host, x: x, tunnel: tun, upgrade: socket, transcriptRecorder: transcriptRecorder}
	out.endWithLease()
	defer out.release()
	// A disconnection does not wait for a sandbox that is still sending its body.
	defer unblock(ctx, w, r)()
	to := w
	if transcriptRecorder != nil {
		to = &recordedWriter{ResponseWriter: w, s: transcriptRecorder, broken: &out.broken}
	}
	g := &gathered{ResponseWriter: to, long: func() bool { return out.long }}
	(&httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL.Scheme, pr.Out.URL.Host, pr.Out.Host = "https", out.authority(), out.authority()
			// The query is sent byte for byte as it was checked.
			pr.Out.URL.RawQuery = pr.In.URL.RawQuery
			pr.Out.Trailer = nil // trailers, which are not checked
			pr.Out.Header.Set("Accept-Encoding", "identity")
		},
		Transport: out, FlushInterval: flushTime, BufferPool: buffers{}, ModifyResponse: out.answer,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if out.unread.Load() && reasonOf(err) != TooMuch {
				err = deny(BadBody, err)
			}
			out.x.Reason = string(reasonOf(err))
			if out.x.Cut = out.ctx.Err() != nil; !out.allowed {
				out.x.Transcript = "" // requests that were not sent have no transcript
				b.deny(r, out.leaseID, out.x)
			}
			b.answer(w, r, err)
		},
		ErrorLog: b.errorLog,
	}).ServeHTTP(g, r.WithContext(ctx))
	g.end()
}

// read checks all of a request except its body, removes headers that must not be sent, and returns
// the lease that the request names; "" = none.
func (b *endpoint) read(r *http.Request, h stricturl.Host) (leaseID string, err error) {
	if err := stricturl.Method(r.Method); err != nil {
		return "", err
	}
	if otherScheme(r) {
		return "", &stricturl.Error{Reason: stricturl.BadHeader, Why: "its :scheme is not https"}
	}
	for _, host := range r.Header["Host"] { // in HTTP/2, besides :authority (RFC 9113 section 8.3.1)
		if host != r.Host {
			return "", &stricturl.Error{Reason: Misdirected, Why: "its host differs from its :authority"}
		}
	}
	delete(r.Header, "Host")
	if len(r.Header["Authorization"]) > 1 {
		return "", &stricturl.Error{Reason: stricturl.BadHeader, Why: "it has more than one Authorization"}
	}
	said, err := stricturl.ParseHost(r.Host, 443)
	if err != nil || said != h || r.URL.Host != "" || r.URL.Scheme != "" || r.URL.User != nil || r.URL.Opaque != "" {
		return "", deny(Misdirected, nil)
	}
	if _, err := stricturl.Path(r.URL.EscapedPath(), stricturl.PathForm{Slash: true, Text: true}); err != nil {
		return "", err
	}
	query, err := stricturl.Query(r.URL.RawQuery)
	if err != nil {
		return "", err
	}
	whole := r.URL.EscapedPath()
	if r.URL.RawQuery != "" || r.URL.ForceQuery {
		whole += "?" + r.URL.RawQuery
	}
	if whole != r.RequestURI {
		return "", deny(stricturl.AmbiguousPath, nil)
	}
	if leaseID, err = placeholderOf(r, query); err != nil && reasonOf(err) != NoPlaceholder {
		return "", err
	}
	return leaseID, cleanBut(r.Header)
}

// cleanBut is Clean, but keeps the Authorization header of a request that an AWS client signed with
// a placeholder.
func cleanBut(h http.Header) error {
	claim := awsClaim(h)
	if err := Clean(h); err != nil {
		return err
	}
	if claim != "" {
		h.Set("Authorization", claim)
	}
	return nil
}

// refuseUnread refuses a request that was not parsed, so that its method and path are unknown.
func (b *endpoint) refuseUnread(w http.ResponseWriter, r *http.Request, err error) {
	x := b.exchange(r)
	x.Method, x.Path, x.Reason = "", "", string(reasonOf(err))
	b.deny(r, "", x)
	b.answer(w, r, err)
}

// refuse writes a refusal to the audit log and sends it to the sandbox.
func (b *endpoint) refuse(w http.ResponseWriter, r *http.Request, err error) {
	x := b.exchange(r)
	x.Reason = string(reasonOf(err))
	b.deny(r, "", x)
	b.answer(w, r, err)
}

// deny writes a refusal to the audit log. If this fails, the request is refused all the same.
func (b *endpoint) deny(r *http.Request, leaseID string, x broker.Exchange) {
	b.p.cfg.Record.UseDenied(context.WithoutCancel(r.Context()), b.who, leaseID, x)
}

// abort ends a request that was disconnected before anything of it was sent. It gets a response
// only if ebb is stopping.
func (b *endpoint) abort(w http.ResponseWriter, r *http.Request) {
	if !stopping(r.Context()) {
		panic(http.ErrAbortHandler)
	}
	b.refuse(w, r, errStopping)
}

func reasonOf(err error) stricturl.Reason {
	var d *Denial
	var e *stricturl.Error
	switch {
	case errors.As(err, &d):
		return d.Reason
	case errors.As(err, &e):
		return e.Reason
	case unreadableHTTP(err):
		return BadAnswer
	case broker.AsError(err).Kind == broker.Unavailable:
		return Doubt
	case broker.AsError(err).Kind == broker.TooMany:
		return TooOften
	case isBroker(err):
		return NoCredential
	}
	return Unreachable
}

// unreadableHTTP reports whether the response was not HTTP. Errors of TLS, which have no type,
// count as errors of the connection.
func unreadableHTTP(err error) bool {
	u, is := errors.AsType[*unreadable](err)
	return is && !strings.Contains(u.cause.Error(), "tls: ")
}

func isBroker(err error) bool {
	var e *broker.Error
	return errors.As(err, &e)
}

// markScheme makes s mark HTTP/2 requests whose :scheme is not https, for otherScheme. net/http
// marks them by TLS = nil, but sets TLS again before a handler runs.
func markScheme(s *http.Server) {
	_ = s.Serve(noListener{}) // which makes TLSNextProto
	serve := s.TLSNextProto["h2"]
	s.TLSNextProto["h2"] = func(s *http.Server, c *tls.Conn, h http.Handler) { serve(s, c, schemed{h}) }
}

type schemed struct{ http.Handler }

type schemeKey struct{}

// ServeHTTP implements http.Handler.
func (h schemed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.TLS == nil {
		r = r.WithContext(context.WithValue(r.Context(), schemeKey{}, true))
	}
	h.Handler.ServeHTTP(w, r)
}

// BaseContext is called by net/http on its handler.
func (h schemed) BaseContext() context.Context {
	return h.Handler.(interface{ BaseContext() context.Context }).BaseContext()
}

// otherScheme reports whether the :scheme of a request of HTTP/2 is not https.
func otherScheme(r *http.Request) bool { return r.Context().Value(schemeKey{}) != nil }

// noListener is a listener that accepts no connections.
type noListener struct{}

// Accept implements net.Listener.
func (noListener) Accept() (net.Conn, error) {
	return nil, errors.New("this listener accepts no connections")
}

// Close implements net.Listener.
func (noListener) Close() error { return nil }

// Addr implements net.Listener.
func (noListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "none"} }
