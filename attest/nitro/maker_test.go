package nitro_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"math/big"
	"strconv"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/nitro"
)

const (
	instanceID = "i-0123456789abcdef0"
	enclaveID  = instanceID + "-enc0123456789abcdef"
	tpmID      = instanceID + "-tpm0000000000000000"
)

// link is one certificate and its key.
type link struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newKey(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// below makes a certificate signed by l, or by itself when l is nil, with names and
// extensions like those of AWS.
func (l *link) below(t testing.TB, name string, now time.Time, change ...func(*x509.Certificate)) *link {
	t.Helper()
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(int64(len(name)) + 1), Subject: pkix.Name{CommonName: name, Organization: []string{"Amazon"}},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), SignatureAlgorithm: x509.ECDSAWithSHA384,
		BasicConstraintsValid: true, IsCA: true, MaxPathLen: -1, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	for _, c := range change {
		c(tmpl)
	}
	return l.signs(t, tmpl, newKey(t, elliptic.P384()))
}

func (l *link) signs(t testing.TB, tmpl *x509.Certificate, key crypto.Signer) *link {
	t.Helper()
	by, parent := crypto.Signer(key), tmpl
	if l != nil {
		by, parent = l.key, l.cert
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &link{cert: cert, key: key}
}

func pathLen(n int) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.MaxPathLen, c.MaxPathLenZero = n, n == 0 }
}

// asLeaf is what the hypervisor's own certificate is: three hours, for signing.
func asLeaf(now time.Time) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.IsCA, c.MaxPathLen, c.KeyUsage = false, 0, x509.KeyUsageDigitalSignature|x509.KeyUsageContentCommitment
		c.NotBefore, c.NotAfter = now.Add(-time.Second), now.Add(3*time.Hour)
	}
}

// pki is root, region, zone, instance, leaf.
type pki []*link

func newPKI(t testing.TB, now time.Time) pki {
	t.Helper()
	p := make(pki, 5)
	p[0] = (*link)(nil).below(t, "aws.nitro-enclaves", now)
	p[1] = p[0].below(t, "region", now, pathLen(2))
	p[2] = p[1].below(t, "zone", now, pathLen(1))
	p[3] = p[2].below(t, "instance", now, pathLen(0))
	p[4] = p[3].below(t, "leaf", now, asLeaf(now))
	return p
}

func (p pki) root() string {
	sum := sha256.Sum256(p[0].cert.Raw)
	return hex.EncodeToString(sum[:])
}

// document is one to be made, with a place to spoil it at every step.
type document struct {
	members   map[string]any
	chain     pki // root first
	protected []byte
	headers   any
	payload   func([]byte) []byte // before it is signed
	signed    func([]byte) []byte // after: the payload
	outer     func([]byte) []byte // the whole
	key       crypto.Signer       // nil: the leaf's
	hash      crypto.Hash
}

func register(text string) []byte {
	sum := sha512.Sum384([]byte(text))
	return sum[:]
}

// indefinite writes a map of less than 24 members as the hypervisors do.
func indefinite(b []byte) []byte {
	return append(append([]byte{0xbf}, b[1:]...), 0xff)
}

