package spiffe_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/spiffe"
)

func TestJWTSuite(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := attesttest.Tokens(func(t *testing.T, header, claims attesttest.Claims) attest.Evidence {
		return document(t, f.home.tokenWith(header, claims))
	})
	with, header := tokens.With, tokens.Under
	now := f.clock.Now()
	bad := tokens.Bad(map[string]func(*testing.T) attest.Evidence{
		"wrong audience":       with(attesttest.Claims{"aud": aud + "/"}),
		"A90 two audiences":    with(attesttest.Claims{"aud": []string{aud, "https://other.example"}}),
		"token endpoint":       with(attesttest.Claims{"aud": aud + "/oauth2/token"}),
		"A94 empty audience":   with(attesttest.Claims{"aud": []string{}}),
		"wrong issuer":         with(attesttest.Claims{"sub": "spiffe://third.test/sandbox/42"}),
		"expired":              with(attesttest.Claims{"iat": now.Add(-time.Minute).Unix(), "exp": now.Add(-time.Second).Unix()}),
		"A94 no expiry":        with(attesttest.Claims{"exp": nil}),
		"not yet valid":        with(attesttest.Claims{"nbf": now.Add(time.Second).Unix()}),
		"issued in the future": with(attesttest.Claims{"iat": now.Add(time.Second).Unix()}),
		"clock off by 5 min":   with(attesttest.Claims{"iat": now.Add(5 * time.Minute).Unix(), "exp": now.Add(10 * time.Minute).Unix()}),
		"A91 16 minutes":       with(attesttest.Claims{"exp": now.Add(15*time.Minute + time.Second).Unix()}),
		"A91 no iat, 16 min":   with(attesttest.Claims{"iat": nil, "exp": now.Add(15*time.Minute + time.Second).Unix()}),
		"no subject":           with(attesttest.Claims{"sub": nil}),
		"path not accepted":    with(attesttest.Claims{"sub": "spiffe://" + home + "/admin"}),
		"bound to another":     with(attesttest.Claims{"cnf": map[string]string{"x5t#S256": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}}),
		"A95 wrong key":        func(t *testing.T) attest.Evidence { return document(t, f.home.tokenBy(newKey(t), nil, nil)) },
		"wrong key":            func(t *testing.T) attest.Evidence { return document(t, f.home.tokenBy(f.away.jwt, nil, nil)) },
		// H17: right in everything but whose key: another trust domain's, under its own kid.
		"H17 trust domain A, bundle B": func(t *testing.T) attest.Evidence {
			return document(t, f.away.tokenWith(nil, attesttest.Claims{"sub": boxID}))
		},
		// A95: the key of the CA, as kid nothing, the serial number or the JWT key's.
		"A95 x509-svid key": func(t *testing.T) attest.Evidence { return document(t, f.home.tokenBy(f.home.key, nil, nil)) },
		"A95 x509-svid key by serial": func(t *testing.T) attest.Evidence {
			return document(t, f.home.tokenBy(f.home.key, attesttest.Claims{"kid": f.home.cert.SerialNumber.String()}, nil))
		},
		"no kid":         header(attesttest.Claims{"kid": nil}),
		"H7 empty kid":   header(attesttest.Claims{"kid": ""}),
		"H7 foreign kid": header(attesttest.Claims{"kid": f.away.kid}),
		"A93 wit+jwt":    header(attesttest.Claims{"typ": "wit+jwt"}),
		"A93 EdDSA":      header(attesttest.Claims{"alg": "EdDSA"}),
		"H5 own key":     header(attesttest.Claims{"jwk": attesttest.PublicJWK(t, newKey(t))}),
	})
	for _, sub := range notIDs() {
		bad["A96 "+sub] = with(attesttest.Claims{"sub": sub})
	}
	attesttest.Run(t, attesttest.Suite{
		Attestor: f.Attestor, Clock: f.clock, Good: with(nil), Bad: bad,
		Down: func(t *testing.T) (attest.Attestor, attest.Evidence) {
			c := f.config
			c.TrustDomains = map[string]spiffe.TrustDomain{home: {BundleFile: filepath.Join(t.TempDir(), "none"), Allow: []string{"/**"}}}
			return open(t, c), with(nil)(t)
		},
		Lures: func(t *testing.T, url string) []attest.Evidence {
			return tokens.Lures(t, url, "spiffe_bundle_endpoint")
		},
	})
}

// notIDs are texts that are no SPIFFE ID of a workload, near the one of sandbox 42
// (H18).
func notIDs() []string {
	return []string{
		"spiffe://SBX.test/sandbox/42", "SPIFFE://sbx.test/sandbox/42", "Spiffe://sbx.test/sandbox/42", "http://sbx.test/sandbox/42", "spiffe:/sbx.test/sandbox/42",
		"spiffe:///sandbox/42", "spiffe://", "spiffe://sbx.test", "spiffe://sbx.test/", "spiffe://sbx.test:443/sandbox/42", "spiffe://sbx.test:/sandbox/42",
		"spiffe://u@sbx.test/sandbox/42", "spiffe://u:p@sbx.test/sandbox/42", "spiffe://other.test@sbx.test/sandbox/42", "spiffe://sbx.test\\@other.test/sandbox/42",
		"spiffe://sbx%2etest/sandbox/42", "spiffe://sbx.test/%73andbox/42", "spiffe://sbx.test/sandbox%2f42", "spiffe://sbx.test/%2e%2e/sandbox/42",
		"spiffe://sbx.test/../sandbox/42", "spiffe://sbx.test/sandbox/./42", "spiffe://sbx.test/sandbox/..", "spiffe://sbx.test//sandbox/42", "spiffe://sbx.test/sandbox//42",
		"spiffe://sbx.test/sandbox/42/", "spiffe://sbx.test/sandbox/42?", "spiffe://sbx.test/sandbox/42?q", "spiffe://sbx.test/sandbox/42#", "spiffe://sbx.test/sandbox/42#f",
		" spiffe://sbx.test/sandbox/42", "spiffe://sbx.test/sandbox/42 ", "spiffe://sbx.test/sandbox/4\u0662", "spiffe://\u0455bx.test/sandbox/42", "spiffe://sbx.test/sandbox/*",
		"spiffe://sbx.test./sandbox/42", "spiffe://sbx.test.other.test/sandbox/42", "spiffe://xsbx.test/sandbox/42", "spiffe://[::1]/sandbox/42", "sbx.test/sandbox/42",
		"spiffe://sbx.test/sandbox/" + strings.Repeat("a", 2049-len("spiffe://sbx.test/sandbox/")), "spiffe://" + strings.Repeat("a", 256) + "/sandbox/42",
	}
}

