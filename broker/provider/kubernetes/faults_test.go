package kubernetes_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/kubetest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/kubernetes"
	"github.com/ebb-broker/ebb/broker/secret"
)

type answerFunc = func(http.ResponseWriter, *http.Request)

// faults are answers that are none, or no success.
func faults(stop chan struct{}) map[string]answerFunc {
	status := func(code int, reason string) answerFunc {
		return kubetest.Says(code, kubetest.Status(code, reason, "no"))
	}
	text := func(code int, s string) answerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code); _, _ = w.Write([]byte(s)) }
	}
	return map[string]answerFunc{
		"garbage":       text(200, "{{{"),
		"empty":         text(201, ""),
		"null":          text(201, "null"),
		"another kind":  text(201, `{"kind":"Pod","metadata":{"name":"x"},"status":"Success"}`),
		"a login page":  text(200, "<html>please log in</html>"),
		"a proxy's 404": text(404, "404 page not found"),
		"a false 404":   text(404, `{"kind":"Status","code":200,"reason":"NotFound"}`),
		"deep":          text(201, strings.Repeat("[", 20000)),
		"500":           status(500, "InternalError"),
		"503":           text(503, "upstream"),
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
		},
		"huge": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 5<<20)) },
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(`{"kind":"Secret","metadata":{`))
		},
		"hang": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-stop:
			case <-r.Context().Done():
			}
		},
		"403": status(403, "Forbidden"), "401": status(401, "Unauthorized"), "422": status(422, "Invalid"),
		"429": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			kubetest.Answer(w, 429, kubetest.Status(429, "TooManyRequests", "later"))
		},
		"429 of a proxy": text(429, "slow down"),
	}
}

// TestMintFaults makes each step of Mint fail in each way, before and after the server has
// done its part. Mint issues no token, its error is correct, and the broker's Revoke leaves no
// Secret.
func TestMintFaults(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	defer close(stop)
	for name, fault := range faults(stop) {
		for _, at := range []string{"/secrets", "/token"} {
			for _, done := range []bool{false, true} {
				a := newServer(t)
				c := configFor(t, a)
				// On a machine under load an answer takes its time: only what never answers is cut short.
				if c.Timeout = 20 * time.Second; name == "hang" {
					c.Timeout = 250 * time.Millisecond
				}
				d := driver(t, c)
				hit := func(r *http.Request) bool { return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, at) }
				a.set(func() {
					if done { // the server did it, and its answer is lost
						a.after = func(w http.ResponseWriter, r *http.Request, _ int, _ any) bool {
							if !hit(r) {
								return false
							}
							fault(w, r)
							return true
						}
					} else {
						a.fault = func(w http.ResponseWriter, r *http.Request) bool {
							if !hit(r) {
								return false
							}
							fault(w, r)
							return true
						}
					}
				})
				g := grant("deploy", time.Hour)
				cred, err := d.Mint(t.Context(), g)
				if err == nil || !cred.Token.Empty() {
					t.Fatalf("%s at %s: minted", name, at)
				}
				judged := slices.Contains([]string{"403", "401", "422"}, name)
				if errors.Is(err, provider.ErrRefused) != judged {
					t.Errorf("%s at %s: %v", name, at, err)
				}
				busy, is := errors.AsType[*provider.BusyError](err)
				if is != strings.HasPrefix(name, "429") || is && busy.After != map[string]time.Duration{"429": 7 * time.Second, "429 of a proxy": time.Second}[name] {
					t.Errorf("%s at %s: %v", name, at, err)
				}
				honest := !done // a server that says no has done nothing
				if honest && (judged || is) && a.left() != 0 {
					t.Errorf("%s at %s: the error says that nothing was made, and %d Secrets are there", name, at, a.left())
				}
				if strings.Contains(err.Error(), "canary") {
					t.Errorf("%s at %s: the login is in %v", name, at, err)
				}
				a.set(func() { a.fault, a.after = nil, nil })
				c.Timeout = 20 * time.Second
				if err := driver(t, c).Revoke(t.Context(), targetOf(g, cred.Handle)); err != nil || a.left() != 0 {
					t.Errorf("%s at %s: Revoke = %v, %d are left", name, at, err, a.left())
				}
			}
		}
	}
}

