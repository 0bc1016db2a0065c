package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"ebb/attest/dpop"
	"ebb/attest/jose"
	"ebb/broker/provider"
)

// authorize adds an access token, and for a DPoP-bound one the proof that it is
// used by its holder (RFC 9449 section 7.1). htu is the public URL of the
// request. Without a token only the proof is added.
func authorize(r *http.Request, scheme string, token provider.Secret, key jose.Signer, htu, nonce string, now time.Time) error {
	if !token.Empty() {
		if scheme != "DPoP" && scheme != "Bearer" {
			return fmt.Errorf("client: a credential of type %s is no access token", scheme)
		}
		r.Header.Set("Authorization", scheme+" "+token.Reveal())
	}
	if key == nil {
		return nil
	}
	proof, err := dpop.NewProof(key, r.Method, htu, token.Reveal(), nonce, now)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	r.Header.Set("DPoP", proof)
	return nil
}

// setSecret puts a secret into a form.
func setSecret(form url.Values, name string, s provider.Secret) { form.Set(name, s.Reveal()) }

// ticketBody is the body of an enrolment by ticket.
func ticketBody(ticket provider.Secret) ([]byte, error) {
	return json.Marshal(map[string]string{"ticket": ticket.Reveal()})
}
