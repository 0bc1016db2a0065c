package egress_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/websocket"

	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/clientcert/clientcerttest"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/provider/static"
	"github.com/ebb-broker/ebb/broker/secret"
)

// bank is a bed whose upstream requires a client certificate of its authority.
type bank struct {
	*bed
	*clientcerttest.Authority
	open atomic.Int32 // connections to the upstream
}

// newBank makes text the client certificate of the provider, which also adds a header if header is
// true.
func newBank(t *testing.T, handle http.HandlerFunc, text func(*clientcerttest.Authority) string, header bool, change ...func(*tls.Config)) *bank {
	t.Helper()
	b := &bank{Authority: clientcerttest.New(t)}
	b.bed = newBedOf(t, handle, func(made *bed, c *static.Config) {
		if err := made.secrets.Put(t.Context(), "mtls", secret.New(text(b.Authority))); err != nil {
			t.Fatal(err)
		}
		if c.ClientCertificate = (&static.Kept{Secret: "mtls"}); !header {
			c.Secret, c.Inject = "", static.Place{}
		}
	}, func(*brokertest.Config) {}, requires(b.Authority, change...), func(s *httptest.Server) {
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				b.open.Add(1)
			case http.StateClosed, http.StateHijacked:
				b.open.Add(-1)
			}
		}
	})
	return b
}

// requires makes a server require a client certificate of an authority.
func requires(a *clientcerttest.Authority, change ...func(*tls.Config)) func(*httptest.Server) {
	return func(s *httptest.Server) {
		s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.Pool()}
		for _, c := range change {
			c(s.TLS)
		}
		s.EnableHTTP2 = len(s.TLS.NextProtos) == 0
	}
}

// shown returns the common name of the certificate that the upstream has received.
func shown(r *http.Request) string {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return "nobody"
	}
	return r.TLS.PeerCertificates[0].Subject.CommonName
}

func who(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, shown(r)+" "+r.Proto+" "+r.TLS.ServerName)
}

// clientOf returns a client certificate for a name, as the secret store holds it.
func clientOf(t *testing.T, name string) func(*clientcerttest.Authority) string {
	return func(a *clientcerttest.Authority) string { return strings.TrimSuffix(a.Client(t, name), "\n") }
}

//ebb:invariant I8 An upstream connection pool keeps the private key of a client certificate in memory only while one of its requests is in progress
func TestClientCertificate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*tls.Config)
		proto  string
	}{
		"TLS 1.3, HTTP/2":   {func(*tls.Config) {}, "HTTP/2.0"},
		"TLS 1.3, HTTP/1.1": {func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }, "HTTP/1.1"},
		"TLS 1.2, HTTP/2":   {func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, "HTTP/2.0"},
	} {
		b := newBank(t, who, clientOf(t, "ebb"), true, tt.change)
		x := b.sandbox(t)
		p := x.placeholder(t, "stripe:charges:read")
		c := x.client(t, true)
		for range 2 {
			if res, body := send(t, c, "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p); res.StatusCode != http.StatusOK || body != "ebb "+tt.proto+" api.example.com" {
				t.Errorf("%s: %s %q", name, res.Status, body)
			}
		}
		until(t, "no key is in memory without a running request", func() bool { return b.proxy.Shown() == 0 })
		seen := b.arrived()
		if len(seen) != 2 || seen[0].RemoteAddr != seen[1].RemoteAddr || seen[0].Header.Get("Authorization") != "Bearer "+canary {
			t.Errorf("%s: it arrived as %v", name, seen)
		}
		if len(seen) > 0 && len(seen[0].TLS.PeerCertificates) != 2 {
			t.Errorf("%s: its chain is %d long", name, len(seen[0].TLS.PeerCertificates))
		}
	}
}

// A WebSocket uses the client certificate, too, and a lease with only a client certificate needs no
// other secret.
func TestClientCertificateOfAWebSocket(t *testing.T) {
	t.Parallel()
	b := newBank(t, sockets, clientOf(t, "ebb"), false)
	x := b.sandbox(t)
	ws, err := x.socketTo(t, "/ws/echo", "Bearer "+x.placeholder(t, "stripe:charges:listen"))
	if err != nil {
		t.Fatal(err)
	}
	var heard string
	if err := websocket.Message.Receive(ws, &heard); err != nil || heard != "you are " {
		t.Errorf("it says %q, %v", heard, err)
	}
	if seen := b.arrived(); len(seen) != 1 || shown(seen[0]) != "ebb" || seen[0].Header.Get("Upgrade") != "websocket" {
		t.Errorf("it arrived as %v", seen)
	}
}

