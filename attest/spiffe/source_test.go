package spiffe_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/spiffe"
)

// bundles serves what it is told to.
type bundles struct {
	*httptest.Server
	serve atomic.Pointer[http.HandlerFunc]
	asked atomic.Int64
}

func (b *bundles) set(h http.HandlerFunc) { b.serve.Store(&h) }

func (b *bundles) text(text []byte) {
	b.set(func(w http.ResponseWriter, _ *http.Request) { w.Write(text) }) //nolint:errcheck // test
}

// endpoint serves over TLS, as the chain and key say, or with httptest's own.
func endpoint(t testing.TB, text []byte, cert *tls.Certificate) *bundles {
	t.Helper()
	b := &bundles{}
	b.text(text)
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.asked.Add(1)
		(*b.serve.Load())(w, r)
	}))
	if cert != nil {
		b.TLS = &tls.Config{Certificates: []tls.Certificate{*cert}}
	}
	b.Config.ErrorLog = log.New(io.Discard, "", 0)
	b.StartTLS()
	t.Cleanup(b.Close)
	return b
}

// caFile is the certificate of a server as a PEM file.
func caFile(t testing.TB, s *bundles) string {
	t.Helper()
	return file(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// serverSVID is an X.509-SVID with its key for a bundle endpoint.
func (a *authority) serverSVID(tmpl *x509.Certificate) *tls.Certificate {
	a.t.Helper()
	key := newKey(a.t)
	return &tls.Certificate{Certificate: [][]byte{a.issue(tmpl, a.cert, key, a.key).Raw}, PrivateKey: key}
}

const serverID = "spiffe://" + home + "/spire/server"

func (f *fixture) from(t testing.TB, d spiffe.TrustDomain) *spiffe.Attestor {
	t.Helper()
	d.Allow = []string{"/**"}
	c := f.config
	c.TrustDomains = map[string]spiffe.TrustDomain{home: d}
	return open(t, c)
}

func (f *fixture) spiffeEndpoint(b *bundles) spiffe.TrustDomain {
	return spiffe.TrustDomain{HTTPSSPIFFE: b.URL, EndpointID: serverID, EndpointBundleFile: f.config.TrustDomains[home].BundleFile}
}

// outcome of showing both kinds of SVID.
func (f *fixture) outcome(t testing.TB, a *spiffe.Attestor) string {
	t.Helper()
	var out []string
	for _, e := range []attest.Evidence{document(t, f.home.token(nil)), shows(t, f.home.svid(leaf(boxID)))} {
		switch _, err := a.Attest(t.Context(), e); {
		case err == nil:
			out = append(out, "accepted")
		case errors.Is(err, attest.ErrRejected):
			out = append(out, "rejected")
		default:
			out = append(out, "cannot judge")
		}
	}
	return strings.Join(out, ", ")
}

const (
	accepted = "accepted, accepted"
	rejected = "rejected, rejected"
	unjudged = "cannot judge, cannot judge"
)

func (f *fixture) want(t testing.TB, name string, a *spiffe.Attestor, want string) {
	t.Helper()
	if got := f.outcome(t, a); got != want {
		t.Errorf("%s: %s, want %s", name, got, want)
	}
}

// comes waits until the result of a due fetch is in use: a caller waits a short while for the
// fetch, and then gets the last good bundle.
func (f *fixture) comes(t testing.TB, name string, a *spiffe.Attestor, want string) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); f.outcome(t, a) != want && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	f.want(t, name, a, want)
}

// again makes it connect anew, and fetch.
func (f *fixture) again(t testing.TB, name string, a *spiffe.Attestor, b *bundles, want string) {
	t.Helper()
	asked := b.asked.Load()
	b.CloseClientConnections()
	f.clock.Advance(6 * time.Minute)
	f.comes(t, name, a, want)
	for end := time.Now().Add(2 * time.Minute); b.asked.Load() == asked && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	f.want(t, name, a, want)
	if b.asked.Load() == asked {
		t.Errorf("%s: it did not ask again", name)
	}
}

func TestHTTPSWeb(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := endpoint(t, f.home.text(), nil)
	f.want(t, "an endpoint that ca_file vouches for", f.from(t, spiffe.TrustDomain{HTTPSWeb: b.URL, CAFile: caFile(t, b)}), accepted)
	f.want(t, "an endpoint that nobody vouches for", f.from(t, spiffe.TrustDomain{HTTPSWeb: b.URL}), unjudged)
	if b.asked.Load() != 1 {
		t.Errorf("asked %d times", b.asked.Load())
	}
}

