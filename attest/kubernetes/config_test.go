package kubernetes_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/kubernetes"
	"github.com/ebb-broker/ebb/attest/kubetest"
)

func TestConfigProblems(t *testing.T) {
	t.Parallel()
	a := newServer(t, attesttest.NewClock())
	open := kubetest.File(t, "x")
	if err := os.Chmod(open, 0o644); err != nil { //nolint:gosec // that is what is refused
		t.Fatal(err)
	}
	for want, change := range map[string]func(*kubernetes.Config){
		"name is empty":                               func(c *kubernetes.Config) { c.Name = "" },
		`mode: "watch" is unknown`:                    func(c *kubernetes.Config) { c.Mode = "watch" },
		"audience is empty":                           func(c *kubernetes.Config) { c.Audience = "" },
		"audience is too long":                        func(c *kubernetes.Config) { c.Audience = "a\u202eb" },
		"max_lifetime is negative":                    func(c *kubernetes.Config) { c.MaxLifetime = -1 },
		"leeway is 1h0m0s, not between":               func(c *kubernetes.Config) { c.Leeway = new(time.Hour) },
		`algs: ebb does not accept algorithm "HS256"`: func(c *kubernetes.Config) { c.Algs = []jose.Alg{"HS256"} },
		`namespaces: "a/b"`:                           func(c *kubernetes.Config) { c.Namespaces = []string{"agents", "a/b"} },
		`namespaces: ""`:                              func(c *kubernetes.Config) { c.Namespaces = []string{""} },
		"belong to mode jwks":                         func(c *kubernetes.Config) { c.JWKSURL = "https://x.example" },
		"and allow_private_addresses":                 func(c *kubernetes.Config) { c.Fetch.Private = true },
		"name the file with ebb's own":                func(c *kubernetes.Config) { c.TokenFile = "" },
		"no such file":                                func(c *kubernetes.Config) { c.TokenFile = filepath.Join(t.TempDir(), "none") },
		"others can reach it":                         func(c *kubernetes.Config) { c.TokenFile = open },
		"is not a regular file":                       func(c *kubernetes.Config) { c.TokenFile = t.TempDir() },
		"token_file and ca_file are for":              func(c *kubernetes.Config) { c.Server = "" },
		"ebb does not run in a pod":                   func(c *kubernetes.Config) { c.Server, c.TokenFile = "", "" },
		"contains no certificate":                     func(c *kubernetes.Config) { c.CAFile = kubetest.File(t, "x") },
		"ca_file: open":                               func(c *kubernetes.Config) { c.CAFile = filepath.Join(t.TempDir(), "none") },
		"server: fetch: ":                             func(c *kubernetes.Config) { c.Server = "http://10.0.0.1" },
		"without user information":                    func(c *kubernetes.Config) { c.Server = "https://a:b@10.0.0.1" },
		"owner: write it like":                        func(c *kubernetes.Config) { c.Owner = &kubernetes.Owner{Group: "agents.x-k8s.io"} },
		"owner: write it like {": func(c *kubernetes.Config) {
			c.Owner = &kubernetes.Owner{Group: "agents.x-k8s.io/v1beta1", Kind: "Sandbox"}
		},
		"poll is 1ms, not between":                func(c *kubernetes.Config) { c.Poll = time.Millisecond },
		"poll is 1h0m0s, not between 1s and 5m0s": func(c *kubernetes.Config) { c.Poll = time.Hour },
		"issuer is not a URL":                     func(c *kubernetes.Config) { *c = a.signed(); c.Issuer = "cluster" },
		"or one with user information":            func(c *kubernetes.Config) { *c = a.signed(); c.Issuer = "https://a:hunter2@i.example" },
		"set exactly one of jwks":                 func(c *kubernetes.Config) { *c = a.signed(); c.JWKSURL = "" },
		"set exactly one of jwks, jwks":           func(c *kubernetes.Config) { *c = a.signed(); c.JWKSFile = "x" },
		"server, token_file, owner":               func(c *kubernetes.Config) { *c = a.signed(); c.UntilRemoved = true },
		"server, token_file":                      func(c *kubernetes.Config) { *c = a.signed(); c.Server = "https://10.0.0.1" },
		"not https":                               func(c *kubernetes.Config) { *c = a.signed(); c.JWKSURL = "http://issuer.example/jwks" },
		"no usable key":                           func(c *kubernetes.Config) { *c = a.signed(); c.JWKSURL, c.JWKS = "", []byte(`{"keys":[]}`) },
		"audience \"https://i.example\" is": func(c *kubernetes.Config) {
			*c = a.signed()
			c.Issuer, c.Audience = "https://i.example", "https://i.example"
		},
	} {
		c := a.config()
		change(&c)
		if at, err := kubernetes.New(c); at != nil || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v, want an error with %q and without passwords", err, want)
		}
	}
	if _, err := kubernetes.New(kubernetes.Config{Getenv: func(string) string { return "" }}); err == nil || strings.Count(err.Error(), "\n") < 2 {
		t.Errorf("got %v, want all problems at once", err)
	}
}

