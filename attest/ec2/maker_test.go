package ec2_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/ec2"
)

const (
	account = "123456789012"
	region  = "eu-west-1"
	other   = "us-east-1" // a second configured region
)

// maker signs documents as the metadata service of one region does.
type maker struct {
	key  *rsa.PrivateKey
	cert *x509.Certificate
	file string
}

// keys are generated once, because RSA keys are slow to generate.
var keys = sync.OnceValue(func() (out [3]*rsa.PrivateKey) {
	for i := range out {
		k, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		out[i] = k
	}
	return out
})

// newMaker returns a maker with a certificate like those of AWS: self-issued, all with
// the same name, and distinguished by serial number.
func newMaker(t testing.TB, n int, now time.Time, change ...func(*x509.Certificate)) *maker {
	t.Helper()
	m := &maker{key: keys()[n], file: filepath.Join(t.TempDir(), "aws.pem")}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(0).SetBytes([]byte{0xb6, 0x4b, 0xde, 0x5a, 0xd0, 0x09, 0x24, byte(n)}), NotBefore: now.AddDate(-10, 0, 0), NotAfter: now.AddDate(170, 0, 0), SubjectKeyId: []byte{0xed, 0xca, byte(n)},
		Subject: pkix.Name{Country: []string{"US"}, Province: []string{"Washington State"}, Locality: []string{"Seattle"}, Organization: []string{"Amazon Web Services LLC"}},
	}
	for _, f := range change {
		f(c)
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, m.key.Public(), m.key)
	if err != nil {
		t.Fatal(err)
	}
	if m.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	m.write(t, pemOf(der))
	return m
}

