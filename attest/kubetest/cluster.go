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

// Object is a decoded object of the API.
type Object = map[string]any

// Answer writes body as a response of an API server.
func Answer(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body)
}

// Says returns a handler that always gives the same response.
func Says(code int, body any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { Answer(w, code, body) }
}

// Status returns the Status object of a failure. of are the resource and the name of
// the object that it concerns, if any.
func Status(code int, reason, message string, of ...string) Object {
	details := Object{}
	if len(of) == 2 {
		details = Object{"kind": of[0], "name": of[1]}
	}
	return Object{"kind": "Status", "apiVersion": "v1", "metadata": Object{}, "status": "Failure", "message": message, "reason": reason, "details": details, "code": code}
}

// NotFound returns the Status for an object that does not exist.
func NotFound(resource, name string) Object {
	return Status(http.StatusNotFound, "NotFound", resource+` "`+name+`" not found`, resource, name)
}

// Read decodes a body as with fieldValidation=Strict, and fails the test on a body that
// an API server would refuse. It does not call t.Helper, because fuzz targets call it
// where they may not.
func Read(t testing.TB, r *http.Request, into any) {
	if ct := r.Header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("%s %s: Content-Type %q", r.Method, r.URL.Path, ct)
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	if rest, _ := io.ReadAll(d.Buffered()); len(strings.TrimSpace(string(rest))) > 0 {
		t.Errorf("%s %s: more than one document", r.Method, r.URL.Path)
	}
}

// File writes text, such as a token, to a file that exists until the test ends, and
// returns its path.
func File(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
