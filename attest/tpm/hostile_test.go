package tpm_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-tpm/tpm2"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
)

// with is a box of the fixture's maker after a change.
func (f *fixture) with(change func(*box)) *box {
	b := newBox(f.maker)
	change(b)
	return b
}

func attributes(change func(*tpm2.TPMAObject)) func(*box) {
	return func(b *box) { change(&b.akPublic.ObjectAttributes) }
}

func ekAttributes(change func(*tpm2.TPMAObject)) func(*box) {
	return func(b *box) { change(&b.ekPublic.ObjectAttributes) }
}

// TestHostileKeys: a defect of the keys or of the certificate gets no challenge, and no
// identity even with the secret of the credential.
func TestHostileKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	stranger := newMaker(t, f.clock.Now())
	certified := func(change func(*x509.Certificate)) func(*box) {
		return func(b *box) { b.chain = f.maker.certify(b.ek.Public(), change) }
	}
	tail := func(b []byte) []byte { return append(b, 0) }
	cut := func(b []byte) []byte { return b[:len(b)-1] }
	const ekSymmetric = 42 // type, Name algorithm, attributes and a policy of 32 bytes come before it
	const akSymmetric = 10 // an AK has no policy here
	set16 := func(at int, v uint16) func([]byte) []byte {
		return func(b []byte) []byte { binary.BigEndian.PutUint16(b[at:], v); return b }
	}
	rsaAKBytes := func(change func([]byte) []byte) func(*box) {
		return func(b *box) {
			*b = *rsaBox(f.maker, tpm2.TPMAlgRSASSA)
			b.akBytes = change
		}
	}
	for name, tc := range map[string]struct {
		why    attest.Reason
		change func(*box)
	}{
		"EK without certificate": {attest.ReasonMalformed, func(b *box) { b.chain = nil }},
		"EK of another root":     {attest.ReasonIssuer, func(b *box) { b.chain = stranger.certify(b.ek.Public(), nil) }},
		"a chain of another root, ours appended": {attest.ReasonIssuer, func(b *box) {
			b.chain = append(stranger.certify(b.ek.Public(), nil), f.maker.ca.Raw, f.maker.root.Raw)
		}},
		"certificate of another EK":   {attest.ReasonIssuer, func(b *box) { b.chain = f.maker.certify(ecKey().Public(), nil) }},
		"certificate of the AK":       {attest.ReasonIssuer, func(b *box) { b.chain = f.maker.certify(b.ak.Public(), nil) }},
		"certificate of an RSA EK":    {attest.ReasonIssuer, func(b *box) { b.chain = f.maker.certify(rsaEK().Public(), nil) }},
		"signed by itself":            {attest.ReasonIssuer, func(b *box) { b.chain = selfSigned(f, b) }},
		"garbage for a certificate":   {attest.ReasonIssuer, func(b *box) { b.chain[0] = []byte("x") }},
		"bytes after the certificate": {attest.ReasonIssuer, func(b *box) { b.chain[0] = append(b.chain[0], 0) }},
		"seven certificates":          {attest.ReasonMalformed, func(b *box) { b.chain = slices.Repeat(b.chain[:1], 7) }},
		"a huge certificate":          {attest.ReasonMalformed, func(b *box) { b.chain[1] = make([]byte, 9<<10) }},
		"the CA alone":                {attest.ReasonIssuer, func(b *box) { b.chain = b.chain[1:] }},
		"no purpose":                  {attest.ReasonIssuer, certified(func(c *x509.Certificate) { c.UnknownExtKeyUsage = nil })},
		"a server's purpose": {attest.ReasonIssuer, certified(func(c *x509.Certificate) {
			c.UnknownExtKeyUsage, c.ExtKeyUsage = nil, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		})},
		"a platform's purpose": {attest.ReasonIssuer, certified(func(c *x509.Certificate) { c.UnknownExtKeyUsage[0][4] = 2 })},
		"a CA as EK": {attest.ReasonIssuer, certified(func(c *x509.Certificate) {
			c.IsCA, c.BasicConstraintsValid = true, true
		})},
		"another critical extension": {attest.ReasonIssuer, certified(func(c *x509.Certificate) {
			c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: asn1.ObjectIdentifier{1, 2, 3}, Critical: true, Value: []byte{5, 0}})
		})},
		"a name that is no TPM's":             {attest.ReasonIssuer, certified(func(c *x509.Certificate) { c.ExtraExtensions = []pkix.Extension{san()} })},
		"a name with a version alone":         {attest.ReasonIssuer, certified(func(c *x509.Certificate) { c.ExtraExtensions = []pkix.Extension{san(3)} })},
		"a name with the TPM's specification": {attest.ReasonIssuer, certified(func(c *x509.Certificate) { c.ExtraExtensions = []pkix.Extension{san(16)} })},
		"two names": {attest.ReasonIssuer, certified(func(c *x509.Certificate) {
			e := &c.ExtraExtensions[0]
			var name []asn1.RawValue
			must(asn1.Unmarshal(e.Value, &name))
			e.Value = must(asn1.Marshal(append(name, name...)))
		})},
		"a name that is cut":      {attest.ReasonIssuer, certified(func(c *x509.Certificate) { e := &c.ExtraExtensions[0]; e.Value = e.Value[:len(e.Value)-3] })},
		"bytes after the name":    {attest.ReasonIssuer, certified(func(c *x509.Certificate) { e := &c.ExtraExtensions[0]; e.Value = append(e.Value, 5, 0) })},
		"a DNS name instead":      {attest.ReasonIssuer, certified(func(c *x509.Certificate) { c.ExtraExtensions, c.DNSNames = nil, []string{"tpm.example"} })},
		"EK that signs":           {attest.ReasonClaims, ekAttributes(func(a *tpm2.TPMAObject) { a.SignEncrypt = true })},
		"EK that is unrestricted": {attest.ReasonClaims, ekAttributes(func(a *tpm2.TPMAObject) { a.Restricted = false })},
		"EK that was imported":    {attest.ReasonClaims, ekAttributes(func(a *tpm2.TPMAObject) { a.FixedTPM = false })},
		"EK of SHA-1":             {attest.ReasonClaims, func(b *box) { b.ekBytes = set16(2, 4) }},
		"EK with 3DES":            {attest.ReasonClaims, func(b *box) { b.ekBytes = set16(ekSymmetric, 3) }},
		"EK with XOR":             {attest.ReasonClaims, func(b *box) { b.ekBytes = set16(ekSymmetric, 0x0a) }},
		"EK with AES of 64 bits":  {attest.ReasonClaims, func(b *box) { b.ekBytes = set16(ekSymmetric+2, 64) }},
		"EK with AES of 512 bits": {attest.ReasonClaims, func(b *box) { b.ekBytes = set16(ekSymmetric+2, 512) }},
		"EK with AES in CTR mode": {attest.ReasonClaims, func(b *box) { b.ekBytes = set16(ekSymmetric+4, 0x40) }},
		"EK with a scheme": {attest.ReasonClaims, func(b *box) {
			b.ekBytes = func(p []byte) []byte {
				return slices.Concat(p[:ekSymmetric+6], []byte{0, 0x18, 0, 0x0b}, p[ekSymmetric+8:])
			}
		}},
		"EK of RSA-1024": {attest.ReasonClaims, func(b *box) {
			*b = *rsaBox(f.maker, tpm2.TPMAlgRSASSA)
			b.ekBytes = set16(ekSymmetric+8, 1024)
		}},
		"EK that is no asymmetric":  {attest.ReasonMalformed, func(b *box) { b.ekBytes = set16(0, 8) }},
		"EK cut":                    {attest.ReasonMalformed, func(b *box) { b.ekBytes = cut }},
		"EK with more after it":     {attest.ReasonMalformed, func(b *box) { b.ekBytes = tail }},
		"AK that is unrestricted":   {attest.ReasonClaims, attributes(func(a *tpm2.TPMAObject) { a.Restricted = false })},
		"AK that was imported":      {attest.ReasonClaims, attributes(func(a *tpm2.TPMAObject) { a.FixedTPM = false })},
		"AK that may be moved":      {attest.ReasonClaims, attributes(func(a *tpm2.TPMAObject) { a.FixedParent = false })},
		"AK made elsewhere":         {attest.ReasonClaims, attributes(func(a *tpm2.TPMAObject) { a.SensitiveDataOrigin = false })},
		"AK that decrypts, too":     {attest.ReasonClaims, attributes(func(a *tpm2.TPMAObject) { a.Decrypt = true })},
		"AK that does not sign":     {attest.ReasonClaims, attributes(func(a *tpm2.TPMAObject) { a.SignEncrypt = false })},
		"AK with a Name of SHA-384": {attest.ReasonClaims, func(b *box) { b.akBytes = set16(2, 0x0c) }},
		"AK without a scheme": {attest.ReasonClaims, func(b *box) {
			b.akPublic.Parameters = tpm2.NewTPMUPublicParms(tpm2.TPMAlgECC, &tpm2.TPMSECCParms{CurveID: tpm2.TPMECCNistP256})
		}},
		"AK that is ECDAA": {attest.ReasonMalformed, func(b *box) { b.akBytes = func(p []byte) []byte { binary.BigEndian.PutUint16(p[12:], 0x1a); return p } }},
		"AK off the curve": {attest.ReasonMalformed, func(b *box) { b.akBytes = func(p []byte) []byte { p[len(p)-1] ^= 1; return p } }},
		"AK at infinity": {attest.ReasonMalformed, func(b *box) {
			b.akPublic.Unique = tpm2.NewTPMUPublicID(tpm2.TPMAlgECC, &tpm2.TPMSECCPoint{})
		}},
		"AK of RSA-1024": {attest.ReasonClaims, func(b *box) {
			b.akPublic = rsaAKTemplate(tpm2.TPMAlgRSASSA)
			must(b.akPublic.Parameters.RSADetail()).KeyBits = 1024
			b.akPublic.Unique = tpm2.NewTPMUPublicID(tpm2.TPMAlgRSA, &tpm2.TPM2BPublicKeyRSA{Buffer: slices.Repeat([]byte{0xff}, 128)})
		}},
		"AK with exponent 1": {attest.ReasonMalformed, func(b *box) {
			b.akPublic = rsaAKTemplate(tpm2.TPMAlgRSASSA)
			must(b.akPublic.Parameters.RSADetail()).Exponent = 1
			b.akPublic.Unique = tpm2.NewTPMUPublicID(tpm2.TPMAlgRSA, &tpm2.TPM2BPublicKeyRSA{Buffer: rsaAK().N.Bytes()})
		}},
		"AK that signs with SHA-384": {attest.ReasonClaims, func(b *box) { b.akBytes = set16(akSymmetric+4, 0x0c) }},
		"AK of ECC with RSASSA":      {attest.ReasonClaims, func(b *box) { b.akBytes = set16(akSymmetric+2, 0x14) }},
		"AK of RSA with ECDSA":       {attest.ReasonClaims, rsaAKBytes(set16(akSymmetric+2, 0x18))},
		"AK of RSA without a scheme": {attest.ReasonClaims, rsaAKBytes(func(p []byte) []byte { return slices.Concat(p[:akSymmetric+2], []byte{0, 0x10}, p[akSymmetric+6:]) })},
		"AK with a symmetric algorithm": {attest.ReasonClaims, func(b *box) {
			b.akBytes = func(p []byte) []byte {
				return slices.Concat(p[:akSymmetric], []byte{0, 6, 0, 128, 0, 0x43}, p[akSymmetric+2:])
			}
		}},
		"AK on P-384": {attest.ReasonClaims, func(b *box) {
			must(b.akPublic.Parameters.ECCDetail()).CurveID = tpm2.TPMECCNistP384
			b.akPublic.Unique = tpm2.NewTPMUPublicID(tpm2.TPMAlgECC, point(must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))))
		}},
		"AK with a modulus of fewer bits": {attest.ReasonMalformed, rsaAKBytes(func(p []byte) []byte { p[len(p)-256] = 0; return p })},
		"AK with an even modulus":         {attest.ReasonMalformed, rsaAKBytes(func(p []byte) []byte { p[len(p)-1] &^= 1; return p })},
		"AK with a zero before its modulus": {attest.ReasonMalformed, rsaAKBytes(func(p []byte) []byte {
			return slices.Concat(p[:len(p)-258], []byte{1, 1, 0}, p[len(p)-256:])
		})},
		"AK with a key derivation": {attest.ReasonMalformed, func(b *box) { b.akBytes = set16(akSymmetric+8, 0x20) }},
		"EK with a key derivation": {attest.ReasonMalformed, func(b *box) { b.ekBytes = set16(ekSymmetric+10, 0x20) }},
		"AK with coordinates of P-521 on P-256": {attest.ReasonMalformed, func(b *box) {
			b.akBytes = func(p []byte) []byte {
				return slices.Concat(p[:len(p)-68], sized(sized(nil, make([]byte, 66)), make([]byte, 66)))
			}
		}},
		"AK with a longer coordinate": {attest.ReasonMalformed, func(b *box) {
			b.akBytes = func(p []byte) []byte { return slices.Concat(p[:len(p)-34], []byte{0, 33, 0}, p[len(p)-32:]) }
		}},
		"AK with more after it": {attest.ReasonMalformed, func(b *box) { b.akBytes = tail }},
		"AK cut":                {attest.ReasonMalformed, func(b *box) { b.akBytes = cut }},
		"AK of 20 KiB":          {attest.ReasonMalformed, func(b *box) { b.akBytes = func(p []byte) []byte { return append(p, make([]byte, 20<<10)...) } }},
	} {
		b := f.with(tc.change)
		key := attesttest.NewKey(t)
		if _, err := f.Challenge(t.Context(), evidence(must(json.Marshal(b.request())), key)); attesttest.Reason(err) != tc.why {
			t.Errorf("%s: challenge: got %v, want %s", name, err, tc.why)
		}
		if id, err := f.Attest(t.Context(), f.know(b, key)); attesttest.Reason(err) != tc.why || id.Subject != "" {
			t.Errorf("%s: evidence: got %v, want %s", name, err, tc.why)
		}
	}
	// An issuer that is for servers certifies no EK.
	servers := newFixture(t)
	servers.maker = newMaker(t, f.clock.Now(), func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	servers.Attestor = servers.open(t)
	if _, err := servers.Attest(t.Context(), servers.know(newBox(servers.maker), attesttest.NewKey(t))); attesttest.Reason(err) != attest.ReasonIssuer {
		t.Errorf("below a CA for servers: %v", err)
	}
}

