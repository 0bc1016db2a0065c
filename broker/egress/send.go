package egress

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/clientcert"
	"github.com/ebb-broker/ebb/broker/egress/http1"
	"github.com/ebb-broker/ebb/broker/egress/redact"
	"github.com/ebb-broker/ebb/broker/issuance"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// outbound is one request to an upstream and its response. It is used once.
type outbound struct {
	b                  *endpoint
	ctx                context.Context // ends with the task and the lease
	disconnect         context.CancelCauseFunc
	leaseID            string
	done               func()                             // ends its dependence on leaseID
	rechoose           func() (leaseID string, err error) // chooses the lease again; nil = the sandbox has named it
	host               stricturl.Host
	tunnel             *tunnel
	upgrade            *upgrade            // nil = not a WebSocket
	transcriptRecorder *transcriptRecorder // nil = no rule requires a transcript

	x        broker.Exchange // audit log entry
	allowed  bool            // the entry was written
	began    time.Time
	sent     atomic.Int64
	received atomic.Int64
	answered atomic.Bool                      // the response has begun
	sending  atomic.Bool                      // the body of the request has not been read to its end
	broken   atomic.Bool                      // the response has ended early
	ended    atomic.Pointer[stricturl.Reason] // why ebb ended a WebSocket; nil = no such reason
	long     bool                             // the response has at least longAnswer bytes
	pool     *pool                            // connections to the upstream

	ends     time.Time         // when the lease expires
	expiry   *time.Timer       // disconnects then
	redactor *redactor         // of injected secrets; nil = none
	named    *redact.Named     // finds credentials that the response creates; nil = it creates none
	sealing  *issuance.Sealing // credentials that the response may create and ebb stores; nil = none
	members  []string          // members of the response that hold them
	hidden   []*redactor       // redactors of the new credentials, for the rest of the response
	redacted atomic.Int64      // secrets that were found in the response
}

// release releases everything that the request holds, after the end of the response.
func (s *outbound) release() {
	if s.expiry != nil {
		s.expiry.Stop()
	}
	s.endTranscript() // needs the redactors that are released below
	s.releaseSealing()
	if s.redactor != nil {
		s.b.p.redactors.give(s.redactor, s.remaining())
	}
	if s.pool != nil {
		s.b.p.pools.leave(s.pool, s.b.p.cfg.Now())
	}
	s.finish()
	if s.done != nil {
		s.done()
	}
}

// dependOn makes the request end with this lease, in place of the one before.
func (s *outbound) dependOn(leaseID string) {
	if s.done != nil {
		s.done()
	}
	s.leaseID, s.done = leaseID, s.b.p.active.add(s.disconnect, leaseID)
}

// endAt disconnects the request at this time, in place of the one before.
func (s *outbound) endAt(t time.Time) {
	if s.expiry != nil {
		s.expiry.Stop()
	}
	s.ends = t
	s.expiry = time.AfterFunc(s.remaining(), func() { s.disconnect(errExpiry) })
}

// remaining returns how long the lease is still valid, and 0 after a disconnection. A client that
// hangs up is not a disconnection.
func (s *outbound) remaining() time.Duration {
	if cause := context.Cause(s.ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return 0
	}
	return s.ends.Sub(s.b.p.cfg.Now())
}

// authority returns the Host of the request: without the port if that is 443.
func (s *outbound) authority() string {
	if s.host.Port == 443 {
		return s.host.Name
	}
	return s.host.String()
}

