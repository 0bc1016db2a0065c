package spiffe_test

import (
	"context"
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/spiffe"
)

// asDocument converts the suite's documents to client certificates: a chain in DER, or one
// certificate with these bytes if the document does not parse.
type asDocument struct{ *spiffe.Attestor }

func (a asDocument) Attest(ctx context.Context, e attest.Evidence) (attest.Identity, error) {
	var chain [][]byte
	certs, err := x509.ParseCertificates(e.Document)
	for _, c := range certs {
		chain = append(chain, c.Raw)
	}
	if err != nil {
		chain = [][]byte{e.Document}
	}
	e.Document, e.Channel.PeerCertificates, e.Key.X5T = nil, chain, ""
	if len(chain) > 0 {
		e.Key.X5T = x5t(chain[0])
	}
	return a.Attestor.Attest(ctx, e)
}

func asOne(t testing.TB, chain [][]byte) attest.Evidence {
	return document(t, string(slices.Concat(chain...)))
}

func TestX509Suite(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := f.clock.Now()
	good := func(t *testing.T) attest.Evidence { return asOne(t, f.home.below(ca("spiffe://"+home), leaf(boxID))) }
	changed := func(ids []string, change func(*x509.Certificate)) func(*testing.T) attest.Evidence {
		return func(t *testing.T) attest.Evidence {
			tmpl := leaf(ids...)
			if change != nil {
				change(tmpl)
			}
			return asOne(t, f.home.svid(tmpl))
		}
	}
	below := func(change func(*x509.Certificate)) func(*testing.T) attest.Evidence {
		return func(t *testing.T) attest.Evidence {
			tmpl := ca("spiffe://" + home)
			change(tmpl)
			return asOne(t, f.home.below(tmpl, leaf(boxID)))
		}
	}
	box := []string{boxID}
	impostor := newAuthority(t, f.clock, home) // the same name, another CA
	bad := map[string]func(*testing.T) attest.Evidence{
		"wrong issuer": func(t *testing.T) attest.Evidence {
			third := newAuthority(t, f.clock, "third.test")
			return asOne(t, third.svid(leaf("spiffe://third.test/sandbox/42")))
		},
		"wrong key":                 func(t *testing.T) attest.Evidence { return asOne(t, impostor.svid(leaf(boxID))) },
		"H17 of another domain":     func(t *testing.T) attest.Evidence { return asOne(t, f.away.svid(leaf(boxID))) },
		"federated look-alike":      func(t *testing.T) attest.Evidence { return asOne(t, f.home.svid(leaf("spiffe://"+away+"/sandbox/42"))) },
		"expired":                   changed(box, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = now.Add(-time.Hour), now.Add(-time.Second) }),
		"not yet valid":             changed(box, func(c *x509.Certificate) { c.NotBefore = now.Add(time.Second) }),
		"clock off by 5 min":        changed(box, func(c *x509.Certificate) { c.NotBefore = now.Add(5 * time.Minute) }),
		"a year":                    changed(box, func(c *x509.Certificate) { c.NotAfter = now.AddDate(1, 0, 0) }),
		"two SPIFFE IDs":            changed([]string{boxID, "spiffe://" + home + "/sandbox/43"}, nil),
		"the same twice":            changed([]string{boxID, boxID}, nil),
		"a second URI":              changed([]string{boxID, "https://sbx.test/"}, nil),
		"another URI first":         changed([]string{"https://sbx.test/", boxID}, nil),
		"no URI":                    changed(nil, func(c *x509.Certificate) { c.DNSNames = []string{"sbx.test"} }),
		"common name":               changed(nil, func(c *x509.Certificate) { c.Subject.CommonName = boxID }),
		"path not accepted":         changed([]string{"spiffe://" + home + "/admin"}, nil),
		"H19 prefix":                changed([]string{"spiffe://" + home + "/team/ab/c"}, nil),
		"a CA":                      changed(box, func(c *x509.Certificate) { c.IsCA = true }),
		"keyCertSign":               changed(box, func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageCertSign }),
		"cRLSign":                   changed(box, func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageCRLSign }),
		"no digitalSignature":       changed(box, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyAgreement }),
		"no key usage":              changed(box, func(c *x509.Certificate) { c.KeyUsage = 0 }),
		"for servers alone":         changed(box, func(c *x509.Certificate) { c.ExtKeyUsage = c.ExtKeyUsage[:1] }),
		"for code signing":          changed(box, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning} }),
		"issuer without CA":         below(func(c *x509.Certificate) { c.IsCA = false }),
		"issuer without certSign":   below(func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCRLSign }),
		"issuer expired":            below(func(c *x509.Certificate) { c.NotBefore, c.NotAfter = now.Add(-time.Hour), now.Add(-time.Second) }),
		"issuer of another domain":  below(func(c *x509.Certificate) { c.URIs = uris("spiffe://" + away) }),
		"issuer is a workload":      below(func(c *x509.Certificate) { c.URIs = uris("spiffe://" + home + "/ca") }),
		"issuer has two IDs":        below(func(c *x509.Certificate) { c.URIs = uris("spiffe://"+home, "spiffe://"+away) }),
		"issuer for another name":   below(func(c *x509.Certificate) { c.PermittedURIDomains, c.PermittedDNSDomainsCritical = []string{away}, true }),
		"issuer forbids the name":   below(func(c *x509.Certificate) { c.ExcludedURIDomains, c.PermittedDNSDomainsCritical = []string{home}, true }),
		"unknown critical in issue": below(func(c *x509.Certificate) { c.ExtraExtensions = critical() }),
		"unknown critical":          changed(box, func(c *x509.Certificate) { c.ExtraExtensions = critical() }),
		"without its issuer":        func(t *testing.T) attest.Evidence { return asOne(t, f.home.below(ca(""), leaf(boxID))[:1]) },
		"the authority itself":      func(t *testing.T) attest.Evidence { return asOne(t, [][]byte{f.home.cert.Raw}) },
		"path length": func(t *testing.T) attest.Evidence {
			tmpl := ca("")
			tmpl.MaxPathLenZero = true
			key, lower := newKey(t), newKey(t)
			upper := f.home.issue(tmpl, f.home.cert, key, f.home.key)
			middle := f.home.issue(ca(""), upper, lower, key)
			return asOne(t, [][]byte{f.home.issue(leaf(boxID), middle, newKey(t), lower).Raw, middle.Raw, upper.Raw})
		},
		"a workload as authority": func(t *testing.T) attest.Evidence {
			key := newKey(t)
			mine := f.home.issue(leaf("spiffe://"+home+"/sandbox/1"), f.home.cert, key, f.home.key)
			return asOne(t, [][]byte{f.home.issue(leaf(boxID), mine, newKey(t), key).Raw, mine.Raw})
		},
		"nine certificates": func(t *testing.T) attest.Evidence {
			chain := f.home.below(ca(""), leaf(boxID))
			for range 7 {
				chain = append(chain, f.home.svid(leaf(boxID))[0])
			}
			return asOne(t, chain)
		},
	}
	// A text that net/url would normalize to a SPIFFE ID is not a SPIFFE ID.
	for _, s := range []string{"spiffe://SBX.test/sandbox/42", "spiffe://u@sbx.test/sandbox/42", "spiffe://sbx.test:443/sandbox/42", "spiffe://sbx.test/%73andbox/42", "spiffe://sbx.test/sandbox%2f42",
		"spiffe://sbx.test/../sandbox/42", "spiffe://sbx.test//sandbox/42", "spiffe://sbx.test/sandbox/42/", "spiffe://sbx.test/sandbox/42?q", "spiffe://sbx.test", "http://sbx.test/sandbox/42"} {
		bad["H18 "+s] = changed([]string{s}, nil)
	}
	attesttest.Run(t, attesttest.Suite{
		Attestor: asDocument{f.Attestor}, Clock: f.clock, Good: good, Bad: bad,
		NotApplicable: map[string]string{"wrong audience": "a certificate has none; TLS proves its key to this very listener"},
		Down: func(t *testing.T) (attest.Attestor, attest.Evidence) {
			c := f.config
			c.TrustDomains = map[string]spiffe.TrustDomain{home: {WorkloadAPI: "unix:///nowhere/agent.sock", Allow: []string{"/**"}}}
			return asDocument{open(t, c)}, good(t)
		},
		Lures: func(t *testing.T, url string) []attest.Evidence {
			lure := func(c *x509.Certificate) {
				c.OCSPServer, c.IssuingCertificateURL, c.CRLDistributionPoints = []string{url}, []string{url}, []string{url}
			}
			tmpl := leaf(boxID)
			lure(tmpl)
			return []attest.Evidence{below(lure)(t), asOne(t, f.home.svid(tmpl)), changed([]string{url}, nil)(t), asOne(t, impostor.svid(tmpl))}
		},
	})
}