// TestHTTPSSPIFFE: the endpoint is identified by its SPIFFE ID, and not by a certificate of
// the Web PKI.
func TestHTTPSSPIFFE(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	local := func(id string) *x509.Certificate {
		tmpl := leaf(id)
		tmpl.IPAddresses, tmpl.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
		return tmpl
	}
	stale := local(serverID)
	stale.NotBefore, stale.NotAfter = f.clock.Now().Add(-2*time.Hour), f.clock.Now().Add(-time.Hour)
	for name, tc := range map[string]struct {
		cert *tls.Certificate
		want string
	}{
		"the pinned ID":                   {f.home.serverSVID(leaf(serverID)), accepted},
		"another workload":                {f.home.serverSVID(local(boxID)), unjudged},
		"the ID with more behind":         {f.home.serverSVID(local(serverID + "/x")), unjudged},
		"the ID in another trust domain":  {f.away.serverSVID(local("spiffe://" + away + "/spire/server")), unjudged},
		"the ID by another trust domain":  {f.away.serverSVID(local(serverID)), unjudged},
		"the ID by an impostor":           {newAuthority(t, f.clock, home).serverSVID(local(serverID)), unjudged},
		"expired":                         {f.home.serverSVID(stale), unjudged},
		"a certificate of the web's kind": {nil, unjudged},
	} {
		b := endpoint(t, f.home.text(), tc.cert)
		f.want(t, name, f.from(t, f.spiffeEndpoint(b)), tc.want)
		if asked := b.asked.Load(); (asked > 0) != (tc.want == accepted) {
			t.Errorf("%s: asked %d times", name, asked)
		}
	}
	// The bundle of one trust domain from an endpoint of another.
	b := endpoint(t, f.home.text(), f.away.serverSVID(leaf("spiffe://"+away+"/spire/server")))
	a := f.from(t, spiffe.TrustDomain{HTTPSSPIFFE: b.URL, EndpointID: "spiffe://" + away + "/spire/server", EndpointBundleFile: f.config.TrustDomains[away].BundleFile})
	f.want(t, "an endpoint of another trust domain", a, accepted)
	f.again(t, "which stays of that one", a, b, accepted)
	d := f.spiffeEndpoint(endpoint(t, f.home.text(), f.home.serverSVID(leaf(serverID))))
	d.EndpointBundleFile = file(t, []byte("nope"))
	f.want(t, "without a bundle to begin with", f.from(t, d), unjudged)
}

// TestHTTPSSPIFFEComesBack: after a trust domain has withdrawn all its keys, its endpoint can
// still be authenticated. Otherwise it could never publish new keys.
func TestHTTPSSPIFFEComesBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := endpoint(t, f.home.text(), f.home.serverSVID(leaf(serverID)))
	a := f.from(t, f.spiffeEndpoint(b))
	f.want(t, "before", a, accepted)
	b.text(keySet())
	f.again(t, "taken back", a, b, rejected)
	b.text(f.home.text())
	f.again(t, "given again", a, b, accepted)
}

// TestHTTPSSPIFFERotates: the endpoint's own authority rotates; the file is used only for the
// first connection.
func TestHTTPSSPIFFERotates(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	next := newAuthority(t, f.clock, home)
	both := f.home.bundle()
	both.AddX509Authority(next.cert)
	if err := both.AddJWTAuthority(next.kid, next.jwt.Public()); err != nil {
		t.Fatal(err)
	}
	b := endpoint(t, printed(t, both), f.home.serverSVID(leaf(serverID)))
	a := f.from(t, f.spiffeEndpoint(b))
	f.want(t, "prepared", a, accepted)
	cert := next.serverSVID(leaf(serverID))
	b.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{Certificates: []tls.Certificate{*cert}}, nil
	}
	b.CloseClientConnections()
	b.text(next.text())
	f.clock.Advance(6 * time.Minute)
	f.comes(t, "the old authority is gone", a, rejected)
	f.home = next
	f.want(t, "the new one is there", a, accepted)
	if b.asked.Load() < 2 {
		t.Error("nothing was fetched again")
	}
}

