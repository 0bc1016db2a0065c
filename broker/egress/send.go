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

	"ebb/broker"
	"ebb/broker/egress/redact"
	"ebb/broker/exact"
	"ebb/broker/provider"
)

// sending is one request on its way out and its answer on the way back. It is used once.
type sending struct {
	b       *box
	ctx     context.Context // ends with the task and the lease
	cut     context.CancelCauseFunc
	leaseID string
	done    func()                             // it no longer lives by leaseID
	anew    func() (leaseID string, err error) // chooses it again; nil = the box has named it
	host    exact.Host
	tunnel  *tunnel
	upgrade *upgrade // nil = it is no WebSocket
	scribe  *scribe  // nil = no rule wants it written down

	x        broker.Exchange // what the record says of it
	allowed  bool            // it is on the record as such
	began    time.Time
	sent     atomic.Int64
	received atomic.Int64
	answered atomic.Bool                  // the upstream has begun to
	unread   atomic.Bool                  // the body of the request cannot be read
	broken   atomic.Bool                  // the answer has not come to its end
	ended    atomic.Pointer[exact.Reason] // why a WebSocket did, where ebb ended it; nil = no such reason
	long     bool                         // the answer says that it is
	pool     *pool                        // of the upstream

	ends     time.Time       // when the lease has had its time
	expiry   *time.Timer     // cuts then
	redactor *redactor       // of what was added; nil = nothing was
	named    *redact.Named   // credentials that the answer makes; nil = it makes none
	sealing  *broker.Sealing // what the answer may make; nil = nothing that is kept
	members  []string        // of the answer that hold it
	hidden   []*redactor     // of what it has made, for all else of the answer
	echoes   atomic.Int64    // secrets that came back
}

// over lets go of what it holds, when the answer is all back.
func (s *sending) over() {
	if s.expiry != nil {
		s.expiry.Stop()
	}
	s.written() // while it is known still what is secret
	s.unseal()
	if s.redactor != nil {
		s.b.p.redactors.give(s.redactor, s.life())
	}
	if s.pool != nil {
		s.b.p.pools.leave(s.pool, s.b.p.cfg.Now())
	}
	s.finish()
	if s.done != nil {
		s.done()
	}
}

// lives has it end with its lease from here on.
func (s *sending) lives() { s.done = s.b.p.cuts.add(s.cut, s.leaseID) }

// life is for how long the lease may be used still, 0 when it was cut. Who only hangs up ends
// nothing.
func (s *sending) life() time.Duration {
	if cause := context.Cause(s.ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return 0
	}
	return s.ends.Sub(s.b.p.cfg.Now())
}

// authority is what Host says: without the port that https has.
func (s *sending) authority() string {
	if s.host.Port == 443 {
		return s.host.Name
	}
	return s.host.String()
}

// RoundTrip implements http.RoundTripper. The credential is asked for when everything
// else is done, and is in a copy of the request that nothing but the transport sees. If
// its lease ends from here on, the context of the request does, too.
func (s *sending) RoundTrip(r *http.Request) (*http.Response, error) {
	use, err := s.use()
	if err != nil {
		return nil, err
	}
	if use.Injector == nil {
		return nil, deny(NotAllowed, errors.New("the credential opens sessions, and is for no request"))
	}
	// Not the context of r: by that, interim answers would go back unread.
	out := r.Clone(s.ctx)
	dropPlaceholder(out)
	before := out.Clone(out.Context())
	switch err := use.Injector.Inject(out.Context(), out, use.Target); {
	case errors.Is(err, provider.ErrElsewhere):
		return nil, deny(NotAllowed, err)
	case err != nil:
		return nil, deny(Doubt, err)
	}
	if s.upgrade != nil && !upgrades(use, out) {
		return nil, deny(NotAllowed, errors.New("its lease is for no WebSocket"))
	}
	if strayIn(out.Header) { // a claim that nobody has signed anew
		return nil, deny(StrayPlaceholder, nil)
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
	if err := s.meter(out); err != nil {
		return nil, err
	}
	if s.pool, err = s.b.p.pool(s.b.who, use.Target, s.host, shown); err != nil {
		return nil, err
	}
	if err := s.writeDown(use); err != nil {
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

// use asks for the credential, which is cut from here on when its time is over.
func (s *sending) use() (broker.Usable, error) {
	if s.anew == nil && !s.b.free.asks(s.leaseID) { // what ebb has chosen is no guess
		return broker.Usable{}, deny(TooOften, nil)
	}
	use, err := s.usable()
	if err != nil {
		return broker.Usable{}, err
	}
	s.ends = use.Target.ExpiresAt
	s.expiry = time.AfterFunc(s.life(), func() { s.cut(errExpiry) })
	return use, nil
}

// dropPlaceholder removes it from the query, the one place that Clean leaves, however it
// is escaped there.
func dropPlaceholder(r *http.Request) {
	r.URL.RawQuery = strings.Join(slices.DeleteFunc(strings.Split(r.URL.RawQuery, "&"), func(parameter string) bool {
		text, err := url.QueryUnescape(parameter)
		return err != nil || holds(text)
	}), "&")
}

// answer is what comes back, before anything of it goes to the box.
func (s *sending) answer(r *http.Response) error {
	s.answered.Store(true)
	s.x.Status, s.long = r.StatusCode, r.ContentLength >= longAnswer
	if r.StatusCode == http.StatusSwitchingProtocols && s.upgrade != nil {
		return s.switched(r)
	}
	if r.StatusCode == http.StatusSwitchingProtocols || !identity(r.Header.Values("Content-Encoding")) {
		return deny(BadAnswer, errors.New("the answer is in a form that cannot be read for secrets"))
	}
	if s.sealed(r.StatusCode) {
		return s.seal(r)
	}
	s.clean(r.Header)
	s.clean(r.Trailer) // of which the names are announced
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if s.redactor == nil && s.named == nil {
		r.Body = &answerBody{ReadCloser: r.Body, s: s, r: r}
		return nil
	}
	// A mark is shorter or longer than what it stands for: where it ends is said as it goes.
	// ContentLength stays: an answer that has one is no stream, see flushTime.
	if r.Request == nil || r.Request.Method != http.MethodHead {
		r.Header.Del("Content-Length")
	}
	dropDigests(r.Header)
	count := func(n int) { s.echoes.Add(int64(n)) }
	if s.redactor != nil {
		r.Body = s.redactor.Reader(r.Body, count)
	}
	if s.named != nil {
		r.Body = s.named.Reader(r.Body, count)
	}
	r.Body = &answerBody{ReadCloser: r.Body, s: s, r: r}
	return nil
}

// answerBody is a body whose trailers are read as its headers were.
type answerBody struct {
	io.ReadCloser
	s *sending
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
