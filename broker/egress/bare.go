package egress

import (
	"errors"
	"net/http"

	"ebb/broker/exact"
	"ebb/broker/provider"
)

// bare finds the lease by which a request leaves that holds no placeholder: one to whose
// requests nothing is added, and that is for this one. Without it the request stays, as one
// that a credential belongs into. What the box has put into it as a credential is out already.
func (b *box) bare(r *http.Request, h exact.Host) (leaseID string, err error) {
	all, err := b.p.cfg.Leases.Bare(r.Context(), b.who)
	if err != nil {
		return "", err
	}
	out := r.Clone(r.Context())
	out.Body, out.URL.Scheme, out.URL.Host, out.Host = http.NoBody, "https", h.String(), ""
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