// TestRefusedTokenWhoseSecretStays: if the Secret of a refused token cannot be deleted at
// once, the revocation is pending, because the error does not claim that nothing was made.
func TestRefusedTokenWhoseSecretStays(t *testing.T) {
	t.Parallel()
	a := newServer(t)
	d := driver(t, configFor(t, a))
	a.set(func() {
		a.fault = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.HasSuffix(r.URL.Path, "/token") {
				kubetest.Answer(w, 403, kubetest.Status(403, "Forbidden", "no"))
			} else if r.Method == http.MethodDelete {
				kubetest.Answer(w, 500, kubetest.Status(500, "InternalError", "no"))
			} else {
				return false
			}
			return true
		}
	})
	g := grant("deploy", time.Hour)
	c, err := d.Mint(t.Context(), g)
	if err == nil || errors.Is(err, provider.ErrRefused) || c.Handle.Empty() || a.left() != 1 {
		t.Fatalf("Mint = %v with handle %v, %d Secrets", err, !c.Handle.Empty(), a.left())
	}
	a.set(func() { a.fault = nil })
	if err := d.Revoke(t.Context(), targetOf(g, c.Handle)); err != nil || a.left() != 0 {
		t.Errorf("Revoke = %v, %d are left", err, a.left())
	}
}

// TestCallerHangsUp: the caller disconnects between the two calls. The driver deletes its
// Secret nevertheless.
func TestCallerHangsUp(t *testing.T) {
	t.Parallel()
	a := newServer(t)
	d := driver(t, configFor(t, a))
	ctx, cancel := context.WithCancel(t.Context())
	a.set(func() {
		a.fault = func(_ http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/token") {
				return false
			}
			_, _ = io.Copy(io.Discard, r.Body) // or the server would not see it
			cancel()
			<-r.Context().Done()
			return true
		}
	})
	if _, err := d.Mint(ctx, grant("deploy", time.Hour)); !errors.Is(err, context.Canceled) || a.left() != 0 {
		t.Errorf("Mint = %v, %d Secrets are left", err, a.left())
	}
}

// TestRevokeAndProbeFaults: Revoke succeeds only if the API server itself reports that the
// Secret is gone.
func TestRevokeAndProbeFaults(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	defer close(stop)
	a := newServer(t)
	c := configFor(t, a)
	c.Timeout = 20 * time.Second
	patient := driver(t, c)
	c.Timeout = 250 * time.Millisecond
	hasty := driver(t, c)
	g := grant("deploy", time.Hour)
	cred := mint(t, patient, g)
	for name, fault := range faults(stop) {
		d := patient
		if name == "hang" {
			d = hasty
		}
		a.set(func() {
			a.fault = func(w http.ResponseWriter, r *http.Request) bool { fault(w, r); return true }
		})
		if err := d.Revoke(t.Context(), targetOf(g, cred.Handle)); err == nil {
			t.Errorf("%s: Revoke succeeds", name)
		} else if _, busy := errors.AsType[*provider.BusyError](err); busy != strings.HasPrefix(name, "429") {
			t.Errorf("%s: Revoke = %v", name, err)
		}
		if alive, err := d.Probe(t.Context(), targetOf(g, cred.Handle)); err == nil || alive {
			t.Errorf("%s: Probe = %v, %v", name, alive, err)
		}
		if err := d.List(t.Context(), instance, func(provider.Target) error { return nil }); err == nil {
			t.Errorf("%s: List ends well", name)
		}
	}
	for _, h := range []string{"{", `{"namespace":"../../x"}`, `{"namespace":"agents","uid":"a b"}`, `{}`} {
		if err := patient.Revoke(t.Context(), targetOf(g, secret.New(h))); err == nil {
			t.Errorf("the handle %s is good enough", h)
		}
	}
	if a.left() != 1 {
		t.Errorf("%d Secrets", a.left())
	}
}

