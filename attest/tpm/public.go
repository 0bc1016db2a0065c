package tpm

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"

	"github.com/google/go-tpm/tpm2"
)

// Attributes of an object (TPM 2.0 Part 2, 8.3, TPMA_OBJECT).
const (
	attrFixedTPM            = 1 << 1
	attrFixedParent         = 1 << 4
	attrSensitiveDataOrigin = 1 << 5
	attrRestricted          = 1 << 16
	attrDecrypt             = 1 << 17
	attrSign                = 1 << 18

	attrBorn = attrFixedTPM | attrFixedParent | attrSensitiveDataOrigin
)

const (
	maxDigest   = 64  // SHA-512
	maxModulus  = 512 // RSA-4096
	maxElement  = 66  // P-521
	defaultExpo = 65537
)

// public is a TPMT_PUBLIC of an RSA or ECC key.
type public struct {
	raw        []byte
	kind       tpm2.TPMAlgID // RSA or ECC
	nameAlg    tpm2.TPMAlgID
	attributes uint32
	symmetric  tpm2.TPMAlgID // Null for a signing key
	symBits    uint16
	symMode    tpm2.TPMAlgID
	scheme     tpm2.TPMAlgID // Null for a decryption key
	schemeHash tpm2.TPMAlgID
	bits       uint16 // RSA
	exponent   uint32 // RSA, 0 = 65537
	curve      tpm2.TPMECCCurve
	n, x, y    []byte
}

func (r *reader) alg() tpm2.TPMAlgID { return tpm2.TPMAlgID(r.u16()) }

