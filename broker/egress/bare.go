package egress

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"ebb/broker"
	"ebb/broker/exact"
	"ebb/broker/provider"
)

// bare finds the lease by which a request leaves that holds no placeholder: one to whose
// requests nothing is added, and that is for this one. Without it the request stays, as one
// that a credential belongs into. What the box has put into it as a credential is out already.
func (b *box) bare(r *http.Request, h exact.Host) (leaseID string, err error) {
	out := r.Clone(r.Context())
	out.Body, out.URL.Scheme, out.URL.Host, out.Host = http.NoBody, "https", h.String(), ""
	all, asked, err := b.bares.list(r.Context(), b, false)
	if err != nil {
		return "", err
	}
	if leaseID, err = among(r, out, all); asked || err == nil || reasonOf(err) != NoPlaceholder {
		return leaseID, err
	}
	if all, _, err = b.bares.list(r.Context(), b, true); err != nil { // what was issued just now
		return "", err
	}
	return among(r, out, all)
}

// among is the first lease that is for a request.
func among(r, out *http.Request, all []broker.Usable) (leaseID string, err error) {
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

// bareAge is how old a list of leases may be. Whether one of them is alive is asked for
// each request all the same.
const bareAge = time.Second

// bares are the leases of a box by which requests leave that hold no placeholder.
type bares struct {
	mu  sync.Mutex // one question of a box at a time
	at  time.Time
	all []broker.Usable
}

// list asks for them when it has none that are new enough, as often as a box may have
// things looked up.
func (l *bares) list(ctx context.Context, b *box, again bool) (all []broker.Usable, asked bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := b.p.cfg.Now()
	if age := now.Sub(l.at); !again && !l.at.IsZero() && age >= 0 && age < bareAge {
		return l.all, false, nil
	}
	if !b.free.unknown.Allow() {
		return nil, false, deny(TooOften, nil)
	}
	if l.all, err = b.p.cfg.Leases.Bare(ctx, b.who); err != nil {
		l.at = time.Time{}
		return nil, true, err
	}
	l.at = now
	return l.all, true, nil
}