// TestListGoesOn: if one namespace fails, the others are listed, and List returns the error.
func TestListGoesOn(t *testing.T) {
	t.Parallel()
	a := newServer(t)
	d := driver(t, configFor(t, a))
	mint(t, d, grant("look", time.Hour)) // in "other", which comes after "agents"
	a.set(func() {
		a.fault = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, "/agents/") {
				return false
			}
			kubetest.Answer(w, 403, kubetest.Status(403, "Forbidden", "no"))
			return true
		}
	})
	n := 0
	if err := d.List(t.Context(), instance, func(provider.Target) error { n++; return nil }); err == nil || n != 1 {
		t.Errorf("List = %v after %d", err, n)
	}
}

// TestListWithoutEnd: List stops at a list that never ends.
func TestListWithoutEnd(t *testing.T) {
	t.Parallel()
	a := newServer(t)
	d := driver(t, configFor(t, a))
	a.set(func() {
		a.fault = func(w http.ResponseWriter, _ *http.Request) bool {
			kubetest.Answer(w, 200, map[string]any{"kind": "PartialObjectMetadataList", "metadata": map[string]any{"continue": "again"}})
			return true
		}
	})
	if err := d.List(t.Context(), instance, func(provider.Target) error { return nil }); err == nil {
		t.Error("List ends well")
	}
}

// TestTokenThatIsAnother: a token that differs from the request is not issued, and its Secret
// is deleted.
func TestTokenThatIsAnother(t *testing.T) {
	t.Parallel()
	inner := func(c map[string]any) map[string]any { return c["kubernetes.io"].(map[string]any) } //nolint:forcetypeassert // a test
	for name, forge := range map[string]func(map[string]any){
		"unbound":               func(c map[string]any) { delete(inner(c), "secret") },
		"bound to another":      func(c map[string]any) { inner(c)["secret"] = map[string]any{"name": "x", "uid": "y"} },
		"another uid":           func(c map[string]any) { inner(c)["secret"].(map[string]any)["uid"] = "y" }, //nolint:forcetypeassert // a test
		"another account":       func(c map[string]any) { inner(c)["serviceaccount"] = map[string]any{"name": "admin"} },
		"another subject":       func(c map[string]any) { c["sub"] = "system:serviceaccount:kube-system:admin" },
		"another namespace":     func(c map[string]any) { inner(c)["namespace"] = "kube-system" },
		"one more audience":     func(c map[string]any) { c["aud"] = []string{"https://shop.example", "b", "c"} },
		"one audience less":     func(c map[string]any) { c["aud"] = []string{"b"} },
		"no audience":           func(c map[string]any) { delete(c, "aud") },
		"an audience as text":   func(c map[string]any) { c["aud"] = "b" },
		"no end":                func(c map[string]any) { delete(c, "exp") },
		"an end beyond reason":  func(c map[string]any) { c["exp"] = int64(1) << 60 },
		"a negative end":        func(c map[string]any) { c["exp"] = -1 },
		"already over":          func(c map[string]any) { c["exp"] = time.Now().Add(-time.Hour).Unix() },
		"an end that is a text": func(c map[string]any) { c["exp"] = "tomorrow" },
	} {
		a := newServer(t)
		a.set(func() { a.forge = forge })
		c, err := driver(t, configFor(t, a)).Mint(t.Context(), grant("read", time.Hour))
		if err == nil || !c.Token.Empty() || a.left() != 0 {
			t.Errorf("%s: Mint = %v, %d Secrets are left", name, err, a.left())
		}
	}
	for _, token := range []string{"", "a", "a.b", "a.b.c.d", ".e30.c", "a.e30.", "a.e30=.c", "a.*.c", "a." + strings.Repeat("A", 20000) + ".c"} {
		a := newServer(t)
		a.set(func() { a.token = func(string) string { return token } })
		if _, err := driver(t, configFor(t, a)).Mint(t.Context(), grant("read", time.Hour)); err == nil || a.left() != 0 {
			t.Errorf("token %.20q: Mint = %v, %d Secrets are left", token, err, a.left())
		}
	}
	// Without audiences of its own, the token has those that the API server names.
	a := newServer(t)
	a.set(func() { a.forge = func(c map[string]any) { c["aud"] = []string{"another"} } })
	if _, err := driver(t, configFor(t, a)).Mint(t.Context(), grant("deploy", time.Hour)); err == nil {
		t.Error("a token for an audience that the answer does not name is handed out")
	}
}