// RoundTrip implements http.RoundTripper. The credential is fetched after all other checks, and
// added to a copy of the request that only the transport sees. From then on the context of the
// request ends with the lease.
func (s *outbound) RoundTrip(r *http.Request) (*http.Response, error) {
	use, err := s.use()
	if err != nil {
		return nil, err
	}
	// Not the context of r: its trace would pass interim responses (1xx) on unchecked.
	before := r.WithContext(s.ctx) // shares its headers with r, which is ReverseProxy's copy for this call
	u := *r.URL
	before.URL = &u
	dropPlaceholder(before)
	if err := s.meter(before); err != nil {
		return nil, err
	}
	out, err := s.cover(use, before)
	// A client such as git names one lease for all of its requests, also after the sandbox has got a
	// wider one.
	if _, judges := use.Injector.(provider.ContentJudge); judges && errors.Is(err, provider.ErrElsewhere) && s.b.workLimits.missed.Allow() {
		use, out, err = another(s.ctx, s.b.p.cfg.Leases, s.b.who, use, err, s.dependOn, func(use broker.Usable) (*http.Request, error) { return s.cover(use, before) })
		s.endAt(use.Target.ExpiresAt)
	}
	if err != nil {
		return nil, answerable(before, err)
	}
	if s.named, err = s.discloses(use, out); err != nil {
		return nil, deny(Doubt, err)
	}
	shown, err := certificate(out.Context(), use, out)
	if err != nil {
		return nil, err
	}
	if err := s.lookFor(use, before, out, shown); err != nil {
		return nil, err
	}
	if s.pool, err = s.b.p.pool(s.b.who, use.Target, s.host, shown); err != nil {
		return nil, err
	}
	if err := s.beginTranscript(use); err != nil {
		return nil, err
	}
	if err := s.seals(use, out); err != nil {
		return nil, err
	}
	if err := s.allow(use); err != nil {
		if s.sealing != nil {
			s.sealing.Nothing()
		}
		return nil, err
	}
	return s.trip(out)
}

// cover returns a copy of a request with the credential of a lease that covers it.
func (s *outbound) cover(use broker.Usable, before *http.Request) (*http.Request, error) {
	if use.Injector == nil {
		return nil, deny(NotAllowed, provider.Elsewhere("its credential is for sessions, not for HTTP requests"))
	}
	out := before.Clone(before.Context())
	err := use.Injector.Inject(out.Context(), out, use.Target)
	if err == nil {
		err = http1.CheckHeaders(out.Header) // here to cover HTTP/2, and before the audit log records the request as allowed
	}
	switch {
	case errors.Is(err, provider.ErrElsewhere):
		return nil, deny(NotAllowed, err)
	case err != nil:
		return nil, deny(Doubt, err)
	}
	if s.upgrade != nil && !upgrades(use, out) {
		return nil, deny(NotAllowed, provider.Elsewhere("its credential does not allow WebSockets"))
	}
	if strayIn(out.Header) { // an AWS signature with a placeholder that the provider has not replaced
		return nil, deny(StrayPlaceholder, nil)
	}
	facts, err := judge(s.ctx, s.b.who, use, out)
	// A part of the body may have been read, and decoded.
	before.Body, before.ContentLength = out.Body, out.ContentLength
	if len(out.Header["Content-Encoding"]) == 0 {
		before.Header.Del("Content-Encoding")
	}
	if facts != nil || err == nil {
		s.x.Content = facts // of a refused request, too; nil if this lease covers every body
	}
	return out, err
}

// use asks the broker for the lease, and disconnects the request when the lease expires.
func (s *outbound) use() (broker.Usable, error) {
	if s.rechoose == nil && !s.b.workLimits.allowLease(s.leaseID) { // a lease that ebb chose is not a guess of the sandbox
		return broker.Usable{}, deny(TooOften, nil)
	}
	use, err := s.usable()
	if err != nil {
		return broker.Usable{}, err
	}
	s.endAt(use.Target.ExpiresAt)
	return use, nil
}

// dropPlaceholder removes placeholders from the query, however they are escaped. Clean removes
// those elsewhere.
func dropPlaceholder(r *http.Request) {
	r.URL.RawQuery = strings.Join(slices.DeleteFunc(strings.Split(r.URL.RawQuery, "&"), func(parameter string) bool {
		text, err := url.QueryUnescape(parameter)
		return err != nil || holds(text)
	}), "&")
}

