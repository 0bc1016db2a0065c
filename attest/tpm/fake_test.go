package tpm_test

import (
	"bytes"
	"crypto"
	"crypto/aes"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-tpm/tpm2"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/tpm"
)

// RSA keys take long to make: each is made once.
var (
	rsaEK = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	rsaAK = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ecKey() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) }

// maker is a maker of TPMs: a root, and a CA below it that certifies EKs.
type maker struct {
	now           time.Time
	root, ca      *x509.Certificate
	rootKey, caPK *ecdsa.PrivateKey
	file          string
}

func newMaker(t testing.TB, now time.Time, change ...func(*x509.Certificate)) *maker {
	t.Helper()
	m := &maker{now: now, rootKey: ecKey(), caPK: ecKey()}
	authority := func(name string) *x509.Certificate {
		return &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, BasicConstraintsValid: true, IsCA: true,
			KeyUsage: x509.KeyUsageCertSign, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(1000 * time.Hour)}
	}
	root, ca := authority("root"), authority("ca")
	for _, f := range change {
		f(ca)
	}
	m.root = must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, root, root, &m.rootKey.PublicKey, m.rootKey))))
	m.ca = must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, ca, m.root, &m.caPK.PublicKey, m.rootKey))))
	m.file = filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(m.file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.root.Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

// san is a critical subject alternative name with a directoryName as EKs have it.
func san(types ...int) pkix.Extension {
	var rdns pkix.RDNSequence
	for _, n := range types {
		rdns = append(rdns, pkix.RelativeDistinguishedNameSET{{Type: asn1.ObjectIdentifier{2, 23, 133, 2, n}, Value: "id:EBB" + strconv.Itoa(n)}})
	}
	name := asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 4, IsCompound: true, Bytes: must(asn1.Marshal(rdns))}
	return pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Critical: true, Value: must(asn1.Marshal([]asn1.RawValue{name}))}
}

// certify makes an EK certificate and the path to the root, without it.
func (m *maker) certify(ek crypto.PublicKey, change func(*x509.Certificate)) [][]byte {
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: m.now.Add(-time.Hour), NotAfter: m.now.Add(100 * time.Hour),
		KeyUsage: x509.KeyUsageKeyEncipherment, UnknownExtKeyUsage: []asn1.ObjectIdentifier{{2, 23, 133, 8, 1}}, ExtraExtensions: []pkix.Extension{san(1, 2, 3)}}
	if change != nil {
		change(leaf)
	}
	return [][]byte{must(x509.CreateCertificate(rand.Reader, leaf, m.ca, ek, m.caPK)), m.ca.Raw}
}

// box imitates a TPM with one EK and one AK.
type box struct {
	ek, ak           crypto.Signer
	ekPublic         tpm2.TPMTPublic
	akPublic         tpm2.TPMTPublic
	chain            [][]byte
	pcrs             map[int][]byte
	resets, restarts uint32

	quoteOf   func(*parts)               // changes what is signed
	signWith  crypto.Signer              // instead of ak
	ekBytes   func([]byte) []byte        // changes the structures
	akBytes   func([]byte) []byte        //
	sigBytes  func([]byte) []byte        //
	attBytes  func([]byte) []byte        // before it is signed
	activated func(secret []byte) []byte // changes what ActivateCredential gave
	doc       func(map[string]any)       // changes the JSON
	shownPCRs func(map[string]string)    // changes the values that are shown
}

func point(k *ecdsa.PrivateKey) *tpm2.TPMSECCPoint {
	b := must(k.PublicKey.Bytes())
	half := (len(b) - 1) / 2
	return &tpm2.TPMSECCPoint{X: tpm2.TPM2BECCParameter{Buffer: b[1 : 1+half]}, Y: tpm2.TPM2BECCParameter{Buffer: b[1+half:]}}
}

func ecEKPublic(k *ecdsa.PrivateKey) tpm2.TPMTPublic {
	p := tpm2.ECCEKTemplate
	p.Unique = tpm2.NewTPMUPublicID(tpm2.TPMAlgECC, point(k))
	return p
}

func rsaEKPublic(k *rsa.PrivateKey) tpm2.TPMTPublic {
	p := tpm2.RSAEKTemplate
	p.Unique = tpm2.NewTPMUPublicID(tpm2.TPMAlgRSA, &tpm2.TPM2BPublicKeyRSA{Buffer: k.N.Bytes()})
	return p
}

