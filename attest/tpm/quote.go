package tpm

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/google/go-tpm/tpm2"
)

// quote is a TPMS_ATTEST that TPM2_Quote made.
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
	errMagic = errors.New("not made by a TPM (TPM_GENERATED_VALUE)")
	errType  = errors.New("not a quote (TPM_ST_ATTEST_QUOTE)")
	errBank  = errors.New("the quote is not of the SHA-256 bank alone")
)

// parseQuote reads a TPMS_ATTEST (TPM 2.0 Part 2, 10.12.12) with one selection of
// the SHA-256 bank.
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

// hierarchy is where the signer of q lives, as its Qualified Name tells: "owner",
// "endorsement", "platform" or "null" for a primary key, "ek" for a child of the
// EK, "other" when it has another parent, which nothing here names.
func (q *quote) hierarchy(ek, ak *public) (string, error) {
	if len(q.signer) != len(ak.name()) || !bytes.HasPrefix(q.signer, ak.name()[:2]) {
		return "", errors.New("the quote's signer is no key with a Name of SHA-256")
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