func (m *maker) write(t testing.TB, b []byte) {
	t.Helper()
	if err := os.WriteFile(m.file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func pemOf(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// member is a member of a document with its value as JSON.
type member struct{ name, value string }

// parts are the encoded parts of a SignedData before it is assembled.
type parts struct {
	maker   *maker
	members []member
	content func(string) string // changes the document

	version, digests, contentType, octets, more []byte // SignedData
	signerVersion, id, digest                   []byte // SignerInfo
	attributes                                  [][]byte
	attributesTag                               byte
	algorithm, signature, unsigned              []byte
	signers                                     func([]byte) []byte
	wrap                                        func(tag byte, in ...[]byte) []byte // encodes the six values around the content
	outer                                       []byte                              // the first object identifier
	all                                         func([]byte) []byte
}

// der encodes a value with definite length, inf one with indefinite length as AWS
// writes those around the content.
func der(tag byte, in ...[]byte) []byte {
	b := slices.Concat(in...)
	switch n := len(b); {
	case n < 0x80:
		return append([]byte{tag, byte(n)}, b...)
	case n < 0x100:
		return append([]byte{tag, 0x81, byte(n)}, b...)
	default:
		return append(binary.BigEndian.AppendUint16([]byte{tag, 0x82}, uint16(n)), b...) //nolint:gosec // tests are small
	}
}

func inf(tag byte, in ...[]byte) []byte {
	return slices.Concat([]byte{tag, 0x80}, slices.Concat(in...), []byte{0, 0})
}

func oid(n ...int) []byte {
	b, err := asn1.Marshal(asn1.ObjectIdentifier(n))
	if err != nil {
		panic(err)
	}
	return b
}

var (
	null        = []byte{5, 0}
	one         = []byte{2, 1, 1}
	data        = oid(1, 2, 840, 113549, 1, 7, 1)
	signedOID   = oid(1, 2, 840, 113549, 1, 7, 2)
	contentType = oid(1, 2, 840, 113549, 1, 9, 3)
	digestOf    = oid(1, 2, 840, 113549, 1, 9, 4)
	signingTime = oid(1, 2, 840, 113549, 1, 9, 5)
	protection  = oid(1, 2, 840, 113549, 1, 9, 52)
	sha256OID   = oid(2, 16, 840, 1, 101, 3, 4, 2, 1)
	sha1OID     = oid(1, 3, 14, 3, 2, 26)
	rsaSHA256   = oid(1, 2, 840, 113549, 1, 1, 11)
	rsaSHA1     = oid(1, 2, 840, 113549, 1, 1, 5)
)

func attribute(oid []byte, values ...[]byte) []byte { return der(0x30, oid, der(0x31, values...)) }

// launch returns the document of a new instance with the order and spelling of AWS.
func (m *maker) launch(at time.Time, instance string) *parts {
	text := func(s string) string { return `"` + s + `"` }
	return &parts{maker: m, outer: signedOID, members: []member{
		{"accountId", text(account)}, {"architecture", text("x86_64")}, {"availabilityZone", text(region + "a")}, {"billingProducts", "null"},
		{"devpayProductCodes", "null"}, {"marketplaceProductCodes", "null"}, {"imageId", text("ami-0fa9e1f64142cde17")}, {"instanceId", text(instance)},
		{"instanceType", text("t2.medium")}, {"kernelId", "null"}, {"pendingTime", text(at.UTC().Format(time.RFC3339))}, {"privateIp", text("10.0.0.209")},
		{"ramdiskId", "null"}, {"region", text(region)}, {"version", text("2017-09-30")},
	}, version: one, digests: der(0x31, der(0x30, sha256OID, null)), contentType: data, signerVersion: one,
		digest: der(0x30, sha256OID, null), attributesTag: 0xa0, algorithm: der(0x30, rsaSHA256, null), wrap: inf,
		id: der(0x30, m.cert.RawIssuer, der(2, []byte{0}, m.cert.SerialNumber.Bytes()))}
}

func (p *parts) set(name, value string) {
	for i := range p.members {
		if p.members[i].name == name {
			p.members[i].value = value
		}
	}
}

func (p *parts) document() string {
	lines := make([]string, len(p.members))
	for i, m := range p.members {
		lines[i] = fmt.Sprintf("  %q : %s", m.name, m.value)
	}
	text := "{\n" + strings.Join(lines, ",\n") + "\n}"
	if p.content != nil {
		text = p.content(text)
	}
	return text
}

// sealed assembles the parts, and signs unless there is a signature already.
func (p *parts) sealed() []byte {
	content := []byte(p.document())
	if p.octets == nil {
		p.octets = p.wrap(0x24, der(4, content))
	}
	if p.attributes == nil {
		sum := sha256.Sum256(content)
		p.attributes = [][]byte{
			attribute(contentType, data), attribute(signingTime, der(0x17, []byte("210903212547Z"))),
			attribute(protection, der(0x30, der(0x30, sha256OID, null), der(0xa1, rsaSHA256, null))), attribute(digestOf, der(4, sum[:])),
		}
	}
	if p.signature == nil {
		sum := sha256.Sum256(der(0x31, p.attributes...))
		sig, err := rsa.SignPKCS1v15(rand.Reader, p.maker.key, crypto.SHA256, sum[:])
		if err != nil {
			panic(err)
		}
		p.signature = der(4, sig)
	}
	signers := der(0x30, p.signerVersion, p.id, p.digest, der(p.attributesTag, p.attributes...), p.algorithm, p.signature, p.unsigned)
	if p.signers != nil {
		signers = p.signers(signers)
	}
	b := p.wrap(0x30, p.outer, p.wrap(0xa0, p.wrap(0x30, p.version, p.digests, p.wrap(0x30, p.contentType, p.wrap(0xa0, p.octets)), p.more, der(0x31, signers))))
	if p.all != nil {
		b = p.all(b)
	}
	return b
}

// fixture is an attestor for two regions, with one maker for each.
type fixture struct {
	*ec2.Attestor
	clock        *attesttest.Clock
	nonces       *attest.Nonces
	config       ec2.Config
	maker, other *maker
}

func newNonces(t testing.TB, fill byte) *attest.Nonces {
	t.Helper()
	n, err := attest.NewNonces([]byte(strings.Repeat(string(rune('a'+fill)), 32)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func newFixture(t testing.TB, change ...func(*ec2.Config)) *fixture {
	t.Helper()
	f := &fixture{clock: attesttest.NewClock(), nonces: newNonces(t, 1)}
	f.maker, f.other = newMaker(t, 0, f.clock.Now()), newMaker(t, 1, f.clock.Now())
	f.config = ec2.Config{Name: "cloud", Accounts: []string{account}, Certificates: map[string]string{region: f.maker.file, other: f.other.file},
		Nonces: f.nonces, Now: f.clock.Now}
	f.Attestor = f.open(t, change...)
	return f
}

func (f *fixture) open(t testing.TB, change ...func(*ec2.Config)) *ec2.Attestor {
	t.Helper()
	c := f.config
	for _, ch := range change {
		ch(&c)
	}
	a, err := ec2.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

var launches atomic.Uint64

// instance returns a new instance id.
func instance() string { return fmt.Sprintf("i-%017x", launches.Add(1)) }

// shown returns evidence with a SignedData for a challenge of the key.
func (f *fixture) shown(t testing.TB, raw []byte, key attest.Key) attest.Evidence {
	t.Helper()
	c, err := f.Challenge(t.Context(), attest.Evidence{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return with(t, key, map[string]string{"nonce": c.Nonce, "rsa2048": base64.StdEncoding.EncodeToString(raw)})
}

func with(t testing.TB, key attest.Key, members map[string]string) attest.Evidence {
	t.Helper()
	doc, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return attest.Evidence{Attestor: "cloud", Key: key, Document: doc}
}

// evidence returns evidence of an instance that was launched 30 seconds ago.
func (f *fixture) evidence(t testing.TB, change ...func(*parts)) attest.Evidence {
	t.Helper()
	p := f.maker.launch(f.clock.Now().Add(-30*time.Second), instance())
	for _, c := range change {
		c(p)
	}
	return f.shown(t, p.sealed(), attesttest.NewKey(t))
}