var akAttributes = tpm2.TPMAObject{FixedTPM: true, FixedParent: true, SensitiveDataOrigin: true, UserWithAuth: true, Restricted: true, SignEncrypt: true}

func ecAKPublic(k *ecdsa.PrivateKey) tpm2.TPMTPublic {
	p := ecAKTemplate()
	p.Unique = tpm2.NewTPMUPublicID(tpm2.TPMAlgECC, point(k))
	return p
}

func ecAKTemplate() tpm2.TPMTPublic {
	return tpm2.TPMTPublic{Type: tpm2.TPMAlgECC, NameAlg: tpm2.TPMAlgSHA256, ObjectAttributes: akAttributes,
		Parameters: tpm2.NewTPMUPublicParms(tpm2.TPMAlgECC, &tpm2.TPMSECCParms{CurveID: tpm2.TPMECCNistP256,
			Scheme: tpm2.TPMTECCScheme{Scheme: tpm2.TPMAlgECDSA, Details: tpm2.NewTPMUAsymScheme(tpm2.TPMAlgECDSA, &tpm2.TPMSSigSchemeECDSA{HashAlg: tpm2.TPMAlgSHA256})}})}
}

func rsaAKTemplate(scheme tpm2.TPMAlgID) tpm2.TPMTPublic {
	details := tpm2.NewTPMUAsymScheme(tpm2.TPMAlgRSASSA, &tpm2.TPMSSigSchemeRSASSA{HashAlg: tpm2.TPMAlgSHA256})
	if scheme == tpm2.TPMAlgRSAPSS {
		details = tpm2.NewTPMUAsymScheme(tpm2.TPMAlgRSAPSS, &tpm2.TPMSSigSchemeRSAPSS{HashAlg: tpm2.TPMAlgSHA256})
	}
	return tpm2.TPMTPublic{Type: tpm2.TPMAlgRSA, NameAlg: tpm2.TPMAlgSHA256, ObjectAttributes: akAttributes,
		Parameters: tpm2.NewTPMUPublicParms(tpm2.TPMAlgRSA, &tpm2.TPMSRSAParms{KeyBits: 2048, Scheme: tpm2.TPMTRSAScheme{Scheme: scheme, Details: details}})}
}

// newBox has an ECC EK and an ECC AK.
func newBox(m *maker) *box {
	ek, ak := ecKey(), ecKey()
	return &box{ek: ek, ak: ak, ekPublic: ecEKPublic(ek), akPublic: ecAKPublic(ak), chain: m.certify(&ek.PublicKey, nil), resets: 3, restarts: 1,
		pcrs: map[int][]byte{0: bytes.Repeat([]byte{0xa0}, 32), 7: bytes.Repeat([]byte{0xa7}, 32)}}
}

// rsaBox has an RSA EK and an RSA AK.
func rsaBox(m *maker, scheme tpm2.TPMAlgID) *box {
	b := newBox(m)
	b.ek, b.ekPublic, b.chain = rsaEK(), rsaEKPublic(rsaEK()), m.certify(&rsaEK().PublicKey, nil)
	b.ak, b.akPublic = rsaAK(), rsaAKTemplate(scheme)
	b.akPublic.Unique = tpm2.NewTPMUPublicID(tpm2.TPMAlgRSA, &tpm2.TPM2BPublicKeyRSA{Buffer: rsaAK().N.Bytes()})
	return b
}

func changed(b []byte, f func([]byte) []byte) []byte {
	if f == nil {
		return b
	}
	return f(slices.Clone(b))
}

func (b *box) publics() (ek, ak []byte) {
	return changed(tpm2.Marshal(b.ekPublic), b.ekBytes), changed(tpm2.Marshal(b.akPublic), b.akBytes)
}

func nameOf(public []byte) []byte {
	sum := sha256.Sum256(public)
	return append([]byte{0, 0x0b}, sum[:]...)
}

func text64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// request is the document of a challenge.
func (b *box) request() map[string]any {
	ek, ak := b.publics()
	chain := []string{}
	for _, c := range b.chain {
		chain = append(chain, text64(c))
	}
	return map[string]any{"ek_cert": chain, "ek_public": text64(ek), "ak_public": text64(ak)}
}