// A token for the API server gives access to it, so its audience is refused.
func TestAudiencesOfTheAPIServer(t *testing.T) {
	t.Parallel()
	a := newServer(t, attesttest.NewClock())
	for aud, taken := range map[string]bool{
		"https://kubernetes.default.svc": false, "https://kubernetes.default.svc.cluster.local": false, "https://kubernetes.default.svc.cluster.local:443/": false,
		"kubernetes.default.svc": false, "HTTPS://Kubernetes.Default.svc": false, "kubernetes": false, "api": false, "k3s": false, "https://10.0.0.1:6443": false,
		"https://ebb.example": true, "ebb": true, "https://kubernetes.example": true,
	} {
		c := a.config()
		c.Audience = aud
		if _, err := kubernetes.New(c); taken != (err == nil) {
			t.Errorf("%s: %v", aud, err)
		}
	}
}

// In a pod only the audience is required, and the files of the pod's service account
// are used.
func TestInCluster(t *testing.T) {
	t.Parallel()
	c := kubernetes.Config{Name: "cluster", Audience: aud, Getenv: func(name string) string {
		return map[string]string{"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}[name]
	}}
	_, err := kubernetes.New(c)
	if err == nil || !strings.Contains(err.Error(), "/var/run/secrets/kubernetes.io/serviceaccount/token") || strings.Contains(err.Error(), "server") {
		t.Errorf("got %v; want nothing but the absence of the pod's token", err)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	c, err := kubernetes.Decode([]byte(`{"audience":"https://ebb.example","server":"https://10.0.0.1","ca_file":"/ca","token_file":"/token","issuer":"https://i.example",
		"namespaces":["agents"],"allow_unbound":true,"max_lifetime":"10m","leeway":"30s","owner":{"group":"agents.x-k8s.io","kind":"Sandbox"},"until_removed":true,"poll":"2s"}`))
	if err != nil {
		t.Fatal(err)
	}
	if c.Mode != "" || c.Server != "https://10.0.0.1" || c.CAFile != "/ca" || c.TokenFile != "/token" || c.Issuer != "https://i.example" || c.Namespaces[0] != "agents" || !c.AllowUnbound ||
		c.MaxLifetime != 10*time.Minute || *c.Leeway != 30*time.Second || *c.Owner != (kubernetes.Owner{Group: "agents.x-k8s.io", Kind: "Sandbox"}) || !c.UntilRemoved || c.Poll != 2*time.Second {
		t.Errorf("got %+v", c)
	}
	c, err = kubernetes.Decode([]byte(`{"mode":"jwks","jwks_url":"https://i.example/k","jwks_file":"f","jwks":{"keys":[]},"algs":["ES256"],"allow_private_addresses":true}`))
	if err != nil || c.Mode != "jwks" || c.JWKSURL == "" || c.JWKSFile == "" || len(c.JWKS) == 0 || c.Algs[0] != jose.ES256 || !c.Fetch.Private {
		t.Errorf("got %+v, %v", c, err)
	}
	for name, raw := range map[string]string{
		"unknown member": `{"kubeconfig":"x"}`, "letter case": `{"Server":"x"}`, "duplicate": `{"server":"x","server":"y"}`, "owner's": `{"owner":{"version":"v1"}}`,
		"duration": `{"poll":"30"}`, "number": `{"poll":30}`, "empty": ``, "array": `[]`,
	} {
		if _, err := kubernetes.Decode([]byte(raw)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// An attestor in mode jwks logs at start that it does not detect deletions.
func TestSignedSaysWhatItDoesNotSee(t *testing.T) {
	t.Parallel()
	a := newServer(t, attesttest.NewClock())
	var log bytes.Buffer
	for _, c := range []kubernetes.Config{a.signed(), a.config()} {
		log.Reset()
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		open(t, c)
		if said := strings.Contains(log.String(), "deleted is not seen"); said != (c.Mode == kubernetes.ModeJWKS) {
			t.Errorf("mode %q logs %q", c.Mode, log.String())
		}
	}
}

func TestKeyPlaces(t *testing.T) {
	t.Parallel()
	a := newServer(t, attesttest.NewClock())
	for name, change := range map[string]func(*kubernetes.Config){
		"url":    func(*kubernetes.Config) {},
		"file":   func(c *kubernetes.Config) { c.JWKSURL, c.JWKSFile = "", kubetest.File(t, string(a.issuer.JWKS())) },
		"inline": func(c *kubernetes.Config) { c.JWKSURL, c.JWKS = "", a.issuer.JWKS() },
	} {
		c := a.signed()
		change(&c)
		if _, err := attestOne(t, a, c, a.token(nil)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A private address is refused for a key server, and accepted for an API server.
func TestAddresses(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "")
	a := newServer(t, attesttest.NewClock())
	c := a.signed()
	c.JWKSURL = "https://keys.localhost:1/jwks"
	if _, err := attestOne(t, a, c, a.token(nil)); err == nil || !strings.Contains(err.Error(), fetch.ErrPrivate.Error()) && !strings.Contains(err.Error(), "lookup") {
		t.Errorf("keys: %v", err)
	}
	c = a.config()
	c.Server, c.Fetch = "https://keys.localhost:1", fetch.Config{}
	if _, err := attestOne(t, a, c, a.token(nil)); err == nil || strings.Contains(err.Error(), fetch.ErrPrivate.Error()) {
		t.Errorf("API server: %v", err)
	}
}
