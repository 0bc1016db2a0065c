package spiffe_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"maps"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spiffe/go-spiffe/v2/bundle/spiffebundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/spiffe"
)

const (
	aud   = "https://ebb.example"
	home  = "sbx.test"
	away  = "other.test"
	boxID = "spiffe://" + home + "/sandbox/42"
)

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// authority is what a SPIFFE server is: a CA, and a key for JWT-SVIDs.
type authority struct {
	t     testing.TB
	td    spiffeid.TrustDomain
	clock *attesttest.Clock
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
	jwt   crypto.Signer
	kid   string
}

func newAuthority(t testing.TB, clock *attesttest.Clock, td string) *authority {
	t.Helper()
	a := &authority{t: t, td: spiffeid.RequireTrustDomainFromString(td), clock: clock, key: newKey(t), jwt: newKey(t), kid: "jwt-" + rand.Text()}
	a.cert = a.issue(ca("spiffe://"+td), nil, a.key, a.key)
	return a
}

// ca is a template of an authority, with the SPIFFE ID of a trust domain or none.
func ca(id string) *x509.Certificate {
	c := &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	if id != "" {
		c.URIs = uris(id)
	}
	return c
}

func uris(ids ...string) []*url.URL {
	var out []*url.URL
	for _, id := range ids {
		u, err := url.Parse(id)
		if err != nil {
			panic(err)
		}
		out = append(out, u)
	}
	return out
}

// issue signs a template that is valid from now for an hour unless it says more.
// Without a parent it is its own.
func (a *authority) issue(tmpl, parent *x509.Certificate, pub crypto.Signer, by crypto.Signer) *x509.Certificate {
	a.t.Helper()
	var err error
	if tmpl.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		a.t.Fatal(err)
	}
	if tmpl.NotBefore.IsZero() {
		tmpl.NotBefore = a.clock.Now().Add(-10 * time.Second)
	}
	if tmpl.NotAfter.IsZero() {
		tmpl.NotAfter = a.clock.Now().Add(time.Hour)
		if tmpl.IsCA {
			tmpl.NotAfter = a.clock.Now().Add(10 * 365 * 24 * time.Hour)
		}
	}
	if tmpl.IsCA && tmpl.Subject.CommonName == "" {
		tmpl.Subject.CommonName = "authority " + rand.Text()
	}
	if parent == nil {
		parent = tmpl
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, pub.Public(), by)
	if err != nil {
		a.t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

// leaf is a template of an X.509-SVID.
func leaf(ids ...string) *x509.Certificate {
	return &x509.Certificate{
		URIs: uris(ids...), KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}
}

// svid is an X.509-SVID of the authority itself, without an intermediate.
func (a *authority) svid(tmpl *x509.Certificate) [][]byte {
	a.t.Helper()
	return [][]byte{a.issue(tmpl, a.cert, newKey(a.t), a.key).Raw}
}

// below is an intermediate authority and what it issues.
func (a *authority) below(intermediate, tmpl *x509.Certificate) [][]byte {
	a.t.Helper()
	key := newKey(a.t)
	middle := a.issue(intermediate, a.cert, key, a.key)
	return [][]byte{a.issue(tmpl, middle, newKey(a.t), key).Raw, middle.Raw}
}

// token is a JWT-SVID for sandbox 42 and 5 minutes, changed by claims.
func (a *authority) token(claims attesttest.Claims) string {
	a.t.Helper()
	return a.tokenWith(nil, claims)
}

func (a *authority) tokenWith(header, claims attesttest.Claims) string {
	a.t.Helper()
	return a.tokenBy(a.jwt, header, claims)
}

func (a *authority) tokenBy(key crypto.Signer, header, claims attesttest.Claims) string {
	a.t.Helper()
	now := a.clock.Now()
	h := attesttest.Claims{"alg": "ES256", "typ": "JWT", "kid": a.kid}
	c := attesttest.Claims{"sub": "spiffe://" + a.td.Name() + "/sandbox/42", "aud": []string{aud}, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "n": rand.Text()}
	for _, m := range []struct{ base, change attesttest.Claims }{{h, header}, {c, claims}} {
		maps.Copy(m.base, m.change)
		maps.DeleteFunc(m.base, func(_ string, v any) bool { return v == nil })
	}
	return attesttest.Forge(a.t, key, h, c)
}

// bundle is the authority's as go-spiffe prints it.
func (a *authority) bundle() *spiffebundle.Bundle {
	a.t.Helper()
	b := spiffebundle.New(a.td)
	b.AddX509Authority(a.cert)
	if err := b.AddJWTAuthority(a.kid, a.jwt.Public()); err != nil {
		a.t.Fatal(err)
	}
	return b
}

func (a *authority) text() []byte { a.t.Helper(); return printed(a.t, a.bundle()) }

func printed(t testing.TB, b *spiffebundle.Bundle) []byte {
	t.Helper()
	text, err := b.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// file writes a bundle to a file.
func file(t testing.TB, text []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "bundle.json")
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// fixture is ebb with two trust domains from files.
type fixture struct {
	clock      *attesttest.Clock
	home, away *authority
	config     spiffe.Config
	*spiffe.Attestor
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{clock: attesttest.NewClock()}
	f.home, f.away = newAuthority(t, f.clock, home), newAuthority(t, f.clock, away)
	f.config = spiffe.Config{Name: "boxes", Audience: aud, Now: f.clock.Now, TrustDomains: map[string]spiffe.TrustDomain{
		home: {BundleFile: file(t, f.home.text()), Allow: []string{"/sandbox/*", "/team/a/**"}},
		away: {BundleFile: file(t, f.away.text()), Allow: []string{"/sandbox/*"}},
	}}
	f.Attestor = open(t, f.config)
	return f
}

func open(t testing.TB, c spiffe.Config) *spiffe.Attestor {
	t.Helper()
	a, err := spiffe.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func document(t testing.TB, token string) attest.Evidence {
	return attest.Evidence{Attestor: "boxes", Document: []byte(token), Key: attesttest.NewKey(t)}
}

// shows is evidence of a client certificate, as the pipeline makes it.
func shows(t testing.TB, chain [][]byte) attest.Evidence {
	e := attest.Evidence{Attestor: "boxes", Channel: attest.Channel{PeerCertificates: chain, TLS: true}, Key: attesttest.NewKey(t)}
	if len(chain) > 0 {
		e.Key.X5T = x5t(chain[0])
	}
	return e
}

func x5t(der []byte) string {
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