// Connections belong to one lease: state that an upstream keeps for a connection by its certificate
// reaches no other lease.
func TestClientCertificateOfALease(t *testing.T) {
	t.Parallel()
	b := newBank(t, who, clientOf(t, "ebb"), false)
	x := b.sandbox(t)
	c := x.client(t, true)
	for range 2 {
		send(t, c, "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+x.placeholder(t, "stripe:charges:read"))
	}
	if seen := b.arrived(); len(seen) != 2 || seen[0].RemoteAddr == seen[1].RemoteAddr {
		t.Errorf("two leases have one connection: %v", seen)
	}
	for _, p := range []string{"", "Bearer ebb-placeholder.lse_00000000000000000000000000000000"} {
		if res, body := send(t, c, "GET", "https://"+b.host+"/v1/x", "", "Authorization", p); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q: %s %s", p, res.Status, body)
		}
	}
	other := b.sandbox(t)
	p := "Bearer " + x.placeholder(t, "stripe:charges:read")
	if res, body := send(t, other.client(t, true), "GET", "https://"+b.host+"/v1/x", "", "Authorization", p); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("another sandbox: %s %s", res.Status, body)
	}
	if n := len(b.arrived()); n != 2 {
		t.Errorf("%d arrived", n)
	}
}

// E81: client certificates go only to hosts of their lease that prove their identity. They do not
// go to the target of a redirect, to a server without a certificate for the name, or to another
// name or Host at the same address.
func TestClientCertificateGoesNowhereElse(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32 // handshakes with another server that requests a certificate
	thief := httptest.NewUnstartedServer(http.HandlerFunc(who))
	thief.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		asked.Add(1)
		return nil, nil
	}}
	thief.StartTLS() // for *.example.com, like the upstream
	defer thief.Close()
	_, port, _ := net.SplitHostPort(thief.Listener.Addr().String())
	b := newBank(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://www.example.com:"+port+"/v1/x", http.StatusTemporaryRedirect)
	}, clientOf(t, "ebb"), true)
	x := b.sandbox(t)
	auth := "Bearer " + x.placeholder(t, "stripe:charges:read")
	res, _ := send(t, x.client(t, true), "GET", "https://"+b.host+"/v1/x", "", "Authorization", auth)
	if res.StatusCode != http.StatusTemporaryRedirect || asked.Load() != 0 {
		t.Errorf("%s; %d were asked", res.Status, asked.Load())
	}
	for _, to := range []string{res.Header.Get("Location"), "https://api.example.com:" + port + "/v1/x"} {
		if res, body := send(t, x.client(t, true), "GET", to, "", "Authorization", auth); res.StatusCode != http.StatusForbidden || !strings.Contains(body, "not_allowed") {
			t.Errorf("%s: %s %s", to, res.Status, body)
		}
	}
	_, own, _ := net.SplitHostPort(b.host)
	if res, body := send(t, x.client(t, true), "GET", "https://www.example.com:"+own+"/v1/x", "", "Authorization", auth); res.StatusCode != http.StatusForbidden {
		t.Errorf("another name of the upstream: %s %s", res.Status, body)
	}
	if asked.Load() != 0 || len(b.arrived()) != 1 {
		t.Errorf("%d connections, %d requests", asked.Load(), len(b.arrived()))
	}
}

// A server that cannot prove that it is the host of the lease gets no request and no certificate.
func TestClientCertificateIsShownToTheHostAlone(t *testing.T) {
	t.Parallel()
	for name, version := range map[string]uint16{"TLS 1.3": tls.VersionTLS13, "TLS 1.2": tls.VersionTLS12} {
		var got atomic.Int32
		b := newBank(t, who, clientOf(t, "ebb"), false, func(c *tls.Config) {
			c.ClientAuth, c.MaxVersion = tls.RequestClientCert, version
			c.VerifyPeerCertificate = func(raw [][]byte, _ [][]*x509.Certificate) error { got.Add(int32(len(raw))); return nil }
		})
		b.with(t, func(c *egress.Config) { c.Roots = x509.NewCertPool() })
		x := b.sandbox(t)
		res, body := send(t, x.client(t, true), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+x.placeholder(t, "stripe:charges:read"))
		if res.StatusCode != http.StatusBadGateway || !strings.Contains(body, "upstream_unreachable") || got.Load() != 0 || len(b.arrived()) != 0 {
			t.Errorf("%s: %s %s, %d certificates were shown", name, res.Status, body, got.Load())
		}
	}
}