func selfSigned(f *fixture, b *box) [][]byte {
	own := &maker{now: f.maker.now, ca: f.maker.ca, caPK: ecKey()} // our CA's name, another key
	leaf := &x509.Certificate{SerialNumber: big.NewInt(9), NotBefore: own.now, NotAfter: own.now.Add(1e12),
		UnknownExtKeyUsage: []asn1.ObjectIdentifier{{2, 23, 133, 8, 1}}, ExtraExtensions: []pkix.Extension{san(1, 2)}}
	template := *f.maker.ca
	template.PublicKey, template.SubjectKeyId = own.caPK.Public(), nil
	return [][]byte{must(x509.CreateCertificate(rand.Reader, leaf, &template, b.ek.Public(), own.caPK)), f.maker.ca.Raw}
}

// TestHostileQuotes: a defect of the quote, the PCRs or the secret is rejected.
func TestHostileQuotes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const selections = 101 // where their count is in a quote with a nonce and a Name of SHA-256
	quoteOf := func(change func(*parts)) func(*box) { return func(b *box) { b.quoteOf = change } }
	for name, tc := range map[string]struct {
		why    attest.Reason
		change func(*box)
	}{
		"signed by another AK": {attest.ReasonSignature, func(b *box) { b.signWith = ecKey() }},
		"signed by the EK":     {attest.ReasonSignature, func(b *box) { b.signWith = b.ek }},
		"signed by RSA": {attest.ReasonSignature, func(b *box) {
			b.sigBytes = func([]byte) []byte { return rsaBox(f.maker, tpm2.TPMAlgRSASSA).sign([]byte("x")) }
		}},
		"signature of zeros": {attest.ReasonSignature, func(b *box) {
			b.sigBytes = func([]byte) []byte { return sized(sized([]byte{0, 0x18, 0, 0x0b}, nil), nil) }
		}},
		"signature of SHA-1":            {attest.ReasonMalformed, func(b *box) { b.sigBytes = func(s []byte) []byte { s[3] = 4; return s } }},
		"signature of HMAC":             {attest.ReasonMalformed, func(b *box) { b.sigBytes = func(s []byte) []byte { s[1] = 5; return s } }},
		"no signature (Null)":           {attest.ReasonMalformed, func(b *box) { b.sigBytes = func([]byte) []byte { return []byte{0, 0x10} } }},
		"signature cut":                 {attest.ReasonMalformed, func(b *box) { b.sigBytes = func(s []byte) []byte { return s[:len(s)-1] } }},
		"signature with more":           {attest.ReasonMalformed, func(b *box) { b.sigBytes = func(s []byte) []byte { return append(s, 0) } }},
		"not made by a TPM":             {attest.ReasonType, quoteOf(func(p *parts) { p.magic = 0xff544348 })},
		"magic zero":                    {attest.ReasonType, quoteOf(func(p *parts) { p.magic = 0 })},
		"a certification":               {attest.ReasonType, quoteOf(func(p *parts) { p.kind = 0x8017 })},
		"a time":                        {attest.ReasonType, quoteOf(func(p *parts) { p.kind = 0x8019 })},
		"no nonce":                      {attest.ReasonNonce, quoteOf(func(p *parts) { p.extra = nil })},
		"nonce altered":                 {attest.ReasonNonce, quoteOf(func(p *parts) { p.extra[31] ^= 1 })},
		"nonce and more":                {attest.ReasonNonce, quoteOf(func(p *parts) { p.extra = append(p.extra, 0) })},
		"signer no Name":                {attest.ReasonSignature, quoteOf(func(p *parts) { p.signer = p.signer[:4] })},
		"signer of SHA-384":             {attest.ReasonSignature, quoteOf(func(p *parts) { p.signer[1] = 0x0c })},
		"bank SHA-1":                    {attest.ReasonType, quoteOf(func(p *parts) { p.bank = 4 })},
		"bank SHA-384":                  {attest.ReasonType, quoteOf(func(p *parts) { p.bank = 0x0c })},
		"two selections":                {attest.ReasonType, quoteOf(func(p *parts) { p.count = 2 })},
		"no selection":                  {attest.ReasonType, quoteOf(func(p *parts) { p.count = 0 })},
		"selection of 4 bytes":          {attest.ReasonType, quoteOf(func(p *parts) { p.selected = append(p.selected, 0) })},
		"selection of 2 bytes":          {attest.ReasonType, quoteOf(func(p *parts) { p.selected = p.selected[:2] })},
		"safe is 2":                     {attest.ReasonType, quoteOf(func(p *parts) { p.safe = 2 })},
		"digest altered":                {attest.ReasonMeasurement, quoteOf(func(p *parts) { p.digest[0] ^= 1 })},
		"digest empty":                  {attest.ReasonMeasurement, quoteOf(func(p *parts) { p.digest = nil })},
		"a field larger than it can be": {attest.ReasonType, quoteOf(func(p *parts) { p.extra = make([]byte, 67) })},
		"quote cut":                     {attest.ReasonType, func(b *box) { b.attBytes = func(q []byte) []byte { return q[:len(q)-1] } }},
		"quote cut in its head":         {attest.ReasonType, func(b *box) { b.attBytes = func(q []byte) []byte { return q[:5] } }},
		"quote with more":               {attest.ReasonType, func(b *box) { b.attBytes = func(q []byte) []byte { return append(q, 0) } }},
		"quote of 2 KiB":                {attest.ReasonMalformed, func(b *box) { b.attBytes = func(q []byte) []byte { return append(q, make([]byte, 2<<10)...) } }},
		"a value altered":               {attest.ReasonMeasurement, func(b *box) { b.shownPCRs = func(v map[string]string) { v["0"] = strings.Repeat("00", 32) } }},
		"a value left out":              {attest.ReasonMeasurement, func(b *box) { b.shownPCRs = func(v map[string]string) { delete(v, "0") } }},
		"a value too many":              {attest.ReasonMeasurement, func(b *box) { b.shownPCRs = func(v map[string]string) { v["1"] = v["0"] } }},
		"another PCR with the pinned value": {attest.ReasonMeasurement, func(b *box) {
			b.quoteOf = func(p *parts) { p.selected = []byte{1, 0, 1} } // 16, which any software fills, shown as 7
		}},
		"a count beyond the selections":   {attest.ReasonType, func(b *box) { b.attBytes = func(q []byte) []byte { q[selections+3] = 2; return q } }},
		"a selection of another size":     {attest.ReasonType, func(b *box) { b.attBytes = func(q []byte) []byte { q[selections+6] = 2; return q } }},
		"values exchanged":                {attest.ReasonMeasurement, func(b *box) { b.shownPCRs = func(v map[string]string) { v["0"], v["7"] = v["7"], v["0"] } }},
		"pinned value under another name": {attest.ReasonMeasurement, func(b *box) { b.pcrs = map[int][]byte{8: b.pcrs[7]} }},
		"pinned value is another":         {attest.ReasonMeasurement, func(b *box) { b.pcrs[7] = b.pcrs[0] }},
		"pinned value not quoted":         {attest.ReasonMeasurement, func(b *box) { delete(b.pcrs, 7) }},
		"values in upper case":            {attest.ReasonMalformed, func(b *box) { b.shownPCRs = func(v map[string]string) { v["7"] = strings.ToUpper(v["7"]) } }},
		"an index of two spellings":       {attest.ReasonMalformed, func(b *box) { b.shownPCRs = func(v map[string]string) { v["07"] = v["7"] } }},
		"PCR 24":                          {attest.ReasonMalformed, func(b *box) { b.shownPCRs = func(v map[string]string) { v["24"] = v["7"] } }},
		"PCR -1":                          {attest.ReasonMalformed, func(b *box) { b.shownPCRs = func(v map[string]string) { v["-1"] = v["7"] } }},
		"no values":                       {attest.ReasonMalformed, func(b *box) { b.shownPCRs = func(v map[string]string) { clear(v) } }},
		"secret altered":                  {attest.ReasonSignature, func(b *box) { b.activated = func(s []byte) []byte { s[0] ^= 1; return s } }},
		"secret cut":                      {attest.ReasonSignature, func(b *box) { b.activated = func(s []byte) []byte { return s[:16] } }},
		"secret empty":                    {attest.ReasonMalformed, func(b *box) { b.activated = func([]byte) []byte { return nil } }},
		"an unknown member":               {attest.ReasonMalformed, func(b *box) { b.doc = func(m map[string]any) { m["x"] = 1 } }},
		"a member missing":                {attest.ReasonMalformed, func(b *box) { b.doc = func(m map[string]any) { delete(m, "quote") } }},
		"base64 with a line end":          {attest.ReasonMalformed, func(b *box) { b.doc = func(m map[string]any) { m["quote"] = m["quote"].(string) + "\n" } }},
		"base64 of another alphabet":      {attest.ReasonMalformed, func(b *box) { b.doc = func(m map[string]any) { m["secret"] = "-_--" } }},
	} {
		if id, err := f.Attest(t.Context(), f.know(f.with(tc.change), attesttest.NewKey(t))); attesttest.Reason(err) != tc.why || id.Subject != "" {
			t.Errorf("%s: got %v, want %s", name, err, tc.why)
		}
	}
}

