package kubernetes_test

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ebb/broker/provider/kubernetes"
)

// cluster is a real API server, seen by its administrator.
type cluster struct {
	t      *testing.T
	server string
	ca     string // file
	admin  string // token
	client *http.Client
}

// realCluster finds the one of EBB_TEST_KUBE: a directory with the files server (its
// URL), ca.pem and admin.token, as .ci/beds-slow.sh makes it. Without the variable
// the test is skipped, or fails when EBB_TEST_REQUIRE lists "kube".
func realCluster(t *testing.T) *cluster {
	t.Helper()
	dir := os.Getenv("EBB_TEST_KUBE")
	if dir == "" {
		if slices.Contains(strings.Split(os.Getenv("EBB_TEST_REQUIRE"), ","), "kube") {
			t.Fatal("EBB_TEST_REQUIRE lists kube: set EBB_TEST_KUBE, as .ci/beds-slow.sh does")
		}
		t.Skip("EBB_TEST_KUBE is not set")
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(read("ca.pem"))) {
		t.Fatal("ca.pem holds no certificate")
	}
	c := &cluster{t: t, server: read("server"), ca: filepath.Join(dir, "ca.pem"), admin: read("admin.token"), client: &http.Client{
		Timeout: 20 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
	}}
	t.Cleanup(c.client.CloseIdleConnections)
	return c
}

// as sends a request with a token.
func (c *cluster) as(token, method, path, contentType, body string) (int, map[string]any) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.server+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "application/json")
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

// do is the administrator's, and must succeed.
func (c *cluster) do(method, path string, body any) map[string]any {
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
	status, out := c.as(c.admin, method, path, contentType, text)
	if status > 299 {
		c.t.Fatalf("%s %s: %d %v", method, path, status, out["message"])
	}
	return out
}

var kindLine = regexp.MustCompile(`(?m)^kind: (\w+)$`)

// apply makes the objects of a text, each as it stands. What is there already was
// made from the same text.
func (c *cluster) apply(yaml string) {
	c.t.Helper()
	const core, rbac = "/api/v1", "/apis/rbac.authorization.k8s.io/v1"
	for _, object := range strings.Split(yaml, "\n---\n") {
		kind := kindLine.FindStringSubmatch(object)
		if kind == nil {
			c.t.Fatalf("no kind in %q", object)
		}
		namespace := ""
		if m := regexp.MustCompile(`(?m)^metadata: .*namespace: ([a-z0-9-]+)`).FindStringSubmatch(object); m != nil {
			namespace = m[1]
		}
		path := map[string]string{
			"Namespace": core + "/namespaces", "ServiceAccount": core + "/namespaces/" + namespace + "/serviceaccounts",
			"Role": rbac + "/namespaces/" + namespace + "/roles", "RoleBinding": rbac + "/namespaces/" + namespace + "/rolebindings",
		}[kind[1]]
		if path == "" {
			c.t.Fatalf("the page makes a %s, which nobody applies here", kind[1])
		}
		status, out := c.as(c.admin, http.MethodPost, path, "application/yaml", object)
		if status != http.StatusCreated && status != http.StatusConflict {
			c.t.Fatalf("%s: %d %v", path, status, out["message"])
		}
	}
}

// blocks are the YAML blocks of the page that operators read.
func blocks(t *testing.T) (objects, config string) {
	t.Helper()
	page, err := os.ReadFile("../../../docs/providers/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	if len(found) != 2 {
		t.Fatalf("the page has %d blocks of YAML, not the objects and the configuration", len(found))
	}
	return string(found[0][1]), string(found[1][1])
}

// login is a token of a service account for the broker, as a pod has one.
func (c *cluster) login(namespace, account string) string {
	c.t.Helper()
	out := c.do(http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+account+"/token", map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{"expirationSeconds": 3600},
	})
	status, _ := out["status"].(map[string]any)
	token, _ := status["token"].(string)
	return token
}

// documented is a driver whose rights are those of the page, and nothing else.
func (c *cluster) documented() *kubernetes.Driver {
	c.t.Helper()
	objects, _ := blocks(c.t)
	c.apply(objects)
	return driver(c.t, kubernetes.Config{
		Server: c.server, CAFile: c.ca, TokenFile: file(c.t, c.login("ebb", "ebb")),
		Grants: map[string]map[string]kubernetes.Account{"shop": {
			"deploy": {Namespace: "agents", ServiceAccount: "shop-deployer"},
			"call":   {Namespace: "agents", ServiceAccount: "shop-deployer", Audiences: []string{"https://shop.example.com"}},
		}},
	})
}

// review asks the API server about a token, as a resource server does.
func (c *cluster) review(token string, audiences ...string) (authenticated bool, status map[string]any) {
	c.t.Helper()
	out := c.do(http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews", map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": map[string]any{"token": token, "audiences": audiences},
	})
	status, _ = out["status"].(map[string]any)
	authenticated, _ = status["authenticated"].(bool)
	return authenticated, status
}

// used asks the API server who the token is: whoever has it can do that much.
func (c *cluster) used(token string) (who string, status int) {
	c.t.Helper()
	status, out := c.as(token, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", "application/json",
		`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`)
	if status != http.StatusCreated {
		return "", status
	}
	raw, _ := json.Marshal(out["status"])
	var s struct{ UserInfo struct{ Username string } }
	if err := json.NewDecoder(bytes.NewReader(raw)).Decode(&s); err != nil {
		c.t.Fatal(err)
	}
	return s.UserInfo.Username, status
}

// namespace makes one of this test's own, with a service account for the broker
// and one for agents.
func (c *cluster) namespace() string {
	c.t.Helper()
	name := "t-" + strings.ToLower(rand.Text()[:10])
	c.apply(fmt.Sprintf(`apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: ebb, namespace: %[1]s}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: worker, namespace: %[1]s}`, name))
	return name
}

// grants lets the broker of a namespace do what rules say, in YAML.
func (c *cluster) grants(ns, rules string) {
	c.t.Helper()
	c.apply(fmt.Sprintf(`apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: ebb, namespace: %[1]s}
rules: %[2]s
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: ebb, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: ebb}
subjects: [{kind: ServiceAccount, name: ebb, namespace: %[1]s}]`, ns, rules))
}

// inside is a driver for one namespace.
func (c *cluster) inside(ns string) *kubernetes.Driver {
	c.t.Helper()
	return driver(c.t, kubernetes.Config{
		Server: c.server, CAFile: c.ca, TokenFile: file(c.t, c.login(ns, "ebb")),
		Grants: map[string]map[string]kubernetes.Account{"shop": {"deploy": {Namespace: ns, ServiceAccount: "worker"}}},
	})
}
