package receipt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
)

// Type is the typ of a receipt's JWS (RFC 8725 section 3.11).
const Type = "ebb-revocation-receipt+jwt"

// maxSize is far above a receipt that names as many credentials as it may.
const maxSize = 1 << 20

// Sign returns the compact JWS of a receipt.
func Sign(signer jose.Signer, kid string, r Receipt) (string, error) {
	if kid == "" {
		return "", errors.New("receipt: the key id (kid) of the signing key is required")
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

// Verify checks that jws is a receipt that one of keys signed, without unknown members. An empty
// issuer accepts any issuer. The error always names a defect of the receipt; Verify needs nothing
// that can be unavailable.
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
		return Receipt{}, fmt.Errorf("the receipt was altered, or none of the given keys signed it: %w", err)
	}
	var r Receipt
	d := json.NewDecoder(bytes.NewReader(c.Payload()))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return Receipt{}, fmt.Errorf("the receipt has a member that this version of ebb does not know; verify it with the version that issued it: %w", err)
	}
	if err := r.check(); err != nil {
		return Receipt{}, fmt.Errorf("the receipt contradicts itself: %w", err)
	}
	return r, nil
}
