package nitro

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
)

// The limits of the document (verify-root.html). Where AWS states none, ebb sets one.
const (
	maxText      = 32 << 10 // base64; a document is 5 to 7 KiB
	maxModuleID  = 128
	maxBundle    = 8
	maxCert      = 1024
	maxField     = 1024
	maxIndex     = 31
	signatureLen = 96
)

// protected is {1: -35}, which allows only ES384 (RFC 9053, section 2.1).
var protected = []byte{0xa1, 0x01, 0x38, 0x22}

// noHeaders is the empty map.
var noHeaders = cbor.RawMessage{0xa0}

// envelope is COSE_Sign1 (RFC 9052, section 4.2) without its tag, as AWS makes it.
type envelope struct {
	_           struct{} `cbor:",toarray"`
	Protected   []byte
	Unprotected cbor.RawMessage
	Payload     []byte
	Signature   []byte
}

// payload is the signed map. AWS writes absent optional members as null or leaves them out.
// ByteString accepts only byte strings; []byte would accept a list of numbers too.
type payload struct {
	ModuleID    string                    `cbor:"module_id"`
	Digest      string                    `cbor:"digest"`
	Timestamp   uint64                    `cbor:"timestamp"` // ms since 1970
	PCRs        map[uint8]cbor.ByteString `cbor:"pcrs"`
	TPMPCRs     map[uint8]cbor.ByteString `cbor:"nitrotpm_pcrs"`
	Certificate cbor.ByteString           `cbor:"certificate"` // DER
	Bundle      []cbor.ByteString         `cbor:"cabundle"`    // root first
	PublicKey   cbor.ByteString           `cbor:"public_key"`
	UserData    cbor.ByteString           `cbor:"user_data"`
	Nonce       cbor.ByteString           `cbor:"nonce"`
}

// decoder decodes CBOR without the features that documents do not need. Lengths may be
// indefinite, because the hypervisors of AWS write the payload's map in that way and the
// signature covers its bytes. The envelope must have its canonical encoding.
type decoder struct{ cbor.DecMode }

func newDecoder() (decoder, error) {
	var nothing []func(*cbor.SimpleValueRegistry) error
	for n := range 256 {
		if n != 22 && (n < 24 || n > 31) { // 22 is null; 24 to 31 are not simple values
			nothing = append(nothing, cbor.WithRejectedSimpleValue(cbor.SimpleValue(n)))
		}
	}
	simple, err := cbor.NewSimpleValueRegistryFromDefaults(nothing...)
	if err != nil {
		return decoder{}, err
	}
	o := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthAllowed, TagsMd: cbor.TagsForbidden,
		MaxNestedLevels: 4, MaxArrayElements: 16, MaxMapPairs: maxIndex + 1,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField, UTF8: cbor.UTF8RejectInvalid,
		FieldNameMatching: cbor.FieldNameMatchingCaseSensitive, SimpleValues: simple,
		NaN: cbor.NaNDecodeForbidden, Inf: cbor.InfDecodeForbidden, BignumTag: cbor.BignumTagForbidden,
		BinaryUnmarshaler: cbor.BinaryUnmarshalerNone,
	}
	mode, err := o.DecMode()
	return decoder{mode}, err
}

