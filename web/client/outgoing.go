package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/wire"
)

// authorize adds an access token, and for a DPoP-bound token the proof of
// possession (RFC 9449 section 7.1). htu is the public URL of the request.
// Without a token it adds only the proof.
func authorize(r *http.Request, scheme string, token secret.Secret, key jose.Signer, htu, nonce string, now time.Time) error {
	if !token.Empty() {
		if scheme != "DPoP" && scheme != "Bearer" {
			return fmt.Errorf("client: a credential of type %s is not an access token and cannot be sent in an Authorization header", scheme)
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

// setSecret adds a secret to a form.
func setSecret(form url.Values, name string, s secret.Secret) { form.Set(name, s.Reveal()) }

// ticketBody returns the body of an enrolment by ticket.
func ticketBody(ticket secret.Secret) ([]byte, error) {
	return json.Marshal(wire.EnrolmentBody{Ticket: ticket.Reveal()})
}
