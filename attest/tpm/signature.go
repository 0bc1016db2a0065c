package tpm

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"math/big"

	"github.com/google/go-tpm/tpm2"
)

// signature is a TPMT_SIGNATURE over SHA-256.
type signature struct {
	scheme tpm2.TPMAlgID
	rsa    []byte
	r, s   []byte
}

// parseSignature reads a TPMT_SIGNATURE (TPM 2.0 Part 2, 11.3.4).
func parseSignature(b []byte) (*signature, error) {
	r := &reader{b: b}
	s := &signature{scheme: r.alg()}
	if r.alg() != tpm2.TPMAlgSHA256 {
		r.fail(errValue)
	}
	switch s.scheme {
	case tpm2.TPMAlgRSASSA, tpm2.TPMAlgRSAPSS:
		s.rsa = r.sized(maxModulus)
	case tpm2.TPMAlgECDSA:
		s.r, s.s = r.sized(maxElement), r.sized(maxElement)
	default:
		r.fail(errValue)
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	return s, nil
}

var errSignature = errors.New("the signature is not the AK's")

// verify says whether the AK made s over message with the AK's own scheme.
func (s *signature) verify(ak *public, key crypto.PublicKey, message []byte) error {
	if s.scheme != ak.scheme {
		return errors.New("the signature has another scheme than the AK")
	}
	sum := sha256.Sum256(message)
	switch key := key.(type) {
	case *rsa.PublicKey:
		if s.scheme == tpm2.TPMAlgRSASSA {
			return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], s.rsa)
		}
		// A TPM's salt is of the digest's length or as long as fits (Part 1, B.7).
		return rsa.VerifyPSS(key, crypto.SHA256, sum[:], s.rsa, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthAuto})
	case *ecdsa.PublicKey:
		if ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(s.r), new(big.Int).SetBytes(s.s)) {
			return nil
		}
	}
	return errSignature
}
