package tpm

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/go-tpm/tpm2"

	"github.com/ebb-broker/ebb/attest"
)

// quote has the contents of a TPMS_ATTEST from TPM2_Quote.
type quote struct {
	signer  []byte // Qualified Name
	extra   []byte
	resets  uint32
	starts  uint32
	indexes []int // of the PCRs, ascending
	digest  []byte
}

const (
	magic     = 0xff544347 // TPM_GENERATED_VALUE
	typeQuote = 0x8018     // TPM_ST_ATTEST_QUOTE
	pcrBytes  = 3          // PCR 0 to 23
)

var (
	errMagic = errors.New("the signed structure was not made by a TPM (TPM_GENERATED_VALUE)")
	errType  = errors.New("the signed structure is not a quote (TPM_ST_ATTEST_QUOTE)")
	errBank  = errors.New("the quote does not select exactly the SHA-256 bank")
)

// parseQuote parses a TPMS_ATTEST (TPM 2.0 Part 2, 10.12.12) with one selection of the
// SHA-256 bank.
func parseQuote(b []byte) (*quote, error) {
	r := &reader{b: b}
	if r.u32() != magic {
		r.fail(errMagic)
	}
	if r.u16() != typeQuote {
		r.fail(errType)
	}
	q := &quote{signer: r.sized(2 + maxDigest), extra: r.sized(2 + maxDigest)}
	r.u64() // clock
	q.resets, q.starts = r.u32(), r.u32()
	if safe := r.u8(); safe > 1 {
		r.fail(errValue)
	}
	r.u64() // firmwareVersion
	if r.u32() != 1 || r.alg() != tpm2.TPMAlgSHA256 {
		r.fail(errBank)
	}
	if r.u8() != pcrBytes {
		r.fail(errValue)
	}
	for i, octet := range r.take(pcrBytes) {
		for bit := range 8 {
			if octet&(1<<bit) != 0 {
				q.indexes = append(q.indexes, 8*i+bit)
			}
		}
	}
	q.digest = r.sized(maxDigest)
	if err := r.end(); err != nil {
		return nil, err
	}
	return q, nil
}

// hierarchy returns the hierarchy of the signer of q, from its Qualified Name: "owner",
// "endorsement", "platform" or "null" for a primary key, "ek" for a child of the EK, "other"
// for a key with another parent, which the evidence does not identify.
func (q *quote) hierarchy(ek, ak *public) (string, error) {
	if len(q.signer) != len(ak.name()) || !bytes.HasPrefix(q.signer, ak.name()[:2]) {
		return "", errors.New("the quote's signer does not have a Name with SHA-256")
	}
	handle := func(h tpm2.TPMHandle) []byte { return binary.BigEndian.AppendUint32(nil, uint32(h)) }
	for _, at := range []struct {
		name   string
		parent []byte
	}{
		{"owner", handle(tpm2.TPMRHOwner)}, {"endorsement", handle(tpm2.TPMRHEndorsement)},
		{"platform", handle(tpm2.TPMRHPlatform)}, {"null", handle(tpm2.TPMRHNull)},
	} {
		if bytes.Equal(q.signer, qualified(at.parent, ak.name())) {
			return at.name, nil
		}
	}
	if ek.nameAlg == tpm2.TPMAlgSHA256 && bytes.Equal(q.signer, qualified(qualified(handle(tpm2.TPMRHEndorsement), ek.name()), ak.name())) {
		return "ek", nil
	}
	return "other", nil
}

const pcrCount = 8 * pcrBytes

// pcrs are SHA-256 values of PCRs by index.
type pcrs map[int][]byte

// resettable are PCRs that any software can reset to zero: debug and application support (PC
// Client Platform TPM Profile, 4.6).
var resettable = []int{16, 23}

// tells reports whether a PCR value, in hex, is a measurement of the started software. It is
// not when any software can reset the PCR, or when nothing was measured into it. PCRs start
// as zeros, those of the dynamic root of trust (17 to 22) as ones.
func tells(i int, value string) bool {
	return !slices.Contains(resettable, i) && strings.Trim(value, "0") != "" && strings.Trim(value, "f") != ""
}

// parseIndex parses the decimal index of a PCR, without leading zeros.
func parseIndex(text string) (int, error) {
	i, err := strconv.Atoi(text)
	if err != nil || i < 0 || i >= pcrCount || strconv.Itoa(i) != text {
		return 0, fmt.Errorf("the text is not the decimal index of a PCR from 0 to %d", pcrCount-1)
	}
	return i, nil
}

