package egress

import (
	"context"
	"errors"
	"net/http"
	"time"

	"ebb/broker"
	"ebb/broker/exact"
	"ebb/broker/provider"
)

// bare finds the lease by which a request leaves that holds no placeholder: one to whose
// requests nothing is added, and that is for this one. Without it the request stays, as one
// that a credential belongs into. What the box has put into it as a credential is out already.
func (b *box) bare(ctx context.Context, r *http.Request, h exact.Host) (leaseID string, err error) {
	all, asked, err := b.bares.list(ctx, b, false)
	if err != nil {
		return "", err
	}
	if leaseID, err = among(r, h, all); asked || err == nil || reasonOf(err) != NoPlaceholder {
		return leaseID, err
	}
	return b.bareAnew(ctx, r, h) // by what was issued just now
}

// bareAnew does so by a list that is read now.
func (b *box) bareAnew(ctx context.Context, r *http.Request, h exact.Host) (leaseID string, err error) {
	all, _, err := b.bares.list(ctx, b, true)
	if err != nil {
		return "", err
	}
	return among(r, h, all)
}

// among is the first lease that is for a request, judged as it is when it leaves.
func among(r *http.Request, h exact.Host, all []broker.Usable) (leaseID string, err error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host, out.Host = "https", h.String(), ""
	if out.ContentLength == 0 {
		out.Body = http.NoBody
	}
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

// usable asks whether the lease may be used. One that ebb has chosen may have ended since it was
// listed: then another is looked for, once, and what is under way ends with that one.
func (s *sending) usable() (broker.Usable, error) {
	for again := s.anew != nil; ; again = false {
		use, err := s.b.p.cfg.Leases.Use(s.ctx, s.b.who, s.leaseID)
		over := err != nil && reasonOf(err) == NoCredential
		if err == nil || over {
			s.b.free.judged(s.leaseID, err == nil)
		}
		if !over || !again {
			return use, err
		}
		leaseID, err := s.anew()
		if err != nil {
			return broker.Usable{}, err
		}
		s.done()
		s.leaseID = leaseID
		s.lives()
	}
}

// bareAge is how old a list of leases may be. Whether one of them is alive is asked for
// each request all the same.
const bareAge = time.Second

// bares are the leases of a box by which requests leave that hold no placeholder. turn has
// room for one: the other fields are of who has put something in.
type bares struct {
	turn chan struct{}
	at   time.Time // when they were asked for last
	know bool      // what the answer was
	all  []broker.Usable
}

// list asks for them when it has none that are new enough, and otherwise as often as a box
// may have things looked up.
func (l *bares) list(ctx context.Context, b *box, again bool) (all []broker.Usable, asked bool, err error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	now := b.p.cfg.Now()
	age := now.Sub(l.at)
	due := l.at.IsZero() || age < 0 || age >= bareAge
	if !due && l.know && !again {
		return l.all, false, nil
	}
	// Once a second is for nothing: no miss of one tool keeps another's requests here.
	if !due && !b.free.missed.Allow() {
		return nil, false, deny(TooOften, nil)
	}
	l.at, l.know = now, false
	if all, err = b.p.cfg.Leases.Bare(ctx, b.who); err != nil {
		return nil, true, err
	}
	l.all, l.know = all, true
	return all, true, nil
}
