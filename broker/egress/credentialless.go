package egress

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

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
		s.done()
		s.leaseID = leaseID
		s.endWithLease()
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
	if all, err = b.p.cfg.Leases.Bare(ctx, b.who); err != nil {
		return nil, true, err
	}
	l.all, l.know = all, true
	return all, true, nil
}