func TestJWTIdentity(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.config.Leeway = new(10 * time.Second)
	var steps []string
	ctx := attest.WithTrace(t.Context(), func(s attest.Step) { steps = append(steps, s.Check) })
	id, err := open(t, f.config).Attest(ctx, document(t, f.home.token(nil)))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"sub": boxID, "spiffe_id": boxID, "trust_domain": home, "path": "/sandbox/42", "svid": "jwt"}
	if !maps.Equal(id.Selectors, want) || id.Subject != boxID || id.Attestor != "boxes" || id.Class != attest.ClassSigned || id.TaskID != "" || id.Key != "" {
		t.Errorf("got %+v", id)
	}
	if !id.NotAfter.Equal(f.clock.Now().Add(5*time.Minute)) || !id.ReplayUntil.Equal(id.NotAfter.Add(10*time.Second)) || !strings.HasPrefix(id.ReplayID, "jwt:") {
		t.Errorf("got %+v", id)
	}
	if len(steps) < 5 {
		t.Errorf("told of %q", steps)
	}
	// The same path in another trust domain is another identity.
	other, err := f.Attest(t.Context(), document(t, f.away.token(nil)))
	if err != nil || other.Subject == id.Subject || !errors.Is(attest.SelectorMatch(map[string]string{"spiffe_id": boxID}, other), attest.ErrRejected) {
		t.Errorf("got %+v, %v", other, err)
	}
	for _, typ := range []any{nil, "JWT", "JOSE", "jwt"} {
		if _, err := f.Attest(t.Context(), document(t, f.home.tokenWith(attesttest.Claims{"typ": typ}, nil))); err != nil {
			t.Errorf("typ %v: %v", typ, err)
		}
	}
	// Bound by its issuer: the pipeline compares a jkt, and here it is a certificate.
	e := document(t, f.home.token(attesttest.Claims{"cnf": map[string]string{"x5t#S256": x5t([]byte("x"))}}))
	e.Key.X5T = x5t([]byte("x"))
	if _, err := f.Attest(t.Context(), e); err != nil {
		t.Error(err)
	}
}

// TestJWTReplayIsOfTheStatement: another encoding of the same signature gives the same replay
// id.
func TestJWTReplayIsOfTheStatement(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	token, again := f.home.token(attesttest.Claims{"n": 1}), f.home.token(attesttest.Claims{"n": 1})
	one, err := f.Attest(t.Context(), document(t, token))
	if err != nil {
		t.Fatal(err)
	}
	two, err := f.Attest(t.Context(), document(t, again))
	if err != nil || again == token || one.ReplayID != two.ReplayID {
		t.Errorf("got %q and %q, %v", one.ReplayID, two.ReplayID, err)
	}
}

// TestJWTKeys: every algorithm that JWT-SVID allows is accepted with a suitable key.
func TestJWTKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	b := f.home.bundle()
	if err := b.AddJWTAuthority("rsa", r.Public()); err != nil {
		t.Fatal(err)
	}
	f.config.TrustDomains[home] = spiffe.TrustDomain{BundleFile: file(t, printed(t, b)), Allow: []string{"/**"}}
	a := open(t, f.config)
	if _, err := a.Attest(t.Context(), document(t, f.home.tokenBy(r, attesttest.Claims{"alg": "RS256", "kid": "rsa"}, nil))); err != nil {
		t.Errorf("RS256: %v", err)
	}
	for name, e := range map[string]attest.Evidence{
		"RS256 by the kid of an EC key":  document(t, f.home.tokenBy(r, attesttest.Claims{"alg": "RS256"}, nil)),
		"ES256 by the kid of an RSA key": document(t, f.home.tokenWith(attesttest.Claims{"kid": "rsa"}, nil)),
	} {
		if _, err := a.Attest(t.Context(), e); !errors.Is(err, attest.ErrRejected) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestKindsOfSVID: the attestor rejects each kind of SVID that its configuration does not
// list.
func TestKindsOfSVID(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	jwt, cert := document(t, f.home.token(nil)), shows(t, f.home.svid(leaf(boxID)))
	both := cert
	both.Document = bytes.Clone(jwt.Document)
	for _, tc := range []struct {
		svids     []string
		jwt, x509 bool
	}{{nil, true, true}, {[]string{"jwt"}, true, false}, {[]string{"x509"}, false, true}} {
		c := f.config
		c.SVIDs = tc.svids
		a := open(t, c)
		for _, e := range []struct {
			attest.Evidence
			good bool
		}{{jwt, tc.jwt}, {cert, tc.x509}, {both, tc.jwt}} {
			if _, err := a.Attest(t.Context(), e.Evidence); (err == nil) != e.good || err != nil && !errors.Is(err, attest.ErrRejected) {
				t.Errorf("%v: %v", tc.svids, err)
			}
		}
	}
}
