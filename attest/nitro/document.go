package nitro

import (
	"bytes"
	"encoding/base64"
	"errors"
	"slices"

	"github.com/fxamacker/cbor/v2"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
)

// The limits of the document (verify-root.html), and ours where AWS names none.
const (
	maxText      = 32 << 10 // base64; a document is 5 to 7 KiB
	maxModuleID  = 128
	maxBundle    = 8
	maxCert      = 1024
	maxField     = 1024
	maxIndex     = 31
	signatureLen = 96
)

// protected is {1: -35}: ES384 and nothing else (RFC 9053, section 2.1).
var protected = []byte{0xa1, 0x01, 0x38, 0x22}

// noHeaders is the empty map.
var noHeaders = cbor.RawMessage{0xa0}

// envelope is COSE_Sign1 (RFC 9052, section 4.2), without its tag: so AWS makes it.
type envelope struct {
	_           struct{} `cbor:",toarray"`
	Protected   []byte
	Unprotected cbor.RawMessage
	Payload     []byte
	Signature   []byte
}

// payload is the signed map. What AWS may leave out it also writes as null. A
// ByteString takes byte strings alone, where []byte would take a list of numbers.
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

// decoder reads CBOR and no more than documents need. Lengths may be indefinite,
// because the hypervisors of AWS write the payload's map so, and the signature covers
// its bytes as they are; the envelope is held to one encoding.
type decoder struct{ cbor.DecMode }

func newDecoder() (decoder, error) {
	var nothing []func(*cbor.SimpleValueRegistry) error
	for n := range 256 {
		if n != 22 && (n < 24 || n > 31) { // 22 is null; 24 to 31 are no simple values
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

// document reads what a caller has sent. Nothing in it is verified yet.
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
	// One document has one encoding: no longer lengths, no lists for byte strings.
	again, err := cbor.Marshal(e)
	if err != nil || !bytes.Equal(again, raw) {
		return nil, malformed(public, err)
	}
	if len(e.Signature) != signatureLen {
		return nil, attest.Reject(attest.ReasonSignature, "the signature of the attestation document is not one of ES384", nil)
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
