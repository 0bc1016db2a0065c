package provider_test

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/provider"
)

// proxyChild has this binary make one call, in an environment of its own: net/http reads its proxies once.
const proxyChild = "EBB_TEST_PROXY_CHILD"

// TestCertificateIsNotShownToProxy: a proxy by https that asks for a certificate is shown none, since
// nothing is sent to it; without a certificate it is used.
//
//ebb:invariant I6 A client certificate for ebb's own calls is never presented to a proxy: ebb refuses an HTTPS proxy for these calls
func TestCertificateIsNotShownToProxy(t *testing.T) {
	if with := os.Getenv(proxyChild); with != "" {
		h := provider.HTTP{}
		if with == "certificate" {
			h.Certificate = func() (*tls.Certificate, error) {
				t.Error("the certificate was asked for")
				return nil, errors.New("asked for")
			}
		}
		_, err := h.Client().Get("https://api.example.com/")
		t.Logf("said: %v", err)
		return
	}
	for _, c := range []struct{ with, by, said string }{
		{"certificate", "https", "would receive the client certificate"},
		{"certificate", "http", "Bad Gateway"},
		{"nothing", "https", "certificate signed by unknown authority"},
	} {
		asked := make(chan struct{}, 8)
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked <- struct{}{}
			w.WriteHeader(http.StatusBadGateway)
		}))
		if s.TLS = (&tls.Config{ClientAuth: tls.RequestClientCert}); c.by == "https" {
			s.StartTLS()
		} else {
			s.Start()
		}
		cmd := exec.Command(os.Args[0], "-test.run=^TestCertificateIsNotShownToProxy$", "-test.v")
		cmd.Env = append(os.Environ(), proxyChild+"="+c.with, "HTTPS_PROXY="+s.URL, "NO_PROXY=", "no_proxy=", "https_proxy=")
		out, err := cmd.CombinedOutput()
		s.Close()
		if err != nil || !strings.Contains(string(out), c.said) {
			t.Errorf("with %s by %s: %v\n%s", c.with, c.by, err, out)
		}
		if used := len(asked) > 0; used != (c.by == "http") {
			t.Errorf("with %s by %s: the proxy was asked: %v", c.with, c.by, used)
		}
	}
}