// answer checks and cleans a response before any of it goes to the sandbox.
func (s *outbound) answer(r *http.Response) error {
	s.answered.Store(true)
	s.x.Status, s.long = r.StatusCode, r.ContentLength >= longAnswer
	if s.sending.Load() && r.Request.ProtoMajor == 1 {
		// The rest of the body on this connection must not be read as another request. Without this header
		// net/http (chunkWriter.writeHeader) also discards a part of the body while the proxy still sends
		// it, and the upstream gets a body with a gap. net/http does not document this effect of the
		// header; TestEarlyResponse tests it.
		r.Header.Set("Connection", "close")
	}
	if r.StatusCode == http.StatusSwitchingProtocols && s.upgrade != nil {
		return s.switched(r)
	}
	if r.StatusCode == http.StatusSwitchingProtocols || !identity(r.Header.Values("Content-Encoding")) {
		return deny(BadAnswer, errors.New("the response has a content encoding or status that cannot be searched for secrets"))
	}
	if s.sealed(r.StatusCode) {
		return s.seal(r)
	}
	s.clean(r.Header)
	s.clean(r.Trailer) // whose names are announced here
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if s.redactor == nil && s.named == nil {
		r.Body = &answerBody{ReadCloser: r.Body, s: s, r: r}
		return nil
	}
	// Marks change the length, so that the header is removed and the body is framed anew.
	// r.ContentLength stays: it tells ReverseProxy that the response is not a stream (flushTime).
	if r.Request == nil || r.Request.Method != http.MethodHead {
		r.Header.Del("Content-Length")
	}
	dropDigests(r.Header)
	count := func(n int) { s.redacted.Add(int64(n)) }
	if s.redactor != nil {
		r.Body = s.redactor.Reader(r.Body, count)
	}
	if s.named != nil {
		r.Body = s.named.Reader(r.Body, count)
	}
	r.Body = &answerBody{ReadCloser: r.Body, s: s, r: r}
	return nil
}

// answerBody is the body of a response whose trailers are cleaned as its headers were.
type answerBody struct {
	io.ReadCloser
	s *outbound
	r *http.Response
}

// Read implements io.Reader.
func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.s.received.Add(int64(n))
	if err != nil {
		b.s.clean(b.r.Trailer)
		if !errors.Is(err, io.EOF) {
			b.s.broken.Store(true)
		}
	}
	return n, unquoted(err)
}

// allow writes to the audit log that a request may be sent. finish must be called afterwards.
func (s *outbound) allow(use broker.Usable) error {
	p := s.b.p
	if !p.pending.add(s.b.who.Root()) {
		return deny(NoRecord, errors.New("too many requests wait for their completion entry in the audit log"))
	}
	s.x.Untrusted = slices.Contains(p.cfg.Untrusted, s.host.Name)
	if err := p.cfg.Record.UseAllowed(s.ctx, s.b.who, use, s.x); err != nil {
		p.pending.remove(s.b.who.Root())
		if broker.AsError(err).Kind == broker.Denied {
			return deny(NotAllowed, err)
		}
		return deny(NoRecord, err)
	}
	s.allowed, s.began = true, time.Now()
	if s.tunnel.b != nil {
		s.tunnel.used.Do(s.b.workLimits.empty.give)
	}
	return nil
}

// finish writes the end of a request to the audit log, without making the client wait.
func (s *outbound) finish() {
	if !s.allowed {
		return
	}
	p, x := s.b.p, s.x
	x.Content = nil
	x.Cut, x.Sent, x.Received, x.Redacted, x.Millis = s.interrupted(), s.sent.Load(), s.received.Load(), s.redacted.Load(), time.Since(s.began).Milliseconds()
	if why := s.ended.Load(); why != nil {
		x.Reason = string(*why)
	}
	p.pending.write(p.cfg.Record, broker.EndedExchange{Caller: s.b.who, LeaseID: s.leaseID, Exchange: x})
}

// interrupted reports whether the request or response ended early.
func (s *outbound) interrupted() bool { return s.broken.Load() || s.ctx.Err() != nil }