func encode(t testing.TB, v any) []byte {
	t.Helper()
	b, err := cbor.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (d *document) make(t testing.TB) []byte {
	t.Helper()
	if _, set := d.members["cabundle"]; !set {
		var bundle [][]byte
		for _, l := range d.chain[:len(d.chain)-1] {
			bundle = append(bundle, l.cert.Raw)
		}
		d.members["cabundle"] = bundle
	}
	if _, set := d.members["certificate"]; !set {
		d.members["certificate"] = d.chain[len(d.chain)-1].cert.Raw
	}
	payload := d.payload(encode(t, d.members))
	signature := d.sign(t, encode(t, []any{"Signature1", d.protected, []byte{}, payload}))
	if d.signed != nil {
		payload = d.signed(payload)
	}
	raw := encode(t, []any{d.protected, d.headers, payload, signature})
	if d.outer != nil {
		raw = d.outer(raw)
	}
	return []byte(base64.StdEncoding.EncodeToString(raw))
}

// sign is r and s of 48 bytes each, or zeros for a key that cannot make that.
func (d *document) sign(t testing.TB, structure []byte) []byte {
	t.Helper()
	signer := d.key
	if signer == nil {
		signer = d.chain[len(d.chain)-1].key
	}
	key, is := signer.(*ecdsa.PrivateKey)
	if !is || key.Curve.Params().BitSize > 384 {
		return make([]byte, 96)
	}
	h := d.hash.New()
	h.Write(structure)
	r, s, err := ecdsa.Sign(rand.Reader, key, h.Sum(nil))
	if err != nil {
		t.Fatal(err)
	}
	return append(r.FillBytes(make([]byte, 48)), s.FillBytes(make([]byte, 48))...)
}

// fixture is an attestor of enclaves that trusts a root of ours.
type fixture struct {
	clock  *attesttest.Clock
	nonces *attest.Nonces
	pki    pki
	config nitro.Config
	a      *nitro.Attestor
}

func newNonces(t testing.TB, key byte) *attest.Nonces {
	t.Helper()
	n, err := attest.NewNonces(bytes.Repeat([]byte{key}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func newFixture(t testing.TB, change ...func(*nitro.Config)) *fixture {
	t.Helper()
	f := &fixture{clock: attesttest.NewClock(), nonces: newNonces(t, 1)}
	f.pki = newPKI(t, f.clock.Now())
	f.config = nitro.Config{Name: "nitro", Type: nitro.Enclave, PCRs: map[string][]string{"0": {hex.EncodeToString(register("0"))}},
		RootSHA256: f.pki.root(), Nonces: f.nonces, Now: f.clock.Now}
	for _, c := range change {
		c(&f.config)
	}
	f.a = open(t, f.config)
	return f
}

func open(t testing.TB, c nitro.Config) *nitro.Attestor {
	t.Helper()
	a, err := nitro.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// evidence answers a challenge for a new key.
func (f *fixture) evidence(t testing.TB, change ...func(*document, attest.Key)) attest.Evidence {
	t.Helper()
	key := attesttest.NewKey(t)
	c, err := f.a.Challenge(t.Context(), attest.Evidence{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return attest.Evidence{Attestor: f.config.Name, Key: key, Document: f.document(t, c.Nonce, key, change...)}
}

// document is what the hypervisor gives for a nonce and a key.
func (f *fixture) document(t testing.TB, nonce string, key attest.Key, change ...func(*document, attest.Key)) []byte {
	t.Helper()
	d := &document{chain: f.pki, protected: []byte{0xa1, 0x01, 0x38, 0x22}, headers: map[int]int{}, payload: indefinite, hash: crypto.SHA384}
	d.members = map[string]any{"digest": "SHA384", "timestamp": uint64(f.clock.Now().UnixMilli()), //nolint:gosec // after 1970
		"public_key": nil, "user_data": []byte(key.JKT), "nonce": []byte(nonce)}
	registers := map[uint8][]byte{}
	for n := range uint8(16) {
		registers[n] = make([]byte, 48)
	}
	if f.config.Type == nitro.NitroTPM {
		d.members["module_id"], d.members["nitrotpm_pcrs"] = tpmID, registers
		registers[17] = bytes.Repeat([]byte{0xff}, 48)
		measure(registers, 0, 1, 4, 7, 11)
	} else {
		d.members["module_id"], d.members["pcrs"] = enclaveID, registers
		measure(registers, 0, 1, 2, 4, 8)
	}
	for _, c := range change {
		c(d, key)
	}
	return d.make(t)
}

func measure(registers map[uint8][]byte, at ...uint8) {
	for _, n := range at {
		registers[n] = register(strconv.Itoa(int(n)))
	}
}

// set puts one member into the payload; nil is CBOR's null, absent takes it out.
type absent struct{}

func set(name string, value any) func(*document, attest.Key) {
	return func(d *document, _ attest.Key) {
		if _, out := value.(absent); out {
			delete(d.members, name)
			return
		}
		d.members[name] = value
	}
}
