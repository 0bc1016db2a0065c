package egress

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/provider"
)

// authorize returns the lease by which a request may be sent, the request with the lease's
// credential, and the request without it. If the provider judges bodies, the named lease need not
// cover the request: git names one lease for all of its requests, also after the sandbox has got a
// wider one. Then another lease of the caller at the same provider is used.
func (s *outbound) authorize(r *http.Request) (use broker.Usable, before, out *http.Request, err error) {
	if use, err = s.use(); err != nil {
		return use, nil, nil, err
	}
	// Not the context of r: its trace would pass interim responses (1xx) on unchecked.
	before = r.Clone(s.ctx)
	dropPlaceholder(before)
	if err := s.meter(before); err != nil {
		return use, nil, nil, err
	}
	if out, err = s.cover(use, before); errors.Is(err, provider.ErrElsewhere) {
		use, out, err = s.another(use, before, err)
	}
	if err != nil {
		err = s.answerable(before, err)
	}
	return use, before, out, err
}

// cover returns a copy of a request with the credential of a lease that covers it.
func (s *outbound) cover(use broker.Usable, before *http.Request) (*http.Request, error) {
	if use.Injector == nil {
		return nil, deny(NotAllowed, provider.Elsewhere("its credential is for sessions, not for HTTP requests"))
	}
	out := before.Clone(before.Context())
	switch err := use.Injector.Inject(out.Context(), out, use.Target); {
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
	err := s.judge(use, out)
	before.Body = out.Body // of which a part may have been read
	return out, err
}

// judge has the provider read the body of a request, if scopes of the provider limit what bodies
// do. The audit log entry of the request gets the facts, also if the request is refused.
func (s *outbound) judge(use broker.Usable, r *http.Request) error {
	judge, is := use.Injector.(provider.ContentJudge)
	if !is {
		return nil
	}
	facts, err := judge.Judge(s.ctx, r, use.Target)
	if facts.Kind != "" {
		s.x.Content = &facts
		if text, failed := json.Marshal(facts); failed != nil || len(text) > content.MaxFacts {
			s.x.Content, err = nil, content.Refuse("it does too much for one audit log entry: send several requests")
		}
	}
	if err == nil {
		err = onlyApproved(use, r, facts)
	}
	var refused *content.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return deny(BadContent, err)
	case errors.Is(err, provider.ErrElsewhere):
		if e, is := errors.AsType[*provider.UncoveredError](err); is && s.x.Content != nil {
			e.Content = broker.ContentID(facts)
		}
		return deny(NotAllowed, err)
	case errors.As(err, new(*Denial)), s.unread.Load(), s.ctx.Err() != nil: // of the limits of the body
		return err
	}
	return deny(Doubt, err)
}

// onlyApproved returns an error if people have limited a lease to one content, and the request does
// something else. Requests that only read, such as the first one of a push, have none.
func onlyApproved(use broker.Usable, r *http.Request, facts content.Facts) error {
	reads := facts.Kind == "" && (r.Method == http.MethodGet || r.Method == http.MethodHead)
	if only := use.Lease.Content; only == nil || reads || facts.Sum() == only.Sum() {
		return nil
	}
	return &provider.UncoveredError{Needed: use.Target.Scopes, Why: "the approval of its lease is for another request than this"}
}

// maxOthers bounds the leases that are tried for one request.
const maxOthers = 8

// another looks for a lease of the caller that covers a request, beside the one that was named and
// refused.
func (s *outbound) another(named broker.Usable, before *http.Request, refused error) (broker.Usable, *http.Request, error) {
	if _, is := named.Injector.(provider.ContentJudge); !is || !s.b.workLimits.missed.Allow() {
		return named, nil, refused
	}
	leases, err := s.b.p.cfg.Leases.Injectable(s.ctx, s.b.who)
	if err != nil {
		return named, nil, err
	}
	tried := 0
	for _, l := range leases {
		if l.Provider != named.Provider || l.ID == named.Target.LeaseID {
			continue
		}
		if tried++; tried > maxOthers {
			break
		}
		s.dependOn(l.ID) // before the lease is checked, so that no revocation is missed
		use, err := s.b.p.cfg.Leases.Use(s.ctx, s.b.who, l.ID)
		if err != nil {
			continue
		}
		out, err := s.cover(use, before)
		if err == nil {
			s.endAt(use.Target.ExpiresAt)
			return use, out, nil
		}
		if errors.As(err, new(*provider.UncoveredError)) { // it names what the whole request needs
			refused = err
		}
	}
	s.dependOn(named.Target.LeaseID)
	return named, nil, refused
}

// dependOn makes the request end with this lease in place of the one before.
func (s *outbound) dependOn(leaseID string) {
	s.done()
	s.leaseID = leaseID
	s.endWithLease()
}

// endAt disconnects the request at this time.
func (s *outbound) endAt(t time.Time) {
	if s.expiry != nil {
		s.expiry.Stop()
	}
	s.ends = t
	s.expiry = time.AfterFunc(s.remaining(), func() { s.disconnect(errExpiry) })
}

// answerable reads the rest of a body, if the refusal of the request is an answer with status 200:
// clients read such an answer only after they have sent everything.
func (s *outbound) answerable(r *http.Request, refused error) error {
	e, is := errors.AsType[*provider.UncoveredError](refused)
	if !is || e.Reply == nil || r.Body == nil {
		return refused
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return refused
}