// document decodes the document of a caller. It verifies nothing.
func (d decoder) document(text []byte) (*envelope, *payload, error) {
	if len(text) > maxText {
		return nil, nil, attest.Reject(attest.ReasonOversized, "the evidence is larger than an attestation document can be", nil)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(string(text))
	if err != nil || bytes.ContainsAny(text, "\r\n") { // the decoder skips line ends
		return nil, nil, malformed("the evidence is not base64 (standard alphabet, padded, on one line)", err)
	}
	e, err := d.envelope(raw)
	if err != nil {
		return nil, nil, err
	}
	var p payload
	if err := d.Unmarshal(e.Payload, &p); err != nil {
		return nil, nil, malformed("the payload of the attestation document is not what AWS documents", err)
	}
	if err := p.check(); err != nil {
		return nil, nil, malformed("a member of the attestation document is absent or has an impossible size", err)
	}
	return e, &p, nil
}

func (d decoder) envelope(raw []byte) (*envelope, error) {
	const public = "the evidence is not an untagged COSE_Sign1 document"
	var e envelope
	if err := d.Unmarshal(raw, &e); err != nil {
		return nil, malformed(public, err)
	}
	if !bytes.Equal(e.Protected, protected) || !bytes.Equal(e.Unprotected, noHeaders) {
		return nil, attest.Reject(attest.ReasonAlgorithm, "the attestation document must be signed with ES384 and have no other header", nil)
	}
	// The envelope has one encoding: shortest lengths, and no lists for byte strings.
	again, err := cbor.Marshal(e)
	if err != nil || !bytes.Equal(again, raw) {
		return nil, malformed(public, err)
	}
	if len(e.Signature) != signatureLen {
		return nil, attest.Reject(attest.ReasonSignature, "the signature of the attestation document does not have the length of ES384", nil)
	}
	return &e, nil
}

func (p *payload) check() error {
	within := func(b cbor.ByteString, least, most int) bool { return len(b) >= least && len(b) <= most }
	switch {
	case p.ModuleID == "" || len(p.ModuleID) > maxModuleID || !jose.Plain(p.ModuleID):
		return errors.New("module_id")
	case p.Digest != "SHA384":
		return errors.New("digest")
	case !within(p.Certificate, 1, maxCert):
		return errors.New("certificate")
	case len(p.Bundle) == 0 || len(p.Bundle) > maxBundle || slices.ContainsFunc(p.Bundle, func(c cbor.ByteString) bool { return !within(c, 1, maxCert) }):
		return errors.New("cabundle")
	case !within(p.PublicKey, 0, maxField) || !within(p.UserData, 0, maxField) || !within(p.Nonce, 0, maxField):
		return errors.New("public_key, user_data or nonce")
	}
	for _, registers := range []map[uint8]cbor.ByteString{p.PCRs, p.TPMPCRs} {
		for n, v := range registers {
			if n > maxIndex || !registerSize(len(v)) {
				return errors.New("a register")
			}
		}
	}
	return nil
}

func malformed(public string, cause error) error {
	return attest.Reject(attest.ReasonMalformed, public, cause)
}

// chain has the certificates of a document, leaf first, root last.
type chain []*x509.Certificate

// readChain parses the certificates and requires the order that AWS documents, so that there
// is exactly one path. The root must be the pinned one.
func readChain(p *payload, root [sha256.Size]byte) (chain, error) {
	if sha256.Sum256(p.Bundle[0].Bytes()) != root {
		return nil, attest.Reject(attest.ReasonIssuer, "the cabundle of the attestation document does not begin with the root that ebb trusts", nil)
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
			return nil, attest.Reject(attest.ReasonIssuer, "the certificates of the attestation document are not in the order of their path", nil)
		}
		seen[subject] = true
		c[i] = cert
	}
	return c, nil
}

// verify validates the chain (X.509) at one time and returns the time until which all of it
// is valid.
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
			return time.Time{}, attest.Reject(attest.ReasonAlgorithm, "a certificate of the attestation document does not use ECDSA with P-384 and SHA-384", err)
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
		return time.Time{}, attest.Reject(attest.ReasonIssuer, "the certificate of the attestation document is not for signing documents", nil)
	}
	// Each subject occurs once, so the only path uses the whole chain.
	if _, err := c[0].Verify(opts); err != nil {
		return time.Time{}, attest.Reject(attest.ReasonIssuer, "the certificates of the attestation document have no path to the root that ebb trusts", err)
	}
	return until, nil
}

// usual returns an error for algorithms that this PKI does not use. The signature of the
// root is not checked, because the root is pinned.
func usual(cert *x509.Certificate, root bool) error {
	if key, is := cert.PublicKey.(*ecdsa.PublicKey); !is || key.Curve != elliptic.P384() {
		return errors.New("its key")
	}
	if !root && cert.SignatureAlgorithm != x509.ECDSAWithSHA384 {
		return errors.New("its signature")
	}
	return nil
}

// signed verifies the leaf's signature over the Sig_structure (RFC 9052, section 4.4).
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