// TestHostileScheme: a signature of an RSA key is accepted only with the key's own scheme,
// although the other would verify too.
func TestHostileScheme(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for own, other := range map[tpm2.TPMAlgID]tpm2.TPMAlgID{tpm2.TPMAlgRSASSA: tpm2.TPMAlgRSAPSS, tpm2.TPMAlgRSAPSS: tpm2.TPMAlgRSASSA} {
		b := rsaBox(f.maker, own)
		var signed []byte
		b.attBytes = func(q []byte) []byte { signed = q; return q }
		b.sigBytes = func([]byte) []byte { return rsaBox(f.maker, other).sign(signed) }
		if _, err := f.Attest(t.Context(), f.know(b, attesttest.NewKey(t))); attesttest.Reason(err) != attest.ReasonSignature {
			t.Errorf("%v for %v: %v", other, own, err)
		}
	}
}

// TestActivation: only the TPM of the EK can open a credential, and only for the named AK.
// Credential activation prevents these attacks.
func TestActivation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	victim, thief := newBox(f.maker), newBox(f.maker)
	key := attesttest.NewKey(t)
	// The thief has a TPM of the same maker. It shows the victim's EK beside its own
	// AK, or one in software.
	thief.chain, thief.ekPublic = victim.chain, victim.ekPublic
	c, err := f.Challenge(t.Context(), evidence(must(json.Marshal(thief.request())), key))
	if err != nil {
		t.Fatal(err)
	}
	credential, secret := parseCredential(t, c)
	_, thiefAK := thief.publics()
	_, victimAK := victim.publics()
	if thief.activate(credential, secret, nameOf(thiefAK)) != nil {
		t.Error("another TPM's EK opened the credential")
	}
	if victim.activate(credential, secret, nameOf(victimAK)) != nil {
		t.Error("the credential opened for another AK")
	}
	// Only where the thief's AK is loaded in the victim's TPM it opens.
	if victim.activate(credential, secret, nameOf(thiefAK)) == nil {
		t.Error("the imitation refuses what a TPM would take")
	}
	// The secret of the victim's own challenge does not serve the thief's AK, with
	// the victim's quote or its own.
	own, err := f.Challenge(t.Context(), evidence(must(json.Marshal(victim.request())), key))
	if err != nil {
		t.Fatal(err)
	}
	credential, secret = parseCredential(t, own)
	opened := victim.activate(credential, secret, nameOf(victimAK))
	if _, err := f.Attest(t.Context(), evidence(thief.answers(own.Nonce, opened), key)); attesttest.Reason(err) != attest.ReasonSignature {
		t.Errorf("the victim's secret, the thief's AK: %v", err)
	}
	// Nor another challenge.
	if _, err := f.Attest(t.Context(), evidence(victim.answers(c.Nonce, opened), key)); attesttest.Reason(err) != attest.ReasonSignature {
		t.Errorf("the secret of another challenge: %v", err)
	}
	if _, err := f.Attest(t.Context(), evidence(victim.answers(own.Nonce, opened), key)); err != nil {
		t.Error(err)
	}
	// Another ebb's challenge, relayed.
	other := newFixture(t)
	other.maker, other.nonces, other.clock = f.maker, newNonces(9), f.clock
	other.Attestor = other.open(t)
	if _, err := f.Attest(t.Context(), other.walk(t, victim, key)); attesttest.Reason(err) != attest.ReasonNonce {
		t.Errorf("another ebb's challenge: %v", err)
	}
}

