package egress

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"

	"ebb/broker"
	"ebb/broker/exact"
)

// request is one request inside of a tunnel. Whatever is not exactly for the tunnel's
// host, and for what a lease of the caller is for, does not leave.
func (b *box) request(w http.ResponseWriter, r *http.Request) {
	tun, is := r.Context().Value(tunnelKey{}).(*tunnel)
	if !is {
		b.refuse(w, r, deny(NotTunnelled, nil))
		return
	}
	if err := denied(r); err != nil {
		b.unread(w, r, err)
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
		b.cutOff(w, r)
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer b.p.cuts.add(cancel, lineage(b.who)...)()
	var anew func() (string, error)
	if leaseID == "" {
		anew = func() (string, error) { return b.bareAnew(ctx, r, tun.host) }
		if leaseID, err = b.bare(ctx, r, tun.host); ctx.Err() != nil {
			b.cutOff(w, r)
			return
		} else if err != nil {
			b.refuse(w, r, err)
			return
		}
	}
	if socket != nil {
		socket.put(r.Header)
	}
	scribe := b.listen(r, tun.host)
	out := &sending{b: b, ctx: ctx, cut: cancel, leaseID: leaseID, anew: anew, host: tun.host, x: x, tunnel: tun, upgrade: socket, scribe: scribe}
	out.lives()
	defer out.over()
	// A cut waits for nobody: not for a box that is in the middle of its body.
	defer unblock(ctx, w, r)()
	to := w
	if scribe != nil {
		to = &listener{ResponseWriter: w, s: scribe, broken: &out.broken}
	}
	g := &gathered{ResponseWriter: to, long: func() bool { return out.long }}
	(&httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL.Scheme, pr.Out.URL.Host, pr.Out.Host = "https", out.authority(), out.authority()
			// What was checked is what is sent, byte for byte.
			pr.Out.URL.RawQuery = pr.In.URL.RawQuery
			pr.Out.Trailer = nil // late headers, which nobody looks at
			pr.Out.Header.Set("Accept-Encoding", "identity")
		},
		Transport: out, FlushInterval: flushTime, BufferPool: buffers{}, ModifyResponse: out.answer,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if out.unread.Load() && reasonOf(err) != TooMuch {
				err = deny(BadBody, err)
			}
			out.x.Reason = string(reasonOf(err))
			if out.x.Cut = out.ctx.Err() != nil; !out.allowed {
				out.x.Transcript = "" // what did not leave has none
				b.deny(r, out.leaseID, out.x)
			}
			b.answer(w, r, err)
		},
		ErrorLog: b.errorLog,
	}).ServeHTTP(g, r.WithContext(ctx))
	g.end()
}

// read looks at all of a request but its body, takes out of it what does not leave, and
// returns the lease that it names, "" = none.
func (b *box) read(r *http.Request, h exact.Host) (leaseID string, err error) {
	if err := exact.Method(r.Method); err != nil {
		return "", err
	}
	if otherScheme(r) {
		return "", &exact.Error{Reason: exact.BadHeader, Why: "its :scheme is not https"}
	}
	for _, host := range r.Header["Host"] { // by HTTP/2, beside :authority (RFC 9113 section 8.3.1)
		if host != r.Host {
			return "", &exact.Error{Reason: Misdirected, Why: "its host differs from its :authority"}
		}
	}
	delete(r.Header, "Host")
	if len(r.Header["Authorization"]) > 1 {
		return "", &exact.Error{Reason: exact.BadHeader, Why: "it has more than one Authorization"}
	}
	said, err := exact.ParseHost(r.Host, 443)
	if err != nil || said != h || r.URL.Host != "" || r.URL.Scheme != "" || r.URL.User != nil || r.URL.Opaque != "" {
		return "", deny(Misdirected, nil)
	}
	if _, err := exact.Path(r.URL.EscapedPath(), exact.PathForm{Slash: true, Text: true}); err != nil {
		return "", err
	}
	query, err := exact.Query(r.URL.RawQuery)
	if err != nil {
		return "", err
	}
	whole := r.URL.EscapedPath()
	if r.URL.RawQuery != "" || r.URL.ForceQuery {
		whole += "?" + r.URL.RawQuery
	}
	if whole != r.RequestURI {
		return "", deny(exact.AmbiguousPath, nil)
	}
	if leaseID, err = placeholderOf(r, query); err != nil && reasonOf(err) != NoPlaceholder {
		return "", err
	}
	claim := awsClaim(r.Header)
	if err := Clean(r.Header); err != nil {
		return "", err
	}
	if claim != "" {
		r.Header.Set("Authorization", claim)
	}
	return leaseID, nil
}

