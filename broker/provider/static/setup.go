package static

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker/clientcert"
	"github.com/ebb-broker/ebb/broker/provider"
)

// CheckSetup implements provider.Checker.
func (d *Driver) CheckSetup(ctx context.Context) (out []provider.Finding) {
	_, err := d.fit(ctx)
	out = unread(err, Kept{d.cfg.Secret, d.cfg.Vault})
	if errors.Is(err, errUnfit) {
		out[0].What = "The secret is shorter than 8 bytes or longer than 8192, so that answers could not be searched for it, or it holds line ends or characters that do not belong where it goes."
	}
	if d.cfg.Inject.Query != "" {
		out = append(out, provider.Finding{What: "The secret goes into the query, which servers tend to log.", Remedy: "Use a header, if the API takes one."})
	}
	if d.pem == nil {
		return out
	}
	c, err := d.certificate(ctx)
	switch {
	case err != nil:
		found := unread(err, *d.cfg.ClientCertificate)
		if errors.Is(err, errMissing) {
			found[0].What = "The client certificate is not there."
		}
		out = append(out, found...)
	case c.NotAfter().Sub(d.now()) < clientcert.Soon:
		out = append(out, provider.Finding{What: "The client certificate, or one of its chain, expires on " + c.NotAfter().UTC().Format(time.RFC3339) + ", and leases end with it.", Remedy: "Put a new one in its place: it holds for the next request."})
	}
	return out
}

// unread returns the finding for a secret that cannot be read or used, with the operator's next
// step.
func unread(err error, k Kept) []provider.Finding {
	f := provider.Finding{Fatal: true, Remedy: "Look at the broker's access to where the secret is."}
	if err == nil {
		return nil
	}
	if k.Vault == nil {
		f.Remedy = "ebb secrets put " + k.Secret + " < file"
	}
	switch {
	case errors.Is(err, errMissing):
		f.What = "The secret is not there."
	case errors.Is(err, clientcert.ErrUnusable):
		f.What = strings.ToUpper(err.Error()[:1]) + err.Error()[1:] + "."
	case !errors.Is(err, errUnfit):
		f.What, f.Remedy = "The secret could not be read: "+err.Error()+".", "Look at the broker's access to where the secret is."
	}
	return []provider.Finding{f}
}
