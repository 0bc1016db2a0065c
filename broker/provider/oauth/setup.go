package oauth

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker/clientcert"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// CheckSetup implements provider.Checker: is every secret there, and does the
// server know the client? It uses no refresh token up.
func (d *Driver) CheckSetup(ctx context.Context) []provider.Finding {
	var out []provider.Finding
	fatal := func(what, remedy string) {
		out = append(out, provider.Finding{Fatal: true, What: what, Remedy: remedy})
	}
	if _, err := d.secret(); err != nil {
		fatal("The client's secret cannot be read.", "Write it to client.secret_file, mode 0600.")
	}
	c, err := d.certificate()
	switch {
	case err != nil:
		fatal("What the client certificate is read from does not hold one: "+err.Error()+".", "Write chain and private key to client.certificate_file as PEM, mode 0600.")
	case c != nil && c.NotAfter().Sub(d.now()) < clientcert.Soon:
		out = append(out, provider.Finding{What: "The client certificate, or one of its chain, expires on " + c.NotAfter().UTC().Format(time.RFC3339) + ", and nothing is minted or revoked from then on.", Remedy: "Put a new one in its place: it holds for the next call."})
	}
	for _, res := range slices.Sorted(maps.Keys(d.cfg.Grants)) {
		name := d.cfg.Grants[res].RefreshToken
		if name == "" {
			continue
		}
		if _, err := d.secrets.Get(ctx, name); err != nil {
			fatal("The refresh token of "+res+" is not in the secret store, or cannot be decrypted.", "ebb secrets put "+name+" < file")
		}
	}
	if d.cfg.RevocationEndpoint == "" {
		out = append(out, provider.Finding{What: "Tokens cannot be taken back before they expire.", Remedy: "Set revocation_endpoint if the server has one."})
		return out
	}
	// The revocation of an unknown token returns 200 (RFC 7009 section 2.2) if the client
	// authentication is valid.
	err = d.Revoke(ctx, provider.Target{Handle: secret.New("ebb-set-up-check")})
	if errors.Is(err, provider.ErrRefused) { // nothing could be sent, which is said above
		return out
	}
	if oe, ok := errors.AsType[*oauthError](err); ok {
		fatal("The server refuses the client: "+oe.Error()+".", "Check client.id, client.auth, the secret or the client certificate, and revocation_endpoint.")
	} else if err != nil {
		fatal("The server cannot be reached, or does not take the client certificate.", "Check the endpoints, ca_file, the client certificate, the proxy (HTTPS_PROXY) and the network.")
	}
	return out
}