// of returns nil when v has exactly the values that q quotes.
func (v pcrs) of(q *quote) error {
	have := slices.Sorted(maps.Keys(v))
	if !slices.Equal(have, q.indexes) {
		return errors.New("the values are for other PCRs than the quote")
	}
	h := sha256.New()
	for _, i := range have {
		h.Write(v[i])
	}
	if !bytes.Equal(h.Sum(nil), q.digest) {
		return errors.New("the digest in the quote differs from the digest of the values")
	}
	return nil
}

// allowed returns nil when each pinned PCR is present with one of its allowed values.
func (v pcrs) allowed(pinned map[int][][]byte) error {
	for _, i := range slices.Sorted(maps.Keys(pinned)) {
		got, quoted := v[i]
		if !quoted {
			return fmt.Errorf("PCR %d is not in the quote", i)
		}
		if !slices.ContainsFunc(pinned[i], func(want []byte) bool { return bytes.Equal(want, got) }) {
			return fmt.Errorf("PCR %d has a value that is not allowed", i)
		}
	}
	return nil
}

const (
	maxChain = 6
	maxCert  = 8 << 10
)

// request is the part that both steps have in common: the TPM and its attestation key.
type request struct {
	EKCert   []string `json:"ek_cert"`   // DER, leaf first
	EKPublic string   `json:"ek_public"` // TPMT_PUBLIC
	AKPublic string   `json:"ak_public"` // TPMT_PUBLIC
}

// answer is the evidence. All binary members are base64 (RFC 4648, section 4).
type answer struct {
	Nonce string `json:"nonce"`
	request
	Secret    string            `json:"secret"` // the result of ActivateCredential
	Quote     string            `json:"quote"`  // TPMS_ATTEST
	Signature string            `json:"signature"`
	PCRs      map[string]string `json:"pcrs"` // hex in lower case by decimal index
}

// credential is the document of a challenge, for ActivateCredential. Both members are TPM2Bs
// with their size, as tpm2-tools and TSS read them.
type credential struct {
	Blob   string `json:"credential_blob"` // TPM2B_ID_OBJECT
	Secret string `json:"secret"`          // TPM2B_ENCRYPTED_SECRET
}

// decode decodes a document strictly: one JSON object and no other data.
func decode(doc []byte, to any) error {
	if len(doc) > attest.MaxDocument {
		return attest.Reject(attest.ReasonOversized, "the evidence is too large; docs/attestors/tpm.md describes its form", nil)
	}
	if len(doc) < 2 || doc[0] != '{' || doc[len(doc)-1] != '}' {
		return malformed(errors.New("the document is not one JSON object"))
	}
	if err := jsonv2.Unmarshal(doc, to, jsonv2.RejectUnknownMembers(true)); err != nil {
		return malformed(err)
	}
	return nil
}

func malformed(err error) error {
	return attest.Reject(attest.ReasonMalformed, "the evidence does not have the form that docs/attestors/tpm.md describes", err)
}

// binary64 decodes base64 in its only canonical encoding: padded, without line ends, and
// with zeros in the unused bits.
func binary64(name, text string, limit int) ([]byte, error) {
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || base64.StdEncoding.EncodedLen(len(b)) != len(text) || len(b) == 0 || len(b) > limit {
		return nil, malformed(fmt.Errorf("%s is not base64, or has a size that is not allowed", name))
	}
	return b, nil
}

// shown is a parsed request.
type shown struct {
	chain  [][]byte
	ek, ak *public
}

const maxPublic = 1 << 10

func (q *request) read() (*shown, error) {
	if len(q.EKCert) == 0 || len(q.EKCert) > maxChain {
		return nil, malformed(fmt.Errorf("ek_cert must have 1 to %d certificates", maxChain))
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

// quoted is the parsed part that an answer has in addition to its request.
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
		return nil, malformed(errors.New("pcrs is empty"))
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

// parseValue parses the SHA-256 value of a PCR in lower-case hex.
func parseValue(text string) ([]byte, error) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != sha256.Size || hex.EncodeToString(b) != text {
		return nil, errors.New("a value does not have 64 lower-case hex digits")
	}
	return b, nil
}
