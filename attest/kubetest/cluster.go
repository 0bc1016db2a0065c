package kubetest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// Cluster is a real API server, used as its administrator.
type Cluster struct {
	Server string // its URL
	CAFile string

	t      testing.TB
	admin  string // token
	client *http.Client
}

// Real returns the cluster of EBB_TEST_KUBE: a directory with the files server (the
// URL), ca.pem and admin.token, as .ci/beds-slow.sh makes it.
func Real(t testing.TB) *Cluster {
	t.Helper()
	dir := counterpart.Need(t, "EBB_TEST_KUBE")
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name)) //nolint:gosec // a test's own bed
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(read("ca.pem"))) {
		t.Fatal("ca.pem holds no certificate")
	}
	c := &Cluster{t: t, Server: read("server"), CAFile: filepath.Join(dir, "ca.pem"), admin: read("admin.token"), client: &http.Client{
		Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
	}}
	t.Cleanup(c.client.CloseIdleConnections)
	return c
}

// For returns the same cluster for another test.
func (c *Cluster) For(t testing.TB) *Cluster {
	other := *c
	other.t = t
	return &other
}

// As sends a request with a token.
func (c *Cluster) As(token, method, path, contentType, body string) (int, map[string]any) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.Server+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "application/json, application/jwk-set+json")
	if body != "" {
		r.Header.Set("Content-Type", contentType)
	}
	resp, err := c.client.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(text, &out); err != nil {
		c.t.Fatalf("%s %s: %q", method, path, text)
	}
	return resp.StatusCode, out
}

// Do sends a request as the administrator and fails the test unless it succeeds.
func (c *Cluster) Do(method, path string, body any) map[string]any {
	c.t.Helper()
	contentType := "application/json"
	if method == http.MethodPatch {
		contentType = "application/merge-patch+json"
	}
	text := ""
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			c.t.Fatal(err)
		}
		text = string(b)
	}
	status, out := c.As(c.admin, method, path, contentType, text)
	if status > 299 {
		c.t.Fatalf("%s %s: %d %v", method, path, status, out["message"])
	}
	return out
}