// TestLogin: the driver reads its login for each call. No error contains it, even if the
// server's message repeats it.
func TestLogin(t *testing.T) {
	t.Parallel()
	a := newServer(t)
	c := configFor(t, a)
	d := driver(t, c)
	mint(t, d, grant("deploy", time.Hour))
	a.set(func() { a.login = "login-canary-2" })
	if _, err := d.Mint(t.Context(), grant("deploy", time.Hour)); !errors.Is(err, provider.ErrRefused) {
		t.Errorf("an old login: %v", err)
	}
	if err := os.WriteFile(c.TokenFile, []byte("login-canary-2"), 0o600); err != nil {
		t.Fatal(err)
	}
	mint(t, d, grant("deploy", time.Hour))
	a.set(func() {
		a.fault = func(w http.ResponseWriter, r *http.Request) bool {
			kubetest.Answer(w, 403, kubetest.Status(403, "Forbidden", "you sent "+r.Header.Get("Authorization")+strings.Repeat("x", 9000)))
			return true
		}
	})
	_, err := d.Mint(t.Context(), grant("deploy", time.Hour))
	if err == nil || strings.Contains(err.Error(), "canary") || len(err.Error()) > 1000 {
		t.Errorf("Mint = %.200v", err)
	}
	if err := os.Remove(c.TokenFile); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Mint(t.Context(), grant("deploy", time.Hour)); err == nil || errors.Is(err, provider.ErrRefused) {
		t.Errorf("without a login: %v", err)
	}
}

// TestLoginByCertificate: the driver reads the certificate for each handshake.
func TestLoginByCertificate(t *testing.T) {
	t.Parallel()
	var seen atomic.Value
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.TLS.PeerCertificates[0].Subject.CommonName)
		if r.Header.Get("Authorization") != "" {
			t.Error("a token was sent as well")
		}
		w.Header().Set("Connection", "close")
		kubetest.Answer(w, 404, kubetest.Status(404, "NotFound", "no"))
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	defer s.Close()
	cert, key := pair(t, "ebb-1")
	c := kubernetes.Config{
		Server: s.URL, CAFile: kubetest.File(t, string(pemOf(s))), CertificateFile: kubetest.File(t, cert), KeyFile: kubetest.File(t, key), Timeout: 20 * time.Second,
		Grants: map[string]map[string]kubernetes.Account{"shop": {"deploy": {Namespace: "agents", ServiceAccount: "shop-deployer"}}},
	}
	d := driver(t, c)
	x := targetOf(grant("deploy", time.Hour), secret.Secret{})
	if err := d.Revoke(t.Context(), x); err != nil || seen.Load() != "ebb-1" {
		t.Errorf("Revoke = %v as %v", err, seen.Load())
	}
	cert, key = pair(t, "ebb-2")
	if err := errors.Join(os.WriteFile(c.CertificateFile, []byte(cert), 0o600), os.WriteFile(c.KeyFile, []byte(key), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := d.Revoke(t.Context(), x); err != nil || seen.Load() != "ebb-2" {
		t.Errorf("Revoke = %v as %v", err, seen.Load())
	}
}

func pair(t *testing.T, cn string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: cn}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	pk, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pk}))
}

