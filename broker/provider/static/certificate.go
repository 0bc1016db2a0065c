package static

import (
	"context"
	"net/http"
	"time"

	"github.com/ebb-broker/ebb/broker/clientcert"
	"github.com/ebb-broker/ebb/broker/provider"
)

// Presents implements provider.Presenter. The certificate is read for each request, as the secret
// is.
func (d *Driver) Presents(ctx context.Context, r *http.Request, t provider.Target) (*clientcert.Certificate, error) {
	if t.LeaseID == "" || !t.Now.Before(t.ExpiresAt) {
		return nil, errOver
	}
	if err := d.mine(r, t); err != nil {
		return nil, err
	}
	return d.certificate(ctx)
}

// certificate is the one there is now, nil = none is configured.
func (d *Driver) certificate(ctx context.Context) (*clientcert.Certificate, error) {
	if d.pem == nil {
		return nil, nil //nolint:nilnil // nil stands for none
	}
	s, err := d.pem(ctx)
	if err != nil {
		return nil, err
	}
	return clientcert.Parse(s.Reveal(), d.now())
}

// until is when a lease ends that would at end: servers go on with a connection whose client's
// certificate has expired meanwhile, and ebb does not.
func (d *Driver) until(ctx context.Context, end time.Time) (time.Time, error) {
	c, err := d.certificate(ctx)
	if err != nil || c == nil || end.Before(c.NotAfter()) {
		return end, err
	}
	return c.NotAfter(), nil
}
