package receipt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"ebb/attest/jose"
)

// Type is the typ of a receipt's JWS (RFC 8725 section 3.11).
const Type = "ebb-revocation-receipt+jwt"

// maxSize is far above a receipt that names as many credentials as it may.
const maxSize = 1 << 20

// Sign makes the JWS of a receipt.
func Sign(signer jose.Signer, kid string, r Receipt) (string, error) {
	if kid == "" {
		return "", errors.New("receipt: it needs the id of the key")
	}
	if err := r.check(); err != nil {
		return "", fmt.Errorf("receipt: %w", err)
	}
	jws, err := jose.Sign(signer, jose.SignHeader{Type: Type, KID: kid}, r)
	if err != nil {
		return "", fmt.Errorf("receipt: %w", err)
	}
	return jws, nil
}

// Verify checks that a JWS is a receipt by one of keys and holds nothing that this
// package does not know. issuer "" accepts any. The error says what is wrong with
// the receipt, and never "could not judge".
func Verify(jws string, keys jose.KeySet, issuer string, now time.Time) (Receipt, error) {
	named := func(h jose.Header) (jose.Key, error) {
		if h.KID == "" {
			return jose.Key{}, jose.KeyUnknown()
		}
		return keys.Key(h)
	}
	c, err := jose.Verify(jws, jose.Profile{
		Types: []string{Type}, Algs: []jose.Alg{jose.ES256, jose.EdDSA, jose.RS256},
		Issuer: issuer, AnyIssuer: issuer == "", AnyAudience: true, NoExp: true, Leeway: time.Minute,
		Limits: jose.Limits{Size: maxSize, Depth: 4, Members: 32 * (Shown + 2)},
	}, named, now)
	if err != nil {
		return Receipt{}, fmt.Errorf("the receipt is not signed by a key that was given, or was altered: %w", err)
	}
	var r Receipt
	d := json.NewDecoder(bytes.NewReader(c.Payload()))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return Receipt{}, fmt.Errorf("the receipt holds what this version does not know: %w", err)
	}
	if err := r.check(); err != nil {
		return Receipt{}, fmt.Errorf("the receipt contradicts itself: %w", err)
	}
	return r, nil
}