// TestEndpointMisbehaves: invalid responses of a bundle endpoint change nothing in the last
// good bundle.
func TestEndpointMisbehaves(t *testing.T) {
	t.Parallel()
	elsewhere := attesttest.NewTrap(t)
	evil := func(f *fixture) []byte { return newAuthority(t, f.clock, home).text() }
	for name, misbehave := range map[string]func(*fixture, *bundles){
		"500": func(_ *fixture, b *bundles) {
			b.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
		},
		"404":  func(_ *fixture, b *bundles) { b.set(http.NotFound) },
		"page": func(_ *fixture, b *bundles) { b.text([]byte("<html>")) },
		"redirect": func(_ *fixture, b *bundles) {
			b.set(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) })
		},
		"redirect with a body": func(f *fixture, b *bundles) {
			text := evil(f)
			b.set(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(http.StatusTemporaryRedirect)
				w.Write(text) //nolint:errcheck // test
			})
		},
		"a bundle with 203": func(f *fixture, b *bundles) {
			text := evil(f)
			b.set(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusNonAuthoritativeInfo)
				w.Write(text) //nolint:errcheck // test
			})
		},
		"hangs": func(_ *fixture, b *bundles) {
			b.set(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		},
		"is gone": func(_ *fixture, b *bundles) { b.Close() },
		"endless": func(_ *fixture, b *bundles) {
			b.set(func(w http.ResponseWriter, _ *http.Request) {
				for range 64 {
					w.Write(make([]byte, 64<<10)) //nolint:errcheck // test
				}
			})
		},
		"cut": func(f *fixture, b *bundles) {
			text := evil(f)
			b.set(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100000")
				w.Write(text[:len(text)-1]) //nolint:errcheck // test
			})
		},
		"a private key": func(_ *fixture, b *bundles) {
			b.text(keySet(map[string]any{"kty": "oct", "k": "AAAA", "use": "jwt-svid", "kid": "s"}))
		},
		"now somebody else's": func(f *fixture, b *bundles) {
			cert := newAuthority(t, f.clock, home).serverSVID(leaf(serverID))
			b.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
				return &tls.Config{Certificates: []tls.Certificate{*cert}}, nil
			}
			b.CloseClientConnections()
			b.text(evil(f))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.config.Fetch.Timeout = 3 * time.Second // what hangs costs, and what a busy machine needs
			b := endpoint(t, f.home.text(), f.home.serverSVID(leaf(serverID)))
			a := f.from(t, f.spiffeEndpoint(b))
			f.want(t, "before", a, accepted)
			misbehave(f, b)
			fresh := f.from(t, f.spiffeEndpoint(b))
			f.want(t, "an ebb that starts now", fresh, unjudged)
			f.clock.Advance(6 * time.Minute)
			f.want(t, "after", a, accepted)
			f.home = newAuthority(t, f.clock, home)
			f.want(t, "an unknown key", a, unjudged)
			f.clock.Advance(25 * time.Hour)
			f.want(t, "a day later", a, unjudged)
		})
	}
	if n := elsewhere.Dials(); n != 0 {
		t.Errorf("%d connections to where the endpoint redirects", n)
	}
}

// TestRotation: a trust domain withdraws its keys by an empty bundle, and publishes new ones.
func TestRotation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := endpoint(t, f.home.text(), nil)
	a := f.from(t, spiffe.TrustDomain{HTTPSWeb: b.URL, CAFile: caFile(t, b)})
	f.want(t, "the first", a, accepted)
	old := f.home
	f.home = newAuthority(t, f.clock, home)
	b.text(f.home.text())
	f.want(t, "too early to ask again", a, rejected)
	f.clock.Advance(31 * time.Second)
	f.want(t, "an unknown key makes it ask", a, accepted)
	if asked := b.asked.Load(); asked != 2 {
		t.Errorf("asked %d times, want 2", asked)
	}
	f.home = old
	f.want(t, "the first again", a, rejected)
	f.clock.Advance(31 * time.Second)
	for range 20 {
		f.want(t, "the first again", a, rejected)
	}
	if asked := b.asked.Load(); asked != 3 {
		t.Errorf("asked %d times, want 3: an unknown key makes it ask once per back-off", asked)
	}
	b.text(keySet())
	f.clock.Advance(6 * time.Minute)
	f.want(t, "taken back", a, rejected)
}

// TestAuthorityRotates: an unknown authority causes a new fetch, like an unknown key.
func TestAuthorityRotates(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b := endpoint(t, f.home.text(), nil)
	a := f.from(t, spiffe.TrustDomain{HTTPSWeb: b.URL, CAFile: caFile(t, b)})
	f.want(t, "the first", a, accepted)
	f.home = newAuthority(t, f.clock, home)
	b.text(f.home.text())
	f.clock.Advance(31 * time.Second)
	if _, err := a.Attest(t.Context(), shows(t, f.home.svid(leaf(boxID)))); err != nil || b.asked.Load() != 2 {
		t.Errorf("asked %d times, %v", b.asked.Load(), err)
	}
}

func TestFileIsReadAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.want(t, "the first", f.Attestor, accepted)
	f.home = newAuthority(t, f.clock, home)
	if err := os.WriteFile(f.config.TrustDomains[home].BundleFile, f.home.text(), 0o600); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(61 * time.Second)
	f.want(t, "the second", f.Attestor, accepted)
}