func TestConfigProblemsAllAtOnce(t *testing.T) {
	t.Parallel()
	_, err := kubernetes.New("kube", kubernetes.Config{
		Server: "http://10.0.0.1:6443", CertificateFile: "x",
		Grants: map[string]map[string]kubernetes.Account{
			"a b": {"read": {Namespace: "n", ServiceAccount: "s"}}, "none": {},
			"shop": {"Deploy": {Namespace: "n/../x", ServiceAccount: "S..x", Audiences: []string{"a", "a", "with space"}}},
		},
	}, nil)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"server:", "certificate_file", `"a b"`, "grants.none", "not an action", ".namespace", ".service_account", ".audiences", "twice"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	for _, server := range []string{"", "10.0.0.1", "https://", "https://u:pw@h", "https://h?x=1", "https://h#f", "ftp://h", "https:h"} {
		_, err := kubernetes.New("kube", kubernetes.Config{Server: server, TokenFile: kubetest.File(t, "x")}, nil)
		if err == nil || !strings.Contains(err.Error(), "server:") || strings.Contains(err.Error(), "pw") {
			t.Errorf("server %q: %v", server, err)
		}
	}
}

// TestServerWithPath: the driver keeps the path of a proxy in front of the API server.
func TestServerWithPath(t *testing.T) {
	t.Parallel()
	a := newServer(t)
	c := configFor(t, a)
	c.Server += "/k8s/clusters/c-1/"
	d := driver(t, c)
	a.set(func() {
		a.fault = func(w http.ResponseWriter, r *http.Request) bool {
			p, ok := strings.CutPrefix(r.URL.Path, "/k8s/clusters/c-1/api/")
			if !ok {
				t.Errorf("path %s", r.URL.Path)
			}
			r.URL.Path = "/api/" + p
			return false
		}
	})
	mint(t, d, grant("deploy", time.Hour))
}

func TestSetupIsJudged(t *testing.T) {
	t.Parallel()
	a := newServer(t)
	d := driver(t, configFor(t, a))
	narrow := func(_, verb, resource, name string) bool {
		return verb == "*" || resource == "serviceaccounts/token" && name == ""
	}
	check := func(what string, denied func(ns, verb, resource, name string) bool, want ...string) {
		t.Helper()
		a.set(func() { a.denied = denied })
		found := d.CheckSetup(t.Context())
		text, _ := json.Marshal(found)
		if len(found) != len(want) {
			t.Errorf("%s: %s", what, text)
		}
		for _, w := range want {
			if !strings.Contains(string(text), w) {
				t.Errorf("%s: %q is not in %s", what, w, text)
			}
		}
	}
	check("as documented", narrow)
	check("an administrator", nil, "do everything")
	check("any account", func(_, verb, _, _ string) bool { return verb == "*" }, "every service account in namespace agents", "every service account in namespace other")
	check("no delete", func(ns, verb, r, n string) bool { return narrow(ns, verb, r, n) || ns == "other" && verb == "delete" }, "may not delete Secrets in namespace other")
	check("one account is missing", func(ns, verb, r, n string) bool { return narrow(ns, verb, r, n) || n == "shop-reader" }, "--resource-name=shop-reader")
	a.set(func() { a.secrets["agents/database"] = &boundSecret{Name: "database", Namespace: "agents", UID: "x"} })
	check("Secrets of others", narrow, "Namespace agents holds Secrets")
	a.set(func() { a.login = "another" })
	check("a login that is refused", narrow, "is not accepted")
	c := configFor(t, a)
	c.Server = "http://127.0.0.1:1"
	if f := driver(t, c).CheckSetup(t.Context()); len(f) != 1 || !f[0].Fatal {
		t.Errorf("a server that is away: %+v", f)
	}
}