// TestQuoteReplay: the attestor refuses a quote that was made for another nonce.
func TestQuoteReplay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := newBox(f.maker)
	key := attesttest.NewKey(t)
	earlier := f.walk(t, b, key)
	var old, now map[string]any
	if err := errors.Join(json.Unmarshal(earlier.Document, &old), json.Unmarshal(f.walk(t, b, key).Document, &now)); err != nil {
		t.Fatal(err)
	}
	now["quote"], now["signature"] = old["quote"], old["signature"]
	if _, err := f.Attest(t.Context(), evidence(must(json.Marshal(now)), key)); attesttest.Reason(err) != attest.ReasonNonce {
		t.Errorf("an earlier quote: %v", err)
	}
	f.clock.Advance(attest.NonceLife)
	if _, err := f.Attest(t.Context(), earlier); attesttest.Reason(err) != attest.ReasonExpired {
		t.Errorf("a minute later: %v", err)
	}
}

func TestChallengeRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	doc := must(json.Marshal(newBox(f.maker).request()))
	key := attesttest.NewKey(t)
	for name, tc := range map[string]struct {
		e   attest.Evidence
		why attest.Reason
	}{
		"no key":        {evidence(doc, attest.Key{}), attest.ReasonKeyBinding},
		"certificate":   {evidence(doc, attest.Key{X5T: "x"}), attest.ReasonKeyBinding},
		"nothing":       {evidence(nil, key), attest.ReasonMalformed},
		"an array":      {evidence([]byte("[]"), key), attest.ReasonMalformed},
		"blank around":  {evidence(append([]byte(" "), doc...), key), attest.ReasonMalformed},
		"more after it": {evidence(append(slices.Clone(doc), doc...), key), attest.ReasonMalformed},
		"member twice":  {evidence([]byte(strings.Replace(string(doc), "{", `{"ek_public":"",`, 1)), key), attest.ReasonMalformed},
		"letter case":   {evidence([]byte(strings.Replace(string(doc), "ek_public", "EK_public", 1)), key), attest.ReasonMalformed},
		"oversized":     {evidence(make([]byte, attest.MaxDocument+1), key), attest.ReasonOversized},
	} {
		if c, err := f.Challenge(t.Context(), tc.e); attesttest.Reason(err) != tc.why || c.Nonce != "" {
			t.Errorf("%s: got %v, want %s", name, err, tc.why)
		}
	}
}
