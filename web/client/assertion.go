package client

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/web/wire"
)

const assertionLife = time.Minute

// authenticate adds private_key_jwt to a form (RFC 7523 section 2.2): the
// issuer is the sole audience (RFC 7523bis), and every assertion is used once.
func (p *peer) authenticate(form url.Values, clientID string, key jose.Signer, kid string) error {
	now := p.now()
	assertion, err := jose.Sign(key, jose.SignHeader{Type: "client-authentication+jwt", KID: kid}, map[string]any{
		"iss": clientID, "sub": clientID, "aud": p.issuer, "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(assertionLife).Unix(),
	})
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	form.Set("client_id", clientID)
	form.Set("client_assertion_type", wire.AssertionTypeJWTBearer)
	form.Set("client_assertion", assertion)
	return nil
}
