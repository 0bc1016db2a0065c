package dpop

import (
	"crypto/rand"
	"errors"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
)

type proofClaims struct {
	JTI   string `json:"jti"`
	HTM   string `json:"htm"`
	HTU   string `json:"htu"`
	IAT   int64  `json:"iat"`
	ATH   string `json:"ath,omitempty"`
	Nonce string `json:"nonce,omitempty"`
}

// NewProof makes a proof for one request. accessToken is "" when none is sent
// (then there is no ath); nonce is the last DPoP-Nonce of that server, "" for
// none. Query and fragment of the URL are left out (RFC 9449, section 4.2).
func NewProof(s jose.Signer, method, url, accessToken, nonce string, now time.Time) (string, error) {
	htu, ok := normalHTU(url)
	if !ok {
		return "", errors.New("dpop: the URL is not an absolute http or https URL")
	}
	c := proofClaims{JTI: rand.Text(), HTM: method, HTU: htu, IAT: now.Unix(), Nonce: nonce}
	if accessToken != "" {
		c.ATH = AccessTokenHash(accessToken)
	}
	return jose.Sign(s, jose.SignHeader{Type: proofType, EmbedKey: true}, c)
}