// meter checks the limits and wraps the body of a request before any of it is read.
func (s *outbound) meter(r *http.Request) error {
	cfg, task := s.b.p.cfg, s.b.p.sent.get(s.b.who.Root())
	if r.ContentLength > cfg.RequestBytes || task.Load()+max(r.ContentLength, 0) > cfg.TaskBytes {
		return deny(TooMuch, nil)
	}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &meteredBody{ReadCloser: r.Body, s: s, task: task, left: cfg.BodyTime}
		s.sending.Store(true)
	}
	return nil
}

// lookFor makes the redactor that finds the injected secrets, and the key of the client
// certificate, in the response.
func (s *outbound) lookFor(use broker.Usable, before, after *http.Request, shown *clientcert.Certificate) error {
	if use.Credentialless {
		return nil
	}
	secrets, err := secretsOf(before, after)
	for _, piece := range shown.Secrets() {
		if len(piece) >= redact.MinSecret {
			secrets = append(secrets, piece)
		}
	}
	if err == nil {
		s.redactor, err = s.b.p.redactors.take(s.ctx, s.b.who, s.leaseID, secrets)
	}
	if _, denied := errors.AsType[*Denial](err); err == nil || denied || s.ctx.Err() != nil {
		return err
	}
	return deny(Doubt, err)
}

// discloses returns what finds credentials that the response creates; nil = the response creates
// none. If the names that a provider states cannot be searched for, the request is refused.
func (s *outbound) discloses(use broker.Usable, r *http.Request) (*redact.Named, error) {
	d, is := use.Injector.(provider.Discloser)
	if !is {
		return nil, nil
	}
	names := d.Discloses(r, use.Target)
	if names.Empty() {
		return nil, nil
	}
	return s.b.p.named.of(names)
}

// bodyChunk is how many bytes of a request body must arrive in each Config.BodyTime.
const bodyChunk = 4 << 10

// meteredBody is the body of a request to an upstream. Reading fails beyond Config.RequestBytes or
// Config.TaskBytes. The request is disconnected if the sandbox sends too slowly, until the upstream
// begins to respond: from then on both sides may take turns.
//
// After the end of the body Read keeps returning io.EOF. The body of an HTTP/1 server returns an error
// once the server has closed it. net/http, which reads once more after the declared length, would take
// that error for a broken request and drop the response.
type meteredBody struct {
	io.ReadCloser
	s    *outbound
	task *atomic.Int64

	ended bool          // the whole body was read
	left  time.Duration // remaining time for the missing part of the chunk
	fresh int           // bytes of the chunk that have arrived
	slow  *time.Timer
}

// Read implements io.Reader.
func (m *meteredBody) Read(p []byte) (int, error) {
	if m.ended {
		return 0, io.EOF
	}
	n, err := m.read(p)
	if err != nil && !errors.Is(err, io.EOF) && m.s.ctx.Err() == nil {
		err = deny(BadBody, err)
	}
	request, task := m.s.sent.Add(int64(n)), m.task.Add(int64(n))
	if request > m.s.b.p.cfg.RequestBytes || task > m.s.b.p.cfg.TaskBytes {
		return 0, deny(TooMuch, nil)
	}
	if m.ended = errors.Is(err, io.EOF); m.ended {
		m.s.sending.Store(false)
	}
	return n, err
}

// read limits how long the sandbox may take. Only the time spent waiting for the sandbox counts,
// not the time in which the upstream is slow to accept data.
func (m *meteredBody) read(p []byte) (int, error) {
	if m.s.answered.Load() {
		return m.ReadCloser.Read(p)
	}
	if m.slow == nil {
		m.slow = time.AfterFunc(m.left, func() {
			if !m.s.answered.Load() {
				m.s.disconnect(errSlow)
			}
		})
	} else {
		m.slow.Reset(m.left)
	}
	began := time.Now()
	n, err := m.ReadCloser.Read(p)
	m.slow.Stop()
	m.left = max(m.left-time.Since(began), 0)
	if m.fresh += n; m.fresh >= bodyChunk {
		m.fresh, m.left = 0, m.s.b.p.cfg.BodyTime
	}
	return n, err
}
