package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/cmd/internal/config"
)

// selfSigned is a self-signed certificate, and its files.
func selfSigned(t *testing.T) (cert tls.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, certFile, keyFile
}

// The client certificates that the listener requests and accepts.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	_, cert, key := selfSigned(t)
	mine, mineFile, _ := selfSigned(t)
	stranger, _, _ := selfSigned(t)
	// The certificate of another client, without its key, which every mode must
	// refuse.
	thief := tls.Certificate{Certificate: mine.Certificate, PrivateKey: stranger.PrivateKey}
	const refused, unseen, seen = "refused", "unseen", "seen"
	for name, tc := range map[string]struct {
		config                        config.TLS
		none, mine, strangers, thiefs string
	}{
		"nothing is asked for": {config.TLS{}, unseen, unseen, unseen, unseen},
		"client_ca":            {config.TLS{ClientCA: mineFile}, unseen, seen, refused, refused},
		"any":                  {config.TLS{ClientCerts: config.AnyClientCert}, unseen, seen, seen, refused},
	} {
		tc.config.Cert, tc.config.Key = cert, key
		served, err := serverTLS(tc.config)
		if err != nil {
			t.Fatal(err)
		}
		if asks := served.ClientAuth != tls.NoClientCert; asks != tc.config.Mutual() {
			t.Errorf("%s: asks for certificates %t, says %t", name, asks, tc.config.Mutual())
		}
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if len(r.TLS.PeerCertificates) > 0 {
				io.WriteString(w, seen) //nolint:errcheck // test
				return
			}
			io.WriteString(w, unseen) //nolint:errcheck // test
		}))
		s.TLS, s.Config.ErrorLog = served, log.New(io.Discard, "", 0)
		s.StartTLS()
		for _, c := range []struct {
			shows *tls.Certificate
			want  string
		}{{nil, tc.none}, {&mine, tc.mine}, {&stranger, tc.strangers}, {&thief, tc.thiefs}} {
			asked := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the server's certificate is not under test
			asked.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if c.shows == nil {
					return &tls.Certificate{}, nil
				}
				return c.shows, nil
			}
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: asked}}
			got := refused
			if resp, err := client.Get(s.URL); err == nil {
				b, _ := io.ReadAll(resp.Body)
				resp.Body.Close() //nolint:errcheck // test
				got = string(b)
			}
			if got != c.want {
				t.Errorf("%s: got %s, want %s", name, got, c.want)
			}
			client.CloseIdleConnections()
		}
		s.Close()
	}
}