// activate is TPM2_ActivateCredential (TPM 2.0 Part 1, 24). nil: it refuses.
func (b *box) activate(credential, secret, name []byte) []byte {
	credential, secret = credential[2:], secret[2:]
	var seed []byte
	switch k := b.ek.(type) {
	case *rsa.PrivateKey:
		seed, _ = rsa.DecryptOAEP(sha256.New(), nil, k, secret, []byte("IDENTITY\x00"))
		if seed == nil {
			return nil
		}
	case *ecdsa.PrivateKey:
		p := must(tpm2.Unmarshal[tpm2.TPMSECCPoint](secret))
		peer := must(ecdh.P256().NewPublicKey(slices.Concat([]byte{4}, p.X.Buffer, p.Y.Buffer)))
		z := must(must(k.ECDH()).ECDH(peer))
		seed = tpm2.KDFe(crypto.SHA256, z, "IDENTITY", p.X.Buffer, point(k).X.Buffer, 256)
	}
	size := int(binary.BigEndian.Uint16(credential))
	mac, sealed := credential[2:2+size], credential[2+size:]
	h := hmac.New(sha256.New, tpm2.KDFa(crypto.SHA256, seed, "INTEGRITY", nil, nil, 256))
	h.Write(sealed)
	h.Write(name)
	if !hmac.Equal(mac, h.Sum(nil)) {
		return nil
	}
	block := must(aes.NewCipher(tpm2.KDFa(crypto.SHA256, seed, "STORAGE", name, nil, 128)))
	out, before := []byte{}, make([]byte, 16)
	for len(sealed) > 0 { // CFB, zero IV
		stream := make([]byte, 16)
		block.Encrypt(stream, before)
		n := min(16, len(sealed))
		for i := range n {
			out = append(out, sealed[i]^stream[i])
		}
		before, sealed = sealed[:n], sealed[n:]
	}
	return out[2:]
}

// parts are what a quote is made of.
type parts struct {
	magic          uint32
	kind           uint16
	signer, extra  []byte
	resets, starts uint32
	safe           byte
	count          uint32
	bank           uint16
	selected       []byte
	digest         []byte
}

func sized(out, b []byte) []byte {
	return append(binary.BigEndian.AppendUint16(out, uint16(len(b))), b...)
}

func (p *parts) bytes() []byte {
	out := binary.BigEndian.AppendUint32(nil, p.magic)
	out = binary.BigEndian.AppendUint16(out, p.kind)
	out = sized(sized(out, p.signer), p.extra)
	out = binary.BigEndian.AppendUint64(out, 12345) // clock
	out = binary.BigEndian.AppendUint32(out, p.resets)
	out = binary.BigEndian.AppendUint32(out, p.starts)
	out = append(out, p.safe)
	out = binary.BigEndian.AppendUint64(out, 0x20170619) // firmware
	out = binary.BigEndian.AppendUint32(out, p.count)
	for range p.count {
		out = binary.BigEndian.AppendUint16(out, p.bank)
		out = append(append(out, byte(len(p.selected))), p.selected...)
	}
	return sized(out, p.digest)
}

// quote is TPM2_Quote by a primary key of the endorsement hierarchy.
func (b *box) quote(nonce string, akName []byte) []byte {
	h, selected := sha256.New(), make([]byte, 3)
	for _, i := range slices.Sorted(maps.Keys(b.pcrs)) {
		h.Write(b.pcrs[i])
		selected[i/8] |= 1 << (i % 8)
	}
	extra, signer := sha256.Sum256([]byte(nonce)), sha256.Sum256(slices.Concat([]byte{0x40, 0, 0, 0x0b}, akName))
	p := &parts{magic: 0xff544347, kind: 0x8018, signer: append([]byte{0, 0x0b}, signer[:]...), extra: extra[:], resets: b.resets, starts: b.restarts,
		safe: 1, count: 1, bank: 0x000b, selected: selected, digest: h.Sum(nil)}
	if b.quoteOf != nil {
		b.quoteOf(p)
	}
	return changed(p.bytes(), b.attBytes)
}

