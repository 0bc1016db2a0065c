package nitro

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/ebb-broker/ebb/attest"
)

// chain is the certificates of a document, leaf first, root last.
type chain []*x509.Certificate

// readChain parses them and holds them to the order that AWS documents, so that
// there is one path to try and no search. The root must be the pinned one.
func readChain(p *payload, root [sha256.Size]byte) (chain, error) {
	if sha256.Sum256(p.Bundle[0].Bytes()) != root {
		return nil, attest.Reject(attest.ReasonIssuer, "the attestation document does not begin its cabundle with the root that ebb trusts", nil)
	}
	ders := append(slices.Clone(p.Bundle), p.Certificate)
	slices.Reverse(ders)
	c := make(chain, len(ders))
	seen := map[string]bool{}
	for i, der := range ders {
		cert, err := x509.ParseCertificate(der.Bytes())
		if err != nil {
			return nil, malformed("a certificate of the attestation document cannot be read", err)
		}
		subject := string(cert.RawSubject)
		if seen[subject] || i > 0 && !bytes.Equal(c[i-1].RawIssuer, cert.RawSubject) {
			return nil, attest.Reject(attest.ReasonIssuer, "the certificates of the attestation document are not a path in order", nil)
		}
		seen[subject] = true
		c[i] = cert
	}
	return c, nil
}

// verify holds the chain to X.509 at one time, and says until when all of it is valid.
func (c chain) verify(now time.Time) (until time.Time, err error) {
	until = c[0].NotAfter
	opts := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	for i, cert := range c {
		if now.Before(cert.NotBefore) {
			return time.Time{}, attest.Reject(attest.ReasonNotYetValid, "a certificate of the attestation document is not valid yet", nil)
		}
		if !now.Before(cert.NotAfter) {
			return time.Time{}, attest.Reject(attest.ReasonExpired, "a certificate of the attestation document has expired", nil)
		}
		if cert.NotAfter.Before(until) {
			until = cert.NotAfter
		}
		if err := usual(cert, i == len(c)-1); err != nil {
			return time.Time{}, attest.Reject(attest.ReasonAlgorithm, "a certificate of the attestation document is not of ECDSA with P-384 and SHA-384", err)
		}
		switch i {
		case 0:
		case len(c) - 1:
			opts.Roots.AddCert(cert)
		default:
			opts.Intermediates.AddCert(cert)
		}
	}
	const may = x509.KeyUsageDigitalSignature
	if c[0].IsCA || c[0].KeyUsage&(may|x509.KeyUsageCertSign) != may {
		return time.Time{}, attest.Reject(attest.ReasonIssuer, "the certificate of the attestation document is not one for signing documents", nil)
	}
	// Each name is there once, so a path is all of the chain.
	if _, err := c[0].Verify(opts); err != nil {
		return time.Time{}, attest.Reject(attest.ReasonIssuer, "the certificates of the attestation document do not lead to the root that ebb trusts", err)
	}
	return until, nil
}

// usual keeps out algorithms that this PKI does not use. Who signed the root is nobody's business: it is pinned.
func usual(cert *x509.Certificate, root bool) error {
	if key, is := cert.PublicKey.(*ecdsa.PublicKey); !is || key.Curve != elliptic.P384() {
		return errors.New("its key")
	}
	if !root && cert.SignatureAlgorithm != x509.ECDSAWithSHA384 {
		return errors.New("its signature")
	}
	return nil
}

// signed checks the signature of the leaf over the Sig_structure (RFC 9052, section 4.4).
func (c chain) signed(e *envelope) error {
	key, is := c[0].PublicKey.(*ecdsa.PublicKey)
	if !is {
		return errors.New("attest/nitro: the chain was not verified")
	}
	structure, err := cbor.Marshal([]any{"Signature1", e.Protected, []byte{}, e.Payload})
	if err != nil {
		return fmt.Errorf("attest/nitro: %w", err)
	}
	digest := sha512.Sum384(structure)
	r, s := new(big.Int).SetBytes(e.Signature[:signatureLen/2]), new(big.Int).SetBytes(e.Signature[signatureLen/2:])
	if !ecdsa.Verify(key, digest[:], r, s) {
		return attest.Reject(attest.ReasonSignature, "the signature of the attestation document does not verify", nil)
	}
	return nil
}
