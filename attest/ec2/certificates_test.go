package ec2_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/ec2"
)

// A document of a region that its certificate is not for is rejected.
func TestCertificates(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := f.clock.Now()
	for name, tt := range map[string]struct {
		change func(*x509.Certificate)
		want   attest.Reason
	}{
		"good":              {func(*x509.Certificate) {}, ""},
		"to this second":    {func(c *x509.Certificate) { c.NotBefore, c.NotAfter = now, now }, ""},
		"over for a second": {func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Second) }, attest.ReasonExpired},
		"good in a second":  {func(c *x509.Certificate) { c.NotBefore = now.Add(time.Second) }, attest.ReasonNotYetValid},
	} {
		m := newMaker(t, 2, now, tt.change)
		a := f.open(t, func(c *ec2.Config) { c.Certificates = map[string]string{region: m.file} })
		_, err := a.Attest(t.Context(), f.evidence(t, foreign(m)))
		if attesttest.Reason(err) != tt.want || (tt.want == "") != (err == nil) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}

// A region may have several certificates, and one certificate may be for several
// regions.
func TestFiles(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	old, next := f.maker, newMaker(t, 2, f.clock.Now())
	old.write(t, slices.Concat([]byte("eu-west-1, rolled over\n"), pemOf(old.cert.Raw), pemOf(next.cert.Raw)))
	a := f.open(t, func(c *ec2.Config) {
		c.Certificates = map[string]string{region: old.file, "eu-west-3": old.file, other: f.other.file}
	})
	for _, m := range []*maker{old, next} {
		for r, want := range map[string]attest.Reason{region: "", "eu-west-3": "", other: attest.ReasonIssuer} {
			_, err := a.Attest(t.Context(), f.evidence(t, foreign(m), func(p *parts) { p.set("region", `"`+r+`"`) }))
			if attesttest.Reason(err) != want || (want == "") != (err == nil) {
				t.Errorf("%s: got %v, want %q", r, err, want)
			}
		}
	}
	// Two certificates with the same issuer and serial number: the one whose key
	// verifies the signature is the signer.
	twin := newMaker(t, 1, f.clock.Now(), func(c *x509.Certificate) { c.SerialNumber = old.cert.SerialNumber })
	a = f.open(t, func(c *ec2.Config) { c.Certificates = map[string]string{region: old.file, other: twin.file} })
	for r, want := range map[string]attest.Reason{region: "", other: attest.ReasonIssuer} {
		if _, err := a.Attest(t.Context(), f.evidence(t, func(p *parts) { p.set("region", `"`+r+`"`) })); attesttest.Reason(err) != want {
			t.Errorf("with a twin, %s: got %v, want %q", r, err, want)
		}
	}
}

// An invalid certificate file gives an error that is not a rejection.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	certificate := func(public, private any) []byte {
		der, err := x509.CreateCertificate(rand.Reader, f.maker.cert, f.maker.cert, public, private)
		if err != nil {
			t.Fatal(err)
		}
		return pemOf(der)
	}
	good := pemOf(f.maker.cert.Raw)
	for name, content := range map[string][]byte{
		"empty": {}, "garbage": []byte("x"), "cut": good[:len(good)-20], "DER": f.maker.cert.Raw, "not a certificate": pemOf([]byte{0x30, 0}),
		"a key too":            append(slices.Clone(good), "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"...),
		"a broken one behind":  append(slices.Clone(good), good[:100]...),
		"RSA-1024":             certificate(&small.PublicKey, f.maker.key),
		"RSA-1024 beside":      slices.Concat(good, certificate(&small.PublicKey, f.maker.key)),
		"ECDSA":                certificate(&ec.PublicKey, f.maker.key),
		"larger than anything": make([]byte, 1<<20+1),
	} {
		m := &maker{file: filepath.Join(t.TempDir(), "aws.pem")}
		m.write(t, content)
		a := f.open(t, func(c *ec2.Config) {
			c.Certificates = maps.Clone(c.Certificates)
			c.Certificates["eu-west-3"] = m.file
		})
		e := f.evidence(t)
		if _, err := a.Attest(t.Context(), e); err == nil || errors.Is(err, attest.ErrRejected) {
			t.Errorf("%s: got %v", name, err)
		}
		// Invalid evidence is rejected all the same.
		e.Key = attesttest.NewKey(t)
		if _, err := a.Attest(t.Context(), e); attesttest.Reason(err) != attest.ReasonNonce {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
