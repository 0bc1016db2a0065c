package static

import (
	"context"
	"errors"

	"ebb/broker/provider"
)

// CheckSetup implements provider.Checker.
func (d *Driver) CheckSetup(ctx context.Context) (out []provider.Finding) {
	_, err := d.fit(ctx)
	remedy := "Look at the broker's access to where the secret is."
	if d.cfg.Vault == nil {
		remedy = "ebb secrets put " + d.cfg.Secret + " < file"
	}
	switch {
	case errors.Is(err, errMissing):
		out = append(out, provider.Finding{Fatal: true, What: "The secret is not there.", Remedy: remedy})
	case errors.Is(err, errUnfit):
		out = append(out, provider.Finding{Fatal: true, What: "The secret is shorter than 8 bytes or longer than 8192, so that answers could not be searched for it, or it holds line ends or characters that do not belong where it goes.", Remedy: remedy})
	case err != nil:
		out = append(out, provider.Finding{Fatal: true, What: "The secret could not be read: " + err.Error() + ".", Remedy: "Look at the broker's access to where the secret is."})
	}
	if d.cfg.Inject.Query != "" {
		out = append(out, provider.Finding{What: "The secret goes into the query, which servers tend to log.", Remedy: "Use a header, if the API takes one."})
	}
	return out
}