func TestX509Identity(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	middle := ca("spiffe://" + home)
	middle.NotAfter = f.clock.Now().Add(20 * time.Minute)
	tmpl := leaf(boxID)
	tmpl.DNSNames, tmpl.IPAddresses, tmpl.EmailAddresses = []string{"other.test"}, []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"a@other.test"}
	chain := f.home.below(middle, tmpl)
	id, err := f.Attest(t.Context(), shows(t, chain))
	if err != nil {
		t.Fatal(err)
	}
	if id.Subject != boxID || id.Selectors["svid"] != "x509" || id.Selectors["path"] != "/sandbox/42" || id.Class != attest.ClassSigned || id.Key != "" {
		t.Errorf("got %+v", id)
	}
	// The issuer's end is the leaf's too.
	if !id.NotAfter.Equal(middle.NotAfter) || id.ReplayID != "x509:"+x5t(chain[0]) || !id.ReplayUntil.Equal(id.NotAfter) {
		t.Errorf("got %+v", id)
	}
	for name, change := range map[string]func(*attest.Evidence){
		"no key was proved":      func(e *attest.Evidence) { e.Key = attest.Key{} },
		"another certificate":    func(e *attest.Evidence) { e.Key.X5T = x5t(chain[1]) },
		"a DPoP proof alone":     func(e *attest.Evidence) { e.Key.X5T = "" },
		"no certificate":         func(e *attest.Evidence) { e.Channel.PeerCertificates = nil },
		"an empty certificate":   func(e *attest.Evidence) { e.Channel.PeerCertificates = [][]byte{nil} },
		"the leaf is not first":  func(e *attest.Evidence) { slices.Reverse(e.Channel.PeerCertificates) },
		"a chain of another key": func(e *attest.Evidence) { e.Channel.PeerCertificates = f.home.svid(leaf(boxID)) },
	} {
		e := shows(t, slices.Clone(chain))
		change(&e)
		if id, err := f.Attest(t.Context(), e); !errors.Is(err, attest.ErrRejected) {
			t.Errorf("%s: got %+v, %v", name, id, err)
		}
	}
}

