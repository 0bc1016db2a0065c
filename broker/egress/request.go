package egress

import (
	"context"
	"errors"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/provider"
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
	out := &outbound{b: b, ctx: ctx, disconnect: cancel, rechoose: rechoose, host: tun.host, x: x, tunnel: tun, upgrade: socket, transcriptRecorder: transcriptRecorder}
	out.dependOn(leaseID)
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

// answer sends a refusal to the sandbox. It closes an HTTP/1 connection, because the bytes that
// follow may be part of the refused request.
func (b *endpoint) answer(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case stopping(r.Context()):
		err = errStopping
	case errors.Is(err, context.Canceled), errors.Is(err, ErrOver), r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // disconnected: no response
	}
	reason := reasonOf(err)
	method := r.Method
	if stricturl.Method(method) != nil { // it may be any text
		method = "other"
	}
	if leftOut, now := b.workLimits.logLine(); now {
		b.p.cfg.Logger.InfoContext(r.Context(), "egress refused", "task_id", b.who.TaskID, "tool", b.who.Tool, "reason", reason, "method", method, "left_out", leftOut, "error", err)
	}
	status, detail := explain(subject(r), err, func() (string, error) { return b.neededScope(r) })
	as, mediaType, body := replyTo(r, status, detail, err)
	h := w.Header()
	h.Set("Content-Type", mediaType)
	if r.ProtoMajor == 1 { // in HTTP/2 it would end all streams of the connection, this one before its response
		h.Set("Connection", "close")
	}
	if retryable(status) {
		h.Set("Retry-After", strconv.Itoa(retryAfter(err)))
	}
	if status == http.StatusUnauthorized {
		// RFC 9110 section 15.5.2; without it git does not send what its helper gave it.
		h.Set("WWW-Authenticate", `Basic realm="ebb"`)
	}
	w.WriteHeader(as)
	_, _ = w.Write(body)
}

// maxShown is how many characters of the URL a refusal shows.
const maxShown = 200

// subject returns the method and URL of a request, without the query and escaped so that nothing in
// it is hidden.
func subject(r *http.Request) string {
	if denied(r) != nil {
		return "A request" // the request was not parsed
	}
	method, url := r.Method, r.RequestURI
	if stricturl.Method(method) != nil && method != http.MethodConnect {
		method = "A request to"
	}
	if tun, is := r.Context().Value(tunnelKey{}).(*tunnel); is {
		url = "https://" + strings.TrimSuffix(tun.host.String(), ":443") + r.URL.EscapedPath()
	}
	url, _, _ = strings.Cut(url, "?")
	return method + " " + agenttext.ShowLine(agenttext.From(url), maxShown)
}

// neededTime bounds how long a refusal waits to learn which scopes are needed.
const neededTime = 2 * time.Second

// neededScope returns which scopes would let a request through, and how to ask for one.
func (b *endpoint) neededScope(r *http.Request) (string, error) {
	tun, is := r.Context().Value(tunnelKey{}).(*tunnel)
	if !is {
		return "", errors.New("the request names no host")
	}
	upgrade, out := r.Header.Get("Upgrade") != "", providerView(r, tun.host)
	out.Header.Del("Connection")                 // that of a WebSocket handshake, which Clean would refuse
	if err := cleanBut(out.Header); err != nil { // the request may have been refused before it was cleaned
		return "", err
	}
	ctx, cancel := context.WithTimeout(r.Context(), neededTime)
	defer cancel()
	needed, err := b.p.cfg.Leases.NeededFor(ctx, b.who, out, upgrade)
	return scopeAdvice(needed), err
}

// credentialLess returns the credential-less lease that covers a request without a placeholder.
// Nothing is added to requests of such a lease. Without one the request is refused with
// NoPlaceholder. Credentials that the sandbox wrote into the request itself were removed before
// (Clean).
func (b *endpoint) credentialLess(ctx context.Context, r *http.Request, h stricturl.Host) (leaseID string, err error) {
	all, asked, err := b.credentialLessLeases.list(ctx, b, false)
	if err != nil {
		return "", err
	}
	if leaseID, err = firstUsable(r, h, all); asked || err == nil || reasonOf(err) != NoPlaceholder {
		return leaseID, err
	}
	return b.credentialLessAgain(ctx, r, h) // a lease may have been issued just now
}

