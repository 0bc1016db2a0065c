package egress_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/clientcert/clientcerttest"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/secret"
)

// put replaces the client certificate of the provider.
func (b *bank) put(t *testing.T, text string) {
	t.Helper()
	if err := b.secrets.Put(t.Context(), "mtls", secret.New(text)); err != nil {
		t.Fatal(err)
	}
}

// A new certificate applies to the next request. A running request continues, and its connection is
// closed when it ends. An unused connection is closed at once.
//
//ebb:invariant I2 The egress proxy never reuses a connection that showed one client certificate for a request with another client certificate
//ebb:invariant I2 The replacement of a lease's client certificate closes unused upstream connections that showed the old certificate
//ebb:invariant I2 An upstream connection in use when its client certificate is replaced closes after its running requests end
func TestClientCertificateIsReplaced(t *testing.T) {
	t.Parallel()
	for _, busy := range []bool{false, true} {
		release := make(chan struct{})
		over := sync.OnceFunc(func() { close(release) })
		b := newBank(t, func(w http.ResponseWriter, r *http.Request) {
			who(w, r)
			if r.URL.Path == "/v1/long" {
				_ = http.NewResponseController(w).Flush()
				<-release
			}
		}, clientOf(t, "old"), false)
		t.Cleanup(over) // before the upstream is closed, which waits for it
		x := b.sandbox(t)
		c, auth := x.client(t, false), "Bearer "+x.placeholder(t, "stripe:charges:read")
		var wg sync.WaitGroup
		if busy {
			wg.Go(func() {
				if res, body, err := try(t, c, "GET", "https://"+b.host+"/v1/long", "", "Authorization", auth); err != nil || res.StatusCode != http.StatusOK || !strings.HasPrefix(body, "old ") {
					t.Errorf("the running request: %q, %v", body, err)
				}
			})
			until(t, "it is running", func() bool { return len(b.arrived()) == 1 })
		} else if _, body := send(t, c, "GET", "https://"+b.host+"/v1/x", "", "Authorization", auth); !strings.HasPrefix(body, "old ") {
			t.Error(body)
		}
		b.put(t, b.Client(t, "new"))
		for range 2 {
			if _, body := send(t, x.client(t, false), "GET", "https://"+b.host+"/v1/x", "", "Authorization", auth); !strings.HasPrefix(body, "new ") {
				t.Errorf("busy: %v; the next request: %s", busy, body)
			}
		}
		if n := b.open.Load(); busy && n != 2 {
			t.Errorf("%d connections while one request is running", n)
		}
		over()
		wg.Wait()
		until(t, "the old connection is closed", func() bool { return b.open.Load() == 1 })
	}
}

// If a client certificate is unusable, the operator gets the reason, and the sandbox only the fact.
// No request is sent, not even over an existing connection.
func TestClientCertificateThatCannotBeShown(t *testing.T) {
	t.Parallel()
	b := newBank(t, who, clientOf(t, "ebb"), true)
	x := b.sandbox(t)
	c, auth := x.client(t, true), "Bearer "+x.placeholder(t, "stripe:charges:read")
	send(t, c, "GET", "https://"+b.host+"/v1/x", "", "Authorization", auth)
	expired := b.Client(t, "ebb", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	for text, says := range map[string]string{expired: "has expired on", "garbage": "whole PEM blocks", b.Client(t, "x", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }): "clientAuth"} {
		b.put(t, text)
		if res, body := send(t, c, "GET", "https://"+b.host+"/v1/x", "", "Authorization", auth); res.StatusCode != http.StatusBadGateway || refused(t, body).Reason != "client_certificate" || strings.Contains(body, says) {
			t.Errorf("%s: %s %s", says, res.Status, body)
		}
		if !strings.Contains(b.log.String(), says) {
			t.Errorf("the log does not say that it %s", says)
		}
		if _, err := x.s.Ask(t, "stripe:charges:read"); err == nil {
			t.Errorf("%s: minted", says)
		}
	}
	if n := len(b.arrived()); n != 1 {
		t.Errorf("%d arrived", n)
	}
}

// If an upstream accepts no connection without a certificate, or rejects this certificate, the
// reason code says so. Otherwise it would look as if the upstream were down.
func TestClientCertificateThatIsNotTaken(t *testing.T) {
	t.Parallel()
	stranger := clientcerttest.New(t)
	var speaks atomic.Pointer[tls.Config]
	as := func(c *tls.Config) {
		c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return speaks.Load(), nil }
	}
	beds := map[string]*bed{
		"another's": newBank(t, who, func(*clientcerttest.Authority) string { return stranger.Client(t, "ebb") }, false, as).bed,
		"none":      newBedOn(t, who, func(*brokertest.Config) {}, requires(stranger, as)),
	}
	for what, b := range beds {
		x := b.sandbox(t)
		auth := "Bearer " + x.placeholder(t, "stripe:charges:read")
		for _, version := range []uint16{tls.VersionTLS13, tls.VersionTLS12} {
			for _, proto := range []string{"h2", "http/1.1"} {
				now := b.upstream.TLS.Clone()
				now.MaxVersion, now.NextProtos = version, []string{proto}
				speaks.Store(now)
				res, body := send(t, x.client(t, true), "GET", "https://"+b.host+"/v1/x", "", "Authorization", auth)
				if res.StatusCode != http.StatusBadGateway || !strings.Contains(body, `"client_certificate"`) || len(b.arrived()) != 0 {
					t.Errorf("%s, %s, %s: %s %s, %d arrived\n%s", tls.VersionName(version), proto, what, res.Status, body, len(b.arrived()), b.log)
				}
			}
		}
	}
}