// TestX509Reasons: the rejection tells the caller the cause.
func TestX509Reasons(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	now := f.clock.Now()
	early, late, big := leaf(boxID), leaf(boxID), leaf(boxID)
	early.NotBefore, late.NotBefore, late.NotAfter = now.Add(time.Second), now.Add(-time.Hour), now.Add(-time.Second)
	big.ExtraExtensions = []pkix.Extension{{Id: critical()[0].Id, Value: make([]byte, attest.MaxDocument)}}
	for want, tmpl := range map[attest.Reason]*x509.Certificate{attest.ReasonNotYetValid: early, attest.ReasonExpired: late, attest.ReasonOversized: big} {
		_, err := f.Attest(t.Context(), shows(t, f.home.svid(tmpl)))
		if attesttest.Reason(err) != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestX509WithoutUsages: a leaf without extended key usages is valid for all of them (section
// 4.4).
func TestX509WithoutUsages(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tmpl := leaf(boxID)
	tmpl.ExtKeyUsage = nil
	if _, err := f.Attest(t.Context(), shows(t, f.home.svid(tmpl))); err != nil {
		t.Error(err)
	}
}

// TestX509IssuerEnds: an issuer is no longer valid in the second of its expiry, like the leaf.
func TestX509IssuerEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	middle := ca("spiffe://" + home)
	middle.NotAfter = f.clock.Now().Add(time.Minute)
	e := shows(t, f.home.below(middle, leaf(boxID)))
	for d, good := range map[time.Duration]bool{59 * time.Second: true, time.Minute: false, 61 * time.Second: false} {
		f.clock.Set(middle.NotAfter.Add(d - time.Minute))
		if _, err := f.Attest(t.Context(), e); (err == nil) != good || err != nil && !errors.Is(err, attest.ErrRejected) {
			t.Errorf("after %v: %v", d, err)
		}
	}
}

// TestX509CrossSigned: if two chains verify, the expiry of the identity is that of the chain that
// expires later. A chain through an authority of another trust domain is not accepted.
func TestX509CrossSigned(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := newKey(t)
	short, foreign := ca(""), ca("spiffe://"+away)
	short.Subject.CommonName, short.NotAfter = "middle", f.clock.Now().Add(time.Minute)
	long := f.home.issue(ca(""), f.home.cert, key, f.home.key)
	short.Subject, foreign.Subject = long.Subject, long.Subject
	box := f.home.issue(leaf(boxID), long, newKey(t), key).Raw
	for _, tc := range []struct {
		name  string
		above []*x509.Certificate
		until time.Duration
	}{
		{"both", []*x509.Certificate{f.reissue(short, key), long}, time.Hour},
		{"both, the long one first", []*x509.Certificate{long, f.reissue(short, key)}, time.Hour},
		{"the short one", []*x509.Certificate{f.reissue(short, key)}, time.Minute},
		{"a foreign one beside", []*x509.Certificate{f.reissue(foreign, key), long}, time.Hour},
		{"the foreign one", []*x509.Certificate{f.reissue(foreign, key)}, 0},
	} {
		chain := [][]byte{box}
		for _, c := range tc.above {
			chain = append(chain, c.Raw)
		}
		id, err := f.Attest(t.Context(), shows(t, chain))
		if tc.until == 0 && !errors.Is(err, attest.ErrRejected) || tc.until > 0 && (err != nil || !id.NotAfter.Equal(f.clock.Now().Add(tc.until))) {
			t.Errorf("%s: got %v, %v", tc.name, id.NotAfter, err)
		}
	}
}

// FuzzX509: an arbitrary certificate is refused.
func FuzzX509(f *testing.F) {
	x := newFixture(f)
	other := newAuthority(f, x.clock, home)
	f.Add(other.svid(leaf(boxID))[0])
	f.Add(other.cert.Raw)
	f.Add(x.home.cert.Raw)
	f.Fuzz(func(t *testing.T, der []byte) {
		e := attest.Evidence{Channel: attest.Channel{PeerCertificates: [][]byte{der, other.cert.Raw}}, Key: attest.Key{X5T: x5t(der)}}
		if id, err := x.Attest(t.Context(), e); !errors.Is(err, attest.ErrRejected) {
			t.Errorf("got %+v, %v", id, err)
		}
	})
}

// FuzzAttest: an arbitrary document is refused.
func FuzzAttest(f *testing.F) {
	x := newFixture(f)
	f.Add([]byte(newAuthority(f, x.clock, home).token(nil)))
	f.Add([]byte(x.away.token(attesttest.Claims{"sub": boxID})))
	f.Add([]byte("e30.e30.AA"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		if id, err := x.Attest(t.Context(), attest.Evidence{Document: doc}); !errors.Is(err, attest.ErrRejected) {
			t.Errorf("got %+v, %v", id, err)
		}
	})
}

// reissue signs an intermediate that keeps its name.
func (f *fixture) reissue(tmpl *x509.Certificate, key crypto.Signer) *x509.Certificate {
	f.home.t.Helper()
	c := *tmpl
	c.IsCA = true
	return f.home.issue(&c, f.home.cert, key, f.home.key)
}

// critical returns a critical extension that no library here supports.
func critical() []pkix.Extension {
	return []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 55555, 1}, Critical: true, Value: []byte{5, 0}}}
}
