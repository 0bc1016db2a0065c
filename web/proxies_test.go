package web_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/web"
)

func certificate(t *testing.T) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func proxies(t *testing.T, list ...string) web.Proxies {
	t.Helper()
	p, err := web.ParseProxies(list)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParseProxies(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "10.0.0.0/33", "example.com", "0.0.0.0/0", "::/0", "10.0.0.1 "} {
		if _, err := web.ParseProxies([]string{bad}); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	proxies(t, "10.0.0.0/8", "192.0.2.7", "2001:db8::/32", "::1")
}

// A104: forwarding headers count only from a configured proxy.
func TestRFC_A104_ClientIP(t *testing.T) {
	t.Parallel()
	trusted := proxies(t, "10.0.0.0/8")
	for name, c := range map[string]struct {
		proxies web.Proxies
		peer    string
		xff     []string
		want    string
	}{
		"nobody is trusted":       {web.Proxies{}, "10.0.0.1:1", []string{"192.0.2.1"}, "10.0.0.1"},
		"peer is no proxy":        {trusted, "198.51.100.1:1", []string{"192.0.2.1"}, "198.51.100.1"},
		"proxy":                   {trusted, "10.0.0.1:1", []string{"192.0.2.1"}, "192.0.2.1"},
		"client forged the left":  {trusted, "10.0.0.1:1", []string{"203.0.113.9, 192.0.2.1"}, "192.0.2.1"},
		"two proxies":             {trusted, "10.0.0.1:1", []string{"192.0.2.1, 10.0.0.2"}, "192.0.2.1"},
		"two headers":             {trusted, "10.0.0.1:1", []string{"203.0.113.9", "192.0.2.1"}, "192.0.2.1"},
		"garbage":                 {trusted, "10.0.0.1:1", []string{"192.0.2.1, nonsense"}, "10.0.0.1"},
		"none":                    {trusted, "10.0.0.1:1", nil, "10.0.0.1"},
		"mapped address of proxy": {trusted, "[::ffff:10.0.0.1]:1", []string{"192.0.2.1"}, "192.0.2.1"},
		"unix socket":             {trusted, "@", []string{"192.0.2.1"}, "local"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.peer
		r.Header["X-Forwarded-For"] = c.xff
		if got := c.proxies.ClientIP(r); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestRFC_A104_ClientCert(t *testing.T) {
	t.Parallel()
	own, other := certificate(t), certificate(t)
	header := ":" + base64.StdEncoding.EncodeToString(other.Raw) + ":"
	trusted := proxies(t, "10.0.0.0/8")
	for name, c := range map[string]struct {
		peer   string
		tls    bool
		header []string
		want   string
		bad    bool
	}{
		"TLS":                        {"192.0.2.1:1", true, nil, web.X5T(own.Raw), false},
		"header from a stranger":     {"192.0.2.1:1", false, []string{header}, "", false},
		"header beside TLS":          {"192.0.2.1:1", true, []string{header}, web.X5T(own.Raw), false},
		"header from the proxy":      {"10.0.0.1:1", false, []string{header}, web.X5T(other.Raw), false},
		"proxy's own certificate":    {"10.0.0.1:1", true, nil, "", false},
		"proxy with two headers":     {"10.0.0.1:1", false, []string{header, header}, "", true},
		"proxy with a PEM":           {"10.0.0.1:1", false, []string{"-----BEGIN"}, "", true},
		"proxy with bad base64":      {"10.0.0.1:1", false, []string{":!:"}, "", true},
		"proxy with an empty header": {"10.0.0.1:1", false, []string{""}, "", true},
		"nothing":                    {"192.0.2.1:1", false, nil, "", false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.peer
		if c.tls {
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{own}}
		}
		if c.header != nil {
			r.Header["Client-Cert"] = c.header
		}
		chain, err := trusted.ClientChain(r)
		var der []byte
		if len(chain) > 0 {
			der = chain[0]
		}
		if (err != nil) != c.bad || web.X5T(der) != c.want || len(chain) > 1 {
			t.Errorf("%s: got %q, %v", name, web.X5T(der), err)
		}
	}
}

// The chain has one source: a stranger's certificates are not added to the
// proxy's headers, nor the proxy's own certificate to the client's.
func TestRFC_A104_ClientChain(t *testing.T) {
	t.Parallel()
	own, leaf, above, top := certificate(t), certificate(t), certificate(t), certificate(t)
	seq := func(c *x509.Certificate) string { return ":" + base64.StdEncoding.EncodeToString(c.Raw) + ":" }
	trusted := proxies(t, "10.0.0.0/8")
	for name, c := range map[string]struct {
		peer        string
		cert, chain []string
		want        []*x509.Certificate
		bad         bool
	}{
		"TLS":                      {"192.0.2.1:1", nil, nil, []*x509.Certificate{own, top}, false},
		"TLS and a stranger's":     {"192.0.2.1:1", []string{seq(leaf)}, []string{seq(above)}, []*x509.Certificate{own, top}, false},
		"the proxy's connection":   {"10.0.0.1:1", nil, nil, nil, false},
		"leaf":                     {"10.0.0.1:1", []string{seq(leaf)}, nil, []*x509.Certificate{leaf}, false},
		"chain":                    {"10.0.0.1:1", []string{seq(leaf)}, []string{seq(above) + ", " + seq(top)}, []*x509.Certificate{leaf, above, top}, false},
		"chain in two lines":       {"10.0.0.1:1", []string{seq(leaf)}, []string{seq(above), seq(top)}, []*x509.Certificate{leaf, above, top}, false},
		"chain without leaf":       {"10.0.0.1:1", nil, []string{seq(above)}, nil, true},
		"empty chain":              {"10.0.0.1:1", []string{seq(leaf)}, []string{""}, nil, true},
		"chain with a hole":        {"10.0.0.1:1", []string{seq(leaf)}, []string{seq(above) + ",," + seq(top)}, nil, true},
		"chain with a parameter":   {"10.0.0.1:1", []string{seq(leaf)}, []string{seq(above) + ";a=1"}, nil, true},
		"chain that is no base64":  {"10.0.0.1:1", []string{seq(leaf)}, []string{":!:"}, nil, true},
		"endless chain":            {"10.0.0.1:1", []string{seq(leaf)}, slices.Repeat([]string{seq(above)}, 16), nil, true},
		"two leaves":               {"10.0.0.1:1", []string{seq(leaf), seq(above)}, nil, nil, true},
		"two leaves in one header": {"10.0.0.1:1", []string{seq(leaf) + "," + seq(above)}, nil, nil, true},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.peer
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{own, top}}
		if c.cert != nil {
			r.Header["Client-Cert"] = c.cert
		}
		if c.chain != nil {
			r.Header["Client-Cert-Chain"] = c.chain
		}
		var want [][]byte
		for _, w := range c.want {
			want = append(want, w.Raw)
		}
		if got, err := trusted.ClientChain(r); (err != nil) != c.bad || !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("%s: got %d certificates, %v", name, len(got), err)
		}
	}
}

// Handlers behind the Mux never see a stranger's forwarding headers.
func TestRFC_A104_HeadersAreRemoved(t *testing.T) {
	t.Parallel()
	for peer, want := range map[string]bool{"192.0.2.1:1": false, "10.0.0.1:1": true} {
		m := newMux(t, web.Config{Proxies: proxies(t, "10.0.0.0/8")})
		var seen []string
		m.Add(http.MethodGet, "/", func(c echo.Context) error {
			for name := range c.Request().Header {
				if strings.HasPrefix(name, "X-Forwarded") || name == "Forwarded" || strings.HasPrefix(name, "Client-Cert") || name == "X-Real-Ip" {
					seen = append(seen, name)
				}
			}
			return c.NoContent(http.StatusNoContent)
		})
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = peer
		for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP", "Client-Cert", "Client-Cert-Chain"} {
			r.Header.Set(name, "evil")
		}
		m.ServeHTTP(httptest.NewRecorder(), r)
		if (len(seen) > 0) != want {
			t.Errorf("peer %s: the handler saw %v", peer, seen)
		}
	}
}