// E83: no data that a sandbox receives or ebb writes contains the key, in any encoding in which an
// upstream that has the key could send it. The certificate is not secret.
//
//ebb:invariant I8 The redactor also searches responses for the private key of the client certificate
func TestClientCertificateThatComesBack(t *testing.T) {
	t.Parallel()
	key := clientcerttest.Key(t)
	text := clientcerttest.KeyPEM(t, key)
	block, _ := pem.Decode([]byte(text))
	quoted, _ := json.Marshal(text)
	b := newBank(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Key", base64.StdEncoding.EncodeToString(block.Bytes))
		w.Header().Set("X-Certificate", base64.StdEncoding.EncodeToString(r.TLS.PeerCertificates[0].Raw))
		_, _ = io.WriteString(w, map[string]string{
			"/v1/pem": text, "/v1/lines": strings.ReplaceAll(text, "\n", "\r\n"), "/v1/json": string(quoted), "/v1/hex": hex.EncodeToString(block.Bytes), "/v1/der": string(block.Bytes),
			"/v1/url": base64.RawURLEncoding.EncodeToString(append([]byte("x"), block.Bytes...)),
		}[r.URL.Path])
	}, func(a *clientcerttest.Authority) string { return a.ClientOf(t, "ebb", key) }, false)
	x := b.sandbox(t)
	auth := "Bearer " + x.placeholder(t, "stripe:charges:read")
	scalar, err := key.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	inner := strings.Split(text, "\n")[1]
	for _, path := range []string{"pem", "lines", "json", "hex", "der", "url"} {
		res, body := send(t, x.client(t, true), "GET", "https://"+b.host+"/v1/"+path, "", "Authorization", auth)
		for _, secret := range []string{inner, inner[:40], hex.EncodeToString(scalar), string(scalar), base64.RawURLEncoding.EncodeToString(append([]byte("x"), block.Bytes...))[4:60]} {
			if strings.Contains(body+fmt.Sprint(res.Header), secret) {
				t.Errorf("%s: %q %v", path, body, res.Header)
			}
		}
		if !strings.Contains(body, "[redacted]") || !strings.Contains(res.Header.Get("X-Key"), "[redacted]") || strings.Contains(res.Header.Get("X-Certificate"), "[redacted]") {
			t.Errorf("%s: %q %v", path, body, res.Header)
		}
	}
	if log := b.log.String(); strings.Contains(log, inner[:40]) || strings.Contains(log, "PRIVATE KEY") {
		t.Error("the log holds the key")
	}
}

// E101: a lease ends while it is used. After that, when running requests have ended, no connection
// with its certificate exists, no key is in memory, and no request arrives.
func TestClientCertificateIsRevokedWhileUsed(t *testing.T) {
	t.Parallel()
	b := newBank(t, who, clientOf(t, "ebb"), false)
	ends := map[string]func(task, lease string){
		"lease": func(_, lease string) { b.proxy.End(lease) },
		"task":  func(task, _ string) { b.proxy.End(task) },
		"pause": func(task, _ string) { b.proxy.Pause(task) },
		"doubt": func(string, string) { b.proxy.Doubt() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			x := b.sandbox(t)
			p := x.placeholder(t, "stripe:charges:read")
			lease := strings.TrimPrefix(p, egress.Prefix)
			var wg sync.WaitGroup
			before := len(b.arrived())
			for range 8 {
				c := x.client(t, true)
				wg.Go(func() {
					for range 4 {
						_, _, _ = try(t, c, "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+p)
					}
				})
			}
			until(t, "one has arrived", func() bool { return len(b.arrived()) > before })
			if name == "lease" || name == "task" {
				ops := b.Principals[brokertest.Operator]
				if _, err := b.Broker.RevokeLease(t.Context(), ops, lease, "test"); err != nil {
					t.Error(err)
				}
			}
			end(x.s.Task.ID, lease)
			wg.Wait()
			end(x.s.Task.ID, lease) // requests that arrived in between have ended, and their connections are idle
			until(t, "no connection is left", func() bool { return b.open.Load() == 0 })
			if n := b.proxy.Shown(); n != 0 {
				t.Errorf("%d keys are in memory", n)
			}
		})
	}
}

// An alert of an upstream that requests no certificate has another cause.
func TestAlertsThatAreAboutNoCertificate(t *testing.T) {
	t.Parallel()
	b := newBed(t, who, func(s *httptest.Server) {
		s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return new(tls.Config), nil }} // the upstream knows no server name
	})
	x := b.sandbox(t)
	res, body := send(t, x.client(t, true), "GET", "https://"+b.host+"/v1/x", "", "Authorization", "Bearer "+x.placeholder(t, "stripe:charges:read"))
	if res.StatusCode != http.StatusBadGateway || !strings.Contains(body, `"upstream_unreachable"`) || !strings.Contains(b.log.String(), "remote error") {
		t.Errorf("%s %s", res.Status, body)
	}
}