// refusal is all that a sandbox learns of why.
type refusal struct {
	Error  string       `json:"error"`
	Reason exact.Reason `json:"reason"`
}

// statuses of reasons; all others are 403.
var statuses = map[exact.Reason]int{
	exact.BadHost: http.StatusBadRequest, exact.BadPort: http.StatusBadRequest, exact.AmbiguousPath: http.StatusBadRequest, exact.AmbiguousQuery: http.StatusBadRequest,
	BadBody: http.StatusBadRequest, exact.BadMethod: http.StatusBadRequest, exact.BadHeader: http.StatusBadRequest, NoPlaceholder: http.StatusUnauthorized, NoCredential: http.StatusUnauthorized,
	TooOften: http.StatusTooManyRequests, TooMuch: http.StatusRequestEntityTooLarge, NoRecord: http.StatusServiceUnavailable, Crowded: http.StatusServiceUnavailable,
	Misdirected: http.StatusMisdirectedRequest, Unreachable: http.StatusBadGateway, Unresolved: http.StatusBadGateway, Certificate: http.StatusBadGateway, BadAnswer: http.StatusBadGateway,
	NoTranscript: http.StatusServiceUnavailable, SealTooLarge: http.StatusBadGateway, SealNotJSON: http.StatusBadGateway, SealAmbiguous: http.StatusBadGateway, SealBadValue: http.StatusBadGateway, SealBadLifetime: http.StatusBadGateway, Doubt: http.StatusServiceUnavailable,
}

// unread refuses a request of which nobody knows what it asks for.
func (b *box) unread(w http.ResponseWriter, r *http.Request, err error) {
	x := b.exchange(r)
	x.Method, x.Path, x.Reason = "", "", string(reasonOf(err))
	b.deny(r, "", x)
	b.answer(w, r, err)
}

// refuse records and answers what does not leave.
func (b *box) refuse(w http.ResponseWriter, r *http.Request, err error) {
	x := b.exchange(r)
	x.Reason = string(reasonOf(err))
	b.deny(r, "", x)
	b.answer(w, r, err)
}

// deny puts a refusal on the record; that this fails lets nothing out.
func (b *box) deny(r *http.Request, leaseID string, x broker.Exchange) {
	b.p.cfg.Record.UseDenied(context.WithoutCancel(r.Context()), b.who, leaseID, x)
}

// cutOff ends a request that was cut before anything of it left. It is told why where ebb stops, and nothing
// otherwise.
func (b *box) cutOff(w http.ResponseWriter, r *http.Request) {
	if !stopping(r.Context()) {
		panic(http.ErrAbortHandler)
	}
	b.refuse(w, r, errStopping)
}

// answer says to a box that something did not leave, and closes an HTTP/1 connection:
// what comes behind may be a part of what was refused.
func (b *box) answer(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case stopping(r.Context()):
		err = errStopping
	case errors.Is(err, context.Canceled), errors.Is(err, ErrOver), r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // cut: nobody is told anything
	}
	reason := reasonOf(err)
	status, known := statuses[reason]
	if !known {
		status = http.StatusForbidden
	}
	method := r.Method
	if exact.Method(method) != nil { // it may be anything
		method = "other"
	}
	if leftOut, now := b.free.line(); now {
		b.p.cfg.Logger.InfoContext(r.Context(), "egress refused", "task_id", b.who.TaskID, "tool", b.who.Tool, "reason", reason, "method", method, "left_out", leftOut, "error", err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if r.ProtoMajor == 1 { // by HTTP/2 it would end all streams of the connection, this one before its answer
		h.Set("Connection", "close")
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		h.Set("Retry-After", strconv.Itoa(retryAfter(err)))
	}
	if status == http.StatusUnauthorized {
		// RFC 9110 section 15.5.2; without it git does not send what its helper gave it.
		h.Set("WWW-Authenticate", `Basic realm="ebb"`)
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(refusal{Error: "egress_denied", Reason: reason})
}

// retryAfter is in how many seconds a request that was refused may do better (RFC 9110 section 10.2.3).
func retryAfter(err error) int {
	return max(1, int(math.Ceil(broker.AsError(err).RetryAfter.Seconds())))
}

func reasonOf(err error) exact.Reason {
	var d *Denial
	var e *exact.Error
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

// unreadableHTTP reports whether an answer came that is no HTTP; errors of TLS, which have no type, are of the
// connection.
func unreadableHTTP(err error) bool {
	u, is := errors.AsType[*unreadable](err)
	return is && !strings.Contains(u.cause.Error(), "tls: ")
}

func isBroker(err error) bool {
	var e *broker.Error
	return errors.As(err, &e)
}
