package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/ebb-broker/ebb/broker/provider"
)

// Revoke implements RFC 7009 for the access token alone: the refresh token is
// shared by all leases, and revoking it would end them all. Where the server has
// no revocation the token's own expiry is its end, which the class says.
func (d *Driver) Revoke(ctx context.Context, t provider.Target) error {
	if t.Handle.Empty() {
		return fmt.Errorf("oauth: %w", provider.ErrLost)
	}
	if d.cfg.RevocationEndpoint == "" {
		return nil
	}
	body, err := d.post(ctx, d.cfg.RevocationEndpoint, url.Values{"token": {t.Handle.Reveal()}, "token_type_hint": {"access_token"}})
	if err == nil && bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) {
		// RFC 7009 section 2.2 has clients ignore the body of a 200 response. An HTML page,
		// however, comes from a sign-in page or a portal on the way, and not from the revocation
		// endpoint.
		return errors.New("oauth: the revocation endpoint answered with an HTML page: the token may still be valid; look for a proxy or a sign-in page in front of the server")
	}
	if oe, ok := errors.AsType[*oauthError](err); ok && oe.code == "unsupported_token_type" {
		return fmt.Errorf("the server does not revoke access tokens, so revocation_endpoint must not be configured: %w", err)
	}
	return err
}

// prober is a Driver whose server has an introspection endpoint.
type prober struct{ *Driver }

// Probe implements provider.Prober by RFC 7662.
func (d prober) Probe(ctx context.Context, t provider.Target) (alive bool, err error) {
	if t.Handle.Empty() {
		return false, errors.New("oauth: there is no token to ask for")
	}
	body, err := d.post(ctx, d.cfg.IntrospectionEndpoint, url.Values{"token": {t.Handle.Reveal()}, "token_type_hint": {"access_token"}})
	if err != nil {
		return false, err
	}
	var doc struct {
		Active *bool `json:"active"`
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := dec.Decode(&doc); err != nil || dec.More() || doc.Active == nil {
		return false, errors.New("oauth: the answer of the introspection endpoint does not say whether the token is active")
	}
	return *doc.Active, nil
}