// parsePublic parses a TPMT_PUBLIC (TPM 2.0 Part 2, 12.2.4).
func parsePublic(b []byte) (*public, error) {
	r := &reader{b: b}
	p := &public{raw: b, kind: r.alg(), nameAlg: r.alg(), attributes: r.u32()}
	r.sized(maxDigest) // authPolicy: only the TPM itself uses it
	if p.kind != tpm2.TPMAlgRSA && p.kind != tpm2.TPMAlgECC {
		r.fail(errValue)
	}
	if p.symmetric = r.alg(); p.symmetric != tpm2.TPMAlgNull {
		p.symBits, p.symMode = r.u16(), r.alg()
	}
	switch p.scheme = r.alg(); p.scheme {
	case tpm2.TPMAlgNull:
	case tpm2.TPMAlgRSASSA, tpm2.TPMAlgRSAPSS, tpm2.TPMAlgECDSA:
		p.schemeHash = r.alg()
	default:
		r.fail(errValue)
	}
	if p.kind == tpm2.TPMAlgRSA {
		p.bits, p.exponent = r.u16(), r.u32()
		p.n = r.sized(maxModulus)
	} else {
		p.curve = tpm2.TPMECCCurve(r.u16())
		if r.alg() != tpm2.TPMAlgNull { // kdf; current keys have none
			r.fail(errValue)
		}
		p.x, p.y = r.sized(maxElement), r.sized(maxElement)
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	return p, nil
}

// key returns the public key, after validating it.
func (p *public) key() (crypto.PublicKey, error) {
	if p.kind == tpm2.TPMAlgRSA {
		n, e := new(big.Int).SetBytes(p.n), p.exponent
		if e == 0 {
			e = defaultExpo
		}
		if n.BitLen() != int(p.bits) || len(p.n)*8 != int(p.bits) || n.Bit(0) == 0 || e != defaultExpo {
			return nil, errors.New("the RSA key has a size or exponent that is not allowed")
		}
		return &rsa.PublicKey{N: n, E: int(e)}, nil
	}
	var curve elliptic.Curve
	switch p.curve {
	case tpm2.TPMECCNistP256:
		curve = elliptic.P256()
	case tpm2.TPMECCNistP384:
		curve = elliptic.P384()
	default:
		return nil, errors.New("the curve is neither P-256 nor P-384")
	}
	size := (curve.Params().BitSize + 7) / 8
	if len(p.x) > size || len(p.y) > size {
		return nil, errSize
	}
	point := make([]byte, 1+2*size)
	point[0] = 4 // uncompressed, SEC 1
	copy(point[1+size-len(p.x):], p.x)
	copy(point[1+2*size-len(p.y):], p.y)
	return ecdsa.ParseUncompressedPublicKey(curve, point)
}

// name returns the Name of the object (TPM 2.0 Part 1, 16).
func (p *public) name() []byte {
	h := crypto.SHA256
	if p.nameAlg == tpm2.TPMAlgSHA384 {
		h = crypto.SHA384
	}
	d := h.New()
	d.Write(p.raw)
	return d.Sum(binary.BigEndian.AppendUint16(nil, uint16(p.nameAlg)))
}

// checkEK returns nil when p is a key to which credentials are encrypted: it was made in its
// TPM, cannot leave it, and decrypts only structures that the TPM interprets.
func (p *public) checkEK() error {
	switch {
	case p.attributes&(attrBorn|attrRestricted|attrDecrypt|attrSign) != attrBorn|attrRestricted|attrDecrypt:
		return errors.New("the attributes of the EK are not exactly fixedTPM, fixedParent, sensitiveDataOrigin, restricted and decrypt")
	case p.nameAlg != tpm2.TPMAlgSHA256 && p.nameAlg != tpm2.TPMAlgSHA384:
		return errors.New("the EK's name algorithm is neither SHA-256 nor SHA-384")
	case p.scheme != tpm2.TPMAlgNull:
		return errors.New("the EK has a scheme")
	case p.symmetric != tpm2.TPMAlgAES || p.symMode != tpm2.TPMAlgCFB || p.symBits != 128 && p.symBits != 192 && p.symBits != 256:
		return errors.New("the EK's symmetric algorithm is not AES in CFB mode")
	case p.kind == tpm2.TPMAlgRSA && p.bits != 2048 && p.bits != 3072 && p.bits != 4096:
		return errors.New("the EK is not RSA of 2048, 3072 or 4096 bits")
	}
	return nil
}

// checkAK returns nil when p is a restricted signing key, which signs only data that its TPM
// made, and when p was made in that TPM and cannot leave it.
func (p *public) checkAK() error {
	switch {
	case p.attributes&(attrBorn|attrRestricted|attrDecrypt|attrSign) != attrBorn|attrRestricted|attrSign:
		return errors.New("the attributes of the AK are not exactly fixedTPM, fixedParent, sensitiveDataOrigin, restricted and sign")
	case p.nameAlg != tpm2.TPMAlgSHA256 || p.schemeHash != tpm2.TPMAlgSHA256:
		return errors.New("the AK's name algorithm or signing algorithm does not use SHA-256")
	case p.symmetric != tpm2.TPMAlgNull:
		return errors.New("the AK has a symmetric algorithm")
	case p.kind == tpm2.TPMAlgRSA && p.bits == 2048 && (p.scheme == tpm2.TPMAlgRSASSA || p.scheme == tpm2.TPMAlgRSAPSS),
		p.kind == tpm2.TPMAlgECC && p.curve == tpm2.TPMECCNistP256 && p.scheme == tpm2.TPMAlgECDSA:
		return nil
	}
	return errors.New("the AK is neither ECDSA on P-256 nor RSA-2048 with a fixed scheme")
}

// encapsulation returns the EK in the form that go-tpm needs for MakeCredential. The caller
// has called checkEK and key.
func (p *public) encapsulation() (tpm2.LabeledEncapsulationKey, error) {
	sym := tpm2.TPMTSymDefObject{Algorithm: tpm2.TPMAlgAES, KeyBits: tpm2.NewTPMUSymKeyBits(tpm2.TPMAlgAES, tpm2.TPMKeyBits(p.symBits)),
		Mode: tpm2.NewTPMUSymMode(tpm2.TPMAlgAES, tpm2.TPMAlgCFB)}
	t := &tpm2.TPMTPublic{Type: p.kind, NameAlg: p.nameAlg}
	if p.kind == tpm2.TPMAlgRSA {
		t.Parameters = tpm2.NewTPMUPublicParms(p.kind, &tpm2.TPMSRSAParms{Symmetric: sym, KeyBits: tpm2.TPMKeyBits(p.bits), Exponent: p.exponent})
		t.Unique = tpm2.NewTPMUPublicID(p.kind, &tpm2.TPM2BPublicKeyRSA{Buffer: p.n})
	} else {
		t.Parameters = tpm2.NewTPMUPublicParms(p.kind, &tpm2.TPMSECCParms{Symmetric: sym, CurveID: p.curve})
		t.Unique = tpm2.NewTPMUPublicID(p.kind, &tpm2.TPMSECCPoint{X: tpm2.TPM2BECCParameter{Buffer: p.x}, Y: tpm2.TPM2BECCParameter{Buffer: p.y}})
	}
	k, err := tpm2.ImportEncapsulationKey(t)
	if err != nil {
		return nil, fmt.Errorf("the EK: %w", err)
	}
	return k, nil
}

// qualified returns the Qualified Name of a key with this Name under a parent with that
// Qualified Name (TPM 2.0 Part 1, 16.4), both with SHA-256.
func qualified(parent, name []byte) []byte {
	h := sha256.New()
	h.Write(parent)
	h.Write(name)
	return h.Sum(binary.BigEndian.AppendUint16(nil, uint16(tpm2.TPMAlgSHA256)))
}

// signature is a TPMT_SIGNATURE over SHA-256.
type signature struct {
	scheme tpm2.TPMAlgID
	rsa    []byte
	r, s   []byte
}

// parseSignature parses a TPMT_SIGNATURE (TPM 2.0 Part 2, 11.3.4).
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

var errSignature = errors.New("the signature does not verify with the AK")

// verify returns nil when s is a signature of the AK over message with the AK's own scheme.
func (s *signature) verify(ak *public, key crypto.PublicKey, message []byte) error {
	if s.scheme != ak.scheme {
		return errors.New("the scheme of the signature differs from that of the AK")
	}
	sum := sha256.Sum256(message)
	switch key := key.(type) {
	case *rsa.PublicKey:
		if s.scheme == tpm2.TPMAlgRSASSA {
			return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], s.rsa)
		}
		// The salt of a TPM is as long as the digest, or as long as fits (Part 1, B.7).
		return rsa.VerifyPSS(key, crypto.SHA256, sum[:], s.rsa, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthAuto})
	case *ecdsa.PublicKey:
		if ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(s.r), new(big.Int).SetBytes(s.s)) {
			return nil
		}
	}
	return errSignature
}

var (
	errShort    = errors.New("the structure ends too early")
	errTrailing = errors.New("the structure is followed by more data")
	errSize     = errors.New("a field is larger than its maximum")
	errValue    = errors.New("a field has a value that is not accepted")
)

// reader parses big-endian TPM structures (TPM 2.0 Part 2). It keeps the first error.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err == nil && len(r.b) < n {
		r.err = errShort
	}
	if r.err != nil {
		return make([]byte, n)
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) u8() uint8 { return r.take(1)[0] }

func (r *reader) u16() uint16 { return binary.BigEndian.Uint16(r.take(2)) }

func (r *reader) u32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }

func (r *reader) u64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

// sized reads a TPM2B of at most limit bytes.
func (r *reader) sized(limit int) []byte {
	n := int(r.u16())
	if n > limit {
		r.fail(errSize)
		return nil
	}
	return r.take(n)
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// end returns the first error, or errTrailing when data is left.
func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		r.err = errTrailing
	}
	return r.err
}
