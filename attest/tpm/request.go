package tpm

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/ebb-broker/ebb/attest"
)

const (
	maxChain = 6
	maxCert  = 8 << 10
)

// request is what both steps show: which TPM and which key of it.
type request struct {
	EKCert   []string `json:"ek_cert"`   // DER, leaf first
	EKPublic string   `json:"ek_public"` // TPMT_PUBLIC
	AKPublic string   `json:"ak_public"` // TPMT_PUBLIC
}

// answer is the evidence. All binary members are base64 (RFC 4648, section 4).
type answer struct {
	Nonce string `json:"nonce"`
	request
	Secret    string            `json:"secret"` // what ActivateCredential gave out
	Quote     string            `json:"quote"`  // TPMS_ATTEST
	Signature string            `json:"signature"`
	PCRs      map[string]string `json:"pcrs"` // hex in lower case by decimal index
}

// credential is what Challenge sends, for ActivateCredential: both are TPM2Bs with
// their size, as tpm2-tools and TSS read them.
type credential struct {
	Blob   string `json:"credential_blob"` // TPM2B_ID_OBJECT
	Secret string `json:"secret"`          // TPM2B_ENCRYPTED_SECRET
}

// decode reads a document that is one strict JSON object and nothing around it.
func decode(doc []byte, to any) error {
	if len(doc) > attest.MaxDocument {
		return attest.Reject(attest.ReasonOversized, "the evidence is too large", nil)
	}
	if len(doc) < 2 || doc[0] != '{' || doc[len(doc)-1] != '}' {
		return malformed(errors.New("not one JSON object"))
	}
	if err := jsonv2.Unmarshal(doc, to, jsonv2.RejectUnknownMembers(true)); err != nil {
		return malformed(err)
	}
	return nil
}

func malformed(err error) error {
	return attest.Reject(attest.ReasonMalformed, "the evidence is not what the attestor's page asks for", err)
}

// binary64 decodes base64 in its one spelling: padded, without line ends, and with
// nothing in the bits that are left over.
func binary64(name, text string, limit int) ([]byte, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || base64.StdEncoding.EncodedLen(len(b)) != len(text) || len(b) == 0 || len(b) > limit {
		return nil, malformed(fmt.Errorf("%s is not base64 or of another size", name))
	}
	return b, nil
}

// shown is a request, read.
type shown struct {
	chain  [][]byte
	ek, ak *public
}

const maxPublic = 1 << 10

func (q *request) read() (*shown, error) {
	if len(q.EKCert) == 0 || len(q.EKCert) > maxChain {
		return nil, malformed(fmt.Errorf("ek_cert holds 1 to %d certificates", maxChain))
	}
	s := &shown{}
	for _, text := range q.EKCert {
		der, err := binary64("ek_cert", text, maxCert)
		if err != nil {
			return nil, err
		}
		s.chain = append(s.chain, der)
	}
	for _, k := range []struct {
		name, text string
		to         **public
	}{{"ek_public", q.EKPublic, &s.ek}, {"ak_public", q.AKPublic, &s.ak}} {
		b, err := binary64(k.name, k.text, maxPublic)
		if err != nil {
			return nil, err
		}
		if *k.to, err = parsePublic(b); err != nil {
			return nil, malformed(fmt.Errorf("%s: %w", k.name, err))
		}
	}
	return s, nil
}

// quoted is what an answer adds to its request, read.
type quoted struct {
	secret    []byte
	raw       []byte
	signature *signature
	pcrs      pcrs
}

const (
	maxQuote     = 1 << 10
	maxSignature = 1 << 10
)

func (a *answer) readQuote() (*quoted, error) {
	q := &quoted{pcrs: pcrs{}}
	var sig []byte
	for _, m := range []struct {
		name, text string
		limit      int
		to         *[]byte
	}{{"secret", a.Secret, maxDigest, &q.secret}, {"quote", a.Quote, maxQuote, &q.raw}, {"signature", a.Signature, maxSignature, &sig}} {
		b, err := binary64(m.name, m.text, m.limit)
		if err != nil {
			return nil, err
		}
		*m.to = b
	}
	var err error
	if q.signature, err = parseSignature(sig); err != nil {
		return nil, malformed(fmt.Errorf("signature: %w", err))
	}
	if len(a.PCRs) == 0 {
		return nil, malformed(errors.New("pcrs: none"))
	}
	for index, text := range a.PCRs {
		i, err := parseIndex(index)
		if err != nil {
			return nil, malformed(fmt.Errorf("pcrs: %w", err))
		}
		if q.pcrs[i], err = parseValue(text); err != nil {
			return nil, malformed(fmt.Errorf("pcrs: %w", err))
		}
	}
	return q, nil
}

// parseValue reads the SHA-256 value of a PCR in its one spelling.
func parseValue(text string) ([]byte, error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != sha256.Size || hex.EncodeToString(b) != text {
		return nil, errors.New("a value is not 64 digits of hex in lower case")
	}
	return b, nil
}