func (b *box) sign(message []byte) []byte {
	sum := sha256.Sum256(message)
	k := b.ak
	if b.signWith != nil {
		k = b.signWith
	}
	switch k := k.(type) {
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, k, sum[:])
		if err != nil {
			panic(err)
		}
		return sized(sized([]byte{0, 0x18, 0, 0x0b}, r.Bytes()), s.Bytes())
	case *rsa.PrivateKey:
		if parms := must(b.akPublic.Parameters.RSADetail()); parms.Scheme.Scheme == tpm2.TPMAlgRSAPSS {
			return sized([]byte{0, 0x16, 0, 0x0b}, must(rsa.SignPSS(rand.Reader, k, crypto.SHA256, sum[:], nil)))
		}
		return sized([]byte{0, 0x14, 0, 0x0b}, must(rsa.SignPKCS1v15(nil, k, crypto.SHA256, sum[:])))
	}
	panic("no such key")
}

// answers is the evidence for a nonce, given what ActivateCredential gave out.
func (b *box) answers(nonce string, secret []byte) []byte {
	_, ak := b.publics()
	q := b.quote(nonce, nameOf(ak))
	values := map[string]string{}
	for i, v := range b.pcrs {
		values[strconv.Itoa(i)] = hex.EncodeToString(v)
	}
	if b.shownPCRs != nil {
		b.shownPCRs(values)
	}
	doc := b.request()
	maps.Copy(doc, map[string]any{"nonce": nonce, "secret": text64(changed(secret, b.activated)), "quote": text64(q),
		"signature": text64(changed(b.sign(q), b.sigBytes)), "pcrs": values})
	if b.doc != nil {
		b.doc(doc)
	}
	return must(json.Marshal(doc))
}

// fixture is an attestor that trusts one maker.
type fixture struct {
	*tpm.Attestor
	clock  *attesttest.Clock
	nonces *attest.Nonces
	maker  *maker
}

func newNonces(fill byte) *attest.Nonces {
	return must(attest.NewNonces(bytes.Repeat([]byte{fill}, 32)))
}

func newFixture(t testing.TB, change ...func(*tpm.Config)) *fixture {
	t.Helper()
	f := &fixture{clock: attesttest.NewClock(), nonces: newNonces(7)}
	f.maker = newMaker(t, f.clock.Now())
	f.Attestor = f.open(t, change...)
	return f
}

func (f *fixture) open(t testing.TB, change ...func(*tpm.Config)) *tpm.Attestor {
	t.Helper()
	c := tpm.Config{Name: "tpm", Roots: []string{f.maker.file}, PCRs: map[string][]string{"7": {hex.EncodeToString(bytes.Repeat([]byte{0xa7}, 32))}},
		Nonces: f.nonces, Now: f.clock.Now}
	for _, ch := range change {
		ch(&c)
	}
	a, err := tpm.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func evidence(doc []byte, key attest.Key) attest.Evidence {
	return attest.Evidence{Attestor: "tpm", Document: doc, Key: key}
}

// walk takes a box through both steps.
func (f *fixture) walk(t testing.TB, b *box, key attest.Key) attest.Evidence {
	t.Helper()
	c, err := f.Challenge(t.Context(), evidence(must(json.Marshal(b.request())), key))
	if err != nil {
		t.Fatal(err)
	}
	credential, secret := parseCredential(t, c)
	_, ak := b.publics()
	return evidence(b.answers(c.Nonce, b.activate(credential, secret, nameOf(ak))), key)
}

func parseCredential(t testing.TB, c attest.Challenge) (credential, secret []byte) {
	t.Helper()
	var doc struct {
		Credential []byte `json:"credential_blob"`
		Secret     []byte `json:"secret"`
	}
	if err := json.Unmarshal(c.Document, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Credential, doc.Secret
}

// know makes evidence with the correct secret, which it takes from ebb instead of the TPM. A test
// can so show that the other defect alone causes the rejection.
func (f *fixture) know(b *box, key attest.Key) attest.Evidence {
	nonce, _ := f.nonces.Issue("tpm", key.JKT, f.clock.Now())
	ek, ak := b.publics()
	return evidence(b.answers(nonce, f.nonces.Secret(nonce, string(nameOf(ek)), string(nameOf(ak)))), key)
}

func pemOf(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