// credentialLessAgain does the same with a list that is read anew.
func (b *endpoint) credentialLessAgain(ctx context.Context, r *http.Request, h stricturl.Host) (leaseID string, err error) {
	all, _, err := b.credentialLessLeases.list(ctx, b, true)
	if err != nil {
		return "", err
	}
	return firstUsable(r, h, all)
}

// firstUsable returns the first lease in all that covers the request as it would be sent.
func firstUsable(r *http.Request, h stricturl.Host, all []broker.Usable) (leaseID string, err error) {
	out := providerView(r, h)
	for _, u := range all {
		switch err := u.Injector.Inject(r.Context(), out, u.Target); {
		case err == nil:
			return u.Target.LeaseID, nil
		case !errors.Is(err, provider.ErrElsewhere):
			return "", deny(Doubt, err)
		}
	}
	return "", deny(NoPlaceholder, nil)
}

// providerView returns a request in a tunnel to h, or to its base URL, as providers judge it.
func providerView(r *http.Request, h stricturl.Host) *http.Request {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.Host = "https", h.String(), ""
	if out.ContentLength == 0 {
		out.Body = http.NoBody
	}
	dropPlaceholder(out)
	return out
}

// usable asks the broker whether the lease may be used. A lease that ebb chose may have ended since
// it was listed. Then usable chooses again, once, and the request depends on the new lease.
func (s *outbound) usable() (broker.Usable, error) {
	for again := s.rechoose != nil; ; again = false {
		use, err := s.b.p.cfg.Leases.Use(s.ctx, s.b.who, s.leaseID)
		over := err != nil && reasonOf(err) == NoCredential
		if err == nil || over {
			s.b.workLimits.noteLease(s.leaseID, err == nil)
		}
		if !over || !again {
			return use, err
		}
		leaseID, err := s.rechoose()
		if err != nil {
			return broker.Usable{}, err
		}
		s.dependOn(leaseID)
	}
}

// credentialLessAge is the maximum age of the list of credential-less leases. Each request still
// checks that its lease is valid.
const credentialLessAge = time.Second

// credentialLessLeases caches the credential-less leases of a sandbox. turn has capacity 1 and
// guards the other fields. A channel is used because a wait for it can end with a context.
type credentialLessLeases struct {
	turn chan struct{}
	at   time.Time // time of the last query
	know bool      // all holds the result of that query
	all  []broker.Usable
}

// list returns the leases, and whether it asked the broker for them. It asks when its list is older
// than credentialLessAge. It also asks when again is set or the last query failed, as often as
// workLimits.missed allows.
func (l *credentialLessLeases) list(ctx context.Context, b *endpoint, again bool) (all []broker.Usable, asked bool, err error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	now := b.p.cfg.Now()
	age := now.Sub(l.at)
	due := l.at.IsZero() || age < 0 || age >= credentialLessAge
	if !due && l.know && !again {
		return l.all, false, nil
	}
	// One query in each credentialLessAge is not rate-limited, so that one tool's requests without
	// a lease do not block those of another tool.
	if !due && !b.workLimits.missed.Allow() {
		return nil, false, deny(TooOften, nil)
	}
	l.at, l.know = now, false
	if all, err = b.p.cfg.Leases.Credentialless(ctx, b.who); err != nil {
		return nil, true, err
	}
	l.all, l.know = all, true
	return all, true, nil
}

// exchange returns the audit log entry of a request, with only those fields that every server would
// read in the same way.
func (b *endpoint) exchange(r *http.Request) broker.Exchange {
	x := broker.Exchange{Tool: b.who.Tool}
	if stricturl.Method(r.Method) == nil || r.Method == http.MethodConnect {
		x.Method = r.Method
	}
	if tun, is := r.Context().Value(tunnelKey{}).(*tunnel); is {
		x.Host = tun.host.String()
		if path := r.URL.EscapedPath(); !strings.ContainsFunc(path, func(c rune) bool { return c <= ' ' || c > '~' }) {
			x.Path = path[:min(len(path), broker.MaxExchangePath)]
		}
	} else if h, err := stricturl.ParseHost(r.RequestURI, 0); err == nil && r.Method == http.MethodConnect {
		x.Host = h.String()
	}
	return x
}
