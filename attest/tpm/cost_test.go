package tpm_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
)

// beside makes a certificate of an untrusted CA, for a key.
func beside(f *fixture, name string, serial int64, key crypto.PublicKey, dns ...string) []byte {
	now := f.clock.Now()
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, BasicConstraintsValid: true, IsCA: true, DNSNames: dns,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
	return must(x509.CreateCertificate(rand.Reader, c, c, key, rsaEK()))
}

// TestCostOfCertificates: a client with any key may request a challenge, so the cost of its
// certificates before a refusal is bounded. Without the bound, five giant keys took two seconds.
func TestCostOfCertificates(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	rsaOf := func(bytesLen, e int) *rsa.PublicKey {
		return &rsa.PublicKey{N: new(big.Int).SetBytes(bytes.Repeat([]byte{0xff}, bytesLen)), E: e}
	}
	for name, tc := range map[string]struct {
		more [][]byte
		want string // in the cause; "" is no refusal
	}{
		"a giant modulus":       {[][]byte{beside(f, "x", 1, rsaOf(7000, 65537))}, "RSA key"},
		"4104 bits":             {[][]byte{beside(f, "x", 1, rsaOf(513, 65537))}, "RSA key"},
		"a giant exponent":      {[][]byte{beside(f, "x", 1, rsaOf(512, 1<<31-1))}, "RSA key"},
		"the first of these":    {[][]byte{beside(f, "x", 1, rsaOf(512, 65539))}, "RSA key"},
		"4096 bits":             {[][]byte{beside(f, "x", 1, rsaOf(512, 65537))}, ""},
		"one CA in two forms":   {[][]byte{beside(f, "x", 1, ecKey().Public(), "a"), beside(f, "x", 2, ecKey().Public(), "b")}, "same subject"},
		"a CA with our CA's":    {[][]byte{beside(f, "ca", 1, ecKey().Public())}, "same subject"},
		"a CA that is not used": {[][]byte{beside(f, "x", 1, ecKey().Public()), beside(f, "y", 1, ecKey().Public())}, ""},
	} {
		b := newBox(f.maker)
		b.chain = append(b.chain, tc.more...)
		_, err := f.Challenge(t.Context(), evidence(must(json.Marshal(b.request())), attesttest.NewKey(t)))
		if tc.want == "" && err != nil || tc.want != "" && (attesttest.Reason(err) != attest.ReasonIssuer || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}
