package kubernetes_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/kubernetes"
	"github.com/ebb-broker/ebb/attest/kubetest"
)

func attestOne(t *testing.T, a *apiServer, c kubernetes.Config, token string) (attest.Identity, error) {
	t.Helper()
	return open(t, c).Attest(t.Context(), evidence(t, token))
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	a := newServer(t, attesttest.NewClock())
	c := a.config()
	c.Leeway = new(10 * time.Second)
	var steps []string
	ctx := attest.WithTrace(t.Context(), func(s attest.Step) { steps = append(steps, s.Check+": "+s.Found) })
	id, err := open(t, c).Attest(ctx, evidence(t, a.token(nil)))
	if err != nil {
		t.Fatal(err)
	}
	facts := map[string]string{"namespace": "agents", "pod": "tool-1", "pod_uid": podUID, "service_account": "worker", "service_account_uid": saUID, "node": "node-1"}
	seen := maps.Clone(facts)
	maps.Copy(seen, map[string]string{"image_digest": digest, "owner_group": "agents.x-k8s.io", "owner_kind": "Sandbox", "owner_name": "sandbox-1", "owner_uid": "11111111-1111-1111-1111-111111111111"})
	if !maps.Equal(id.Selectors, seen) {
		t.Errorf("got selectors %v", id.Selectors)
	}
	if id.Attestor != "cluster" || id.Subject != "pod:agents/tool-1/"+podUID || id.Class != attest.ClassSigned || id.Key != "" ||
		!id.NotAfter.Equal(a.clock.Now().Add(5*time.Minute)) || !id.ReplayUntil.Equal(id.NotAfter.Add(10*time.Second)) {
		t.Errorf("got %+v", id)
	}
	want := []string{"audience: " + aud, "expiry: " + id.NotAfter.Format(time.RFC3339), "bound to: " + id.Subject, "token review: system:serviceaccount:agents:worker", "pod: Running"}
	if !slices.Equal(steps, want) {
		t.Errorf("got steps %q", steps)
	}
	if want := []string{"POST /apis/authentication.k8s.io/v1/tokenreviews", "GET /api/v1/namespaces/agents/pods/tool-1"}; !slices.Equal(a.asked(), want) {
		t.Errorf("asked %q", a.asked())
	}
	signed, err := attestOne(t, a, a.signed(), a.token(nil))
	if err != nil || !maps.Equal(signed.Selectors, facts) || signed.Subject != id.Subject {
		t.Errorf("mode jwks: %+v, %v", signed, err)
	}
	// Another token of the pod is other evidence for the same sandbox.
	if signed.ReplayID == id.ReplayID || signed.ReplayID == "" {
		t.Errorf("replay ids %q and %q", signed.ReplayID, id.ReplayID)
	}
}

// Tokens that are not bound to a pod are accepted only with allow_unbound, and cannot
// be watched.
func TestUnbound(t *testing.T) {
	t.Parallel()
	a := newServer(t, attesttest.NewClock())
	token := a.token(attesttest.Claims{"kubernetes.io": bound(object{"pod": nil, "node": nil})})
	for _, c := range []kubernetes.Config{a.config(), a.signed()} {
		c.AllowUnbound = true
		at := open(t, c)
		id, err := at.Attest(t.Context(), evidence(t, token))
		if err != nil || id.Subject != "serviceaccount:agents/worker/"+saUID || id.Selectors["pod"] != "" || id.Selectors["service_account"] != "worker" {
			t.Errorf("%s: %+v, %v", c.Mode, id, err)
		}
		w, watches := at.(attest.Watcher)
		if watches != (c.Mode == "") {
			t.Errorf("mode %q: watches is %t", c.Mode, watches)
		}
		if watches {
			if _, err := w.Watch(t.Context(), id); !errors.Is(err, attest.ErrElsewhere) {
				t.Errorf("watching what has no pod: %v", err)
			}
		}
	}
}

func TestNamespaces(t *testing.T) {
	t.Parallel()
	a := newServer(t, attesttest.NewClock())
	for _, c := range []kubernetes.Config{a.config(), a.signed()} {
		c.Namespaces = []string{"agent", "agents-2"}
		if _, err := attestOne(t, a, c, a.token(nil)); attesttest.Reason(err) != attest.ReasonClaims {
			t.Errorf("mode %q: %v", c.Mode, err)
		}
		c.Namespaces = []string{"agents"}
		if _, err := attestOne(t, a, c, a.token(nil)); err != nil {
			t.Errorf("mode %q: %v", c.Mode, err)
		}
	}
}

// TestReviewAnswers checks responses to the review of a valid token, including invalid
// ones.
func TestReviewAnswers(t *testing.T) {
	t.Parallel()
	st := func(o object) object { return part(o, "status") }
	extra := func(o object) object { return part(o, "status", "user", "extra") }
	const of = "authentication.kubernetes.io/"
	for name, tt := range map[string]struct {
		change func(object)
		reason attest.Reason // "" for an error that is not a rejection
	}{
		"not authenticated":            {func(o object) { o["status"] = object{"user": object{}} }, attest.ReasonSignature},
		"not authenticated, audiences": {func(o object) { st(o)["authenticated"] = false }, attest.ReasonSignature},
		"no status":                    {func(o object) { delete(o, "status") }, attest.ReasonSignature},
		"invalidated": {func(o object) {
			o["status"] = object{"error": "[invalid bearer token, service account token has been invalidated]"}
		}, attest.ReasonExited},
		"account deleted":                {func(o object) { o["status"] = object{"error": "service account agents/worker has been deleted"} }, attest.ReasonExited},
		"authenticated with an error":    {func(o object) { st(o)["error"] = "etcd is away" }, ""},
		"no audiences":                   {func(o object) { delete(st(o), "audiences") }, attest.ReasonAudience},
		"audiences empty":                {func(o object) { st(o)["audiences"] = []string{} }, attest.ReasonAudience},
		"audiences of the API":           {func(o object) { st(o)["audiences"] = []string{"https://kubernetes.default.svc"} }, attest.ReasonAudience},
		"audience with a slash":          {func(o object) { st(o)["audiences"] = []string{aud + "/"} }, attest.ReasonAudience},
		"another user":                   {func(o object) { part(o, "status", "user")["username"] = "system:serviceaccount:agents:admin" }, attest.ReasonClaims},
		"a user of another issuer":       {func(o object) { part(o, "status", "user")["username"] = "oidc:system:serviceaccount:agents:worker" }, attest.ReasonClaims},
		"another account's uid":          {func(o object) { part(o, "status", "user")["uid"] = podUID }, attest.ReasonClaims},
		"no uid":                         {func(o object) { delete(part(o, "status", "user"), "uid") }, attest.ReasonClaims},
		"another pod's uid":              {func(o object) { extra(o)[of+"pod-uid"] = []string{saUID} }, attest.ReasonClaims},
		"two uids of pods":               {func(o object) { extra(o)[of+"pod-uid"] = []string{podUID, saUID} }, attest.ReasonClaims},
		"another pod":                    {func(o object) { extra(o)[of+"pod-name"] = []string{"tool-2"} }, attest.ReasonClaims},
		"no pod":                         {func(o object) { delete(extra(o), of+"pod-name") }, attest.ReasonClaims},
		"no extra":                       {func(o object) { delete(part(o, "status", "user"), "extra") }, attest.ReasonClaims},
		"another token":                  {func(o object) { extra(o)[of+"credential-id"] = []string{"JTI=other"} }, attest.ReasonClaims},
		"another node":                   {func(o object) { extra(o)[of+"node-name"] = []string{"node-2"} }, attest.ReasonClaims},
		"another kind":                   {func(o object) { o["kind"] = "SubjectAccessReview" }, ""},
		"another version":                {func(o object) { o["apiVersion"] = "authentication.k8s.io/v1beta1" }, ""},
		"authenticated a text":           {func(o object) { st(o)["authenticated"] = "true" }, ""},
		"audiences a text":               {func(o object) { st(o)["audiences"] = aud }, ""},
		"letter case":                    {func(o object) { st(o)["Authenticated"] = true; delete(st(o), "authenticated") }, attest.ReasonSignature},
		"huge":                           {func(o object) { o["metadata"] = object{"x": strings.Repeat("x", 3<<20)} }, ""},
		"user null":                      {func(o object) { st(o)["user"] = nil }, attest.ReasonClaims},
		"pod-name null":                  {func(o object) { extra(o)[of+"pod-name"] = nil }, attest.ReasonClaims},
		"no credential-id (before 1.30)": {func(o object) { delete(extra(o), of+"credential-id"); delete(extra(o), of+"node-name") }, "good"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newServer(t, attesttest.NewClock())
			// The response is encoded as JSON and decoded first, so that changes apply
			// to its wire form.
			a.reviewed = func(o object) {
				c := clone(o)
				tt.change(c)
				clear(o)
				maps.Copy(o, c)
			}
			id, err := attestOne(t, a, a.config(), a.token(nil))
			switch {
			case tt.reason == "good":
				if err != nil {
					t.Error(err)
				}
				return
			case id.Attestor != "" || err == nil || attesttest.Reason(err) != tt.reason:
				t.Errorf("got %+v, %v", id, err)
			}
			if n := len(a.asked()); n != 1 {
				t.Errorf("after such a review the pod was read: %v", a.asked())
			}
			hides(t, a, err)
		})
	}
}

// hides checks that an error contains neither ebb's own token nor the evidence.
func hides(t *testing.T, a *apiServer, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if text := err.Error(); strings.Contains(text, a.login) || strings.Contains(text, "eyJ") {
		t.Errorf("the error says too much: %s", text)
	}
}

// TestPodAnswers checks responses to reading the pod of a valid token.
func TestPodAnswers(t *testing.T) {
	t.Parallel()
	meta := func(o object) object { return part(o, "metadata") }
	phase := func(to any) func(object) { return func(o object) { part(o, "status")["phase"] = to } }
	for name, tt := range map[string]struct {
		change func(object)
		reason attest.Reason // "" for an error that is not a rejection, "good" = accepted
	}{
		"pending":             {phase("Pending"), "good"},
		"succeeded":           {phase("Succeeded"), attest.ReasonExited},
		"failed":              {phase("Failed"), attest.ReasonExited},
		"unknown":             {phase("Unknown"), ""},
		"no phase":            {phase(nil), ""},
		"phase of the future": {phase("Sleeping"), ""},
		"lying uid":           {func(o object) { meta(o)["uid"] = saUID }, attest.ReasonExited},
		"no uid":              {func(o object) { delete(meta(o), "uid") }, ""},
		"another name":        {func(o object) { meta(o)["name"] = "tool-2" }, ""},
		"another namespace":   {func(o object) { meta(o)["namespace"] = "kube-system" }, ""},
		"another kind":        {func(o object) { o["kind"] = "PodTemplate" }, ""},
		"another version":     {func(o object) { o["apiVersion"] = "v2" }, ""},
		"being deleted": {func(o object) {
			meta(o)["deletionTimestamp"] = "2026-11-21T21:26:41Z"
			meta(o)["deletionGracePeriodSeconds"] = 30
		}, attest.ReasonExited},
		"deleted some day": {func(o object) { meta(o)["deletionTimestamp"] = "soon" }, ""},
		"another account":  {func(o object) { part(o, "spec")["serviceAccountName"] = "admin" }, attest.ReasonClaims},
		"another node":     {func(o object) { part(o, "spec")["nodeName"] = "node-2" }, attest.ReasonClaims},
		"spec a text":      {func(o object) { o["spec"] = "x" }, ""},
		"huge":             {func(o object) { meta(o)["x"] = strings.Repeat("x", 3<<20) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newServer(t, attesttest.NewClock())
			a.read = tt.change
			id, err := attestOne(t, a, a.config(), a.token(nil))
			if good := tt.reason == "good"; good != (err == nil) || !good && (attesttest.Reason(err) != tt.reason || id.Attestor != "") {
				t.Errorf("got %+v, %v", id, err)
			}
			hides(t, a, err)
		})
	}
}

// TestFaults checks that failures of either request neither accept nor reject a token.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]http.HandlerFunc{
		"400":              kubetest.Says(400, kubetest.Status(400, "BadRequest", "no login-canary-1")),
		"401":              kubetest.Says(401, kubetest.Status(401, "Unauthorized", "Unauthorized")),
		"403":              kubetest.Says(403, kubetest.Status(403, "Forbidden", "pods is forbidden", "pods", "tool-1")),
		"404 of a path":    kubetest.Says(404, kubetest.Status(404, "NotFound", "the server could not find the requested resource")),
		"404 of another":   kubetest.Says(404, kubetest.Status(404, "NotFound", `pods "x" not found`, "pods", "x")),
		"404 of namespace": kubetest.Says(404, kubetest.Status(404, "NotFound", "not found", "namespaces", "tool-1")),
		"404 of a proxy":   func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "404 page not found", 404) },
		"404 with a 410":   kubetest.Says(404, kubetest.Status(410, "NotFound", "x", "pods", "tool-1")),
		"404 for success": func(w http.ResponseWriter, _ *http.Request) {
			s := kubetest.Status(404, "NotFound", "x", "pods", "tool-1")
			s["status"] = "Success"
			kubetest.Answer(w, 404, s)
		},
		"404 said in 200": kubetest.Says(200, kubetest.Status(404, "NotFound", "x", "pods", "tool-1")),
		"410":             kubetest.Says(410, kubetest.Status(410, "Gone", "x", "pods", "tool-1")),
		"429":             kubetest.Says(429, kubetest.Status(429, "TooManyRequests", "x")),
		"500":             kubetest.Says(500, kubetest.Status(500, "InternalError", "etcd")),
		"503":             func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		"204":             func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
		"202":             kubetest.Says(202, object{}),
		"empty":           func(http.ResponseWriter, *http.Request) {},
		"garbage":         func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>login</html>")) },
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"kind":"TokenReview","apiVersion":"authent`))
		},
		"null":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("null")) },
		"array": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[]")) },
		"deep":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.Repeat("[", 1<<20))) },
		"twice": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"kind":"Pod","kind":"Pod"}`)) },
		"redirect": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://evil.example/")
			w.WriteHeader(307)
		},
	} {
		for _, at := range []string{"tokenreviews", "pods"} {
			t.Run(name+" at "+at, func(t *testing.T) {
				t.Parallel()
				a := newServer(t, attesttest.NewClock())
				a.fault = func(w http.ResponseWriter, r *http.Request) bool {
					if strings.Contains(r.URL.Path, at) {
						fault(w, r)
						return true
					}
					return false
				}
				id, err := attestOne(t, a, a.config(), a.token(nil))
				if err == nil || errors.Is(err, attest.ErrRejected) || id.Attestor != "" {
					t.Errorf("got %+v, %v", id, err)
				}
				hides(t, a, err)
				if at == "pods" {
					w := open(t, a.config()).(attest.Watcher)
					if d, err := w.Watch(t.Context(), podIdentity()); err == nil || errors.Is(err, attest.ErrElsewhere) {
						t.Errorf("taken for dead: %+v, %v", d, err)
					}
				}
			})
		}
	}
}

// A pod can be removed between the review and the read of the pod.
func TestGoneAfterTheReview(t *testing.T) {
	t.Parallel()
	a := newServer(t, attesttest.NewClock())
	a.reviewed = func(object) { delete(a.pods, "agents/tool-1") }
	if _, err := attestOne(t, a, a.config(), a.token(nil)); attesttest.Reason(err) != attest.ReasonExited {
		t.Errorf("got %v", err)
	}
}

func TestOwner(t *testing.T) {
	t.Parallel()
	a := newServer(t, attesttest.NewClock())
	const all = "controlled"
	for name, tt := range map[string]struct {
		owner  kubernetes.Owner
		change func([]any) []any
		good   bool
	}{
		all:                    {kubernetes.Owner{Group: "agents.x-k8s.io", Kind: "Sandbox"}, nil, true},
		"another group":        {kubernetes.Owner{Group: "x-k8s.io", Kind: "Sandbox"}, nil, false},
		"another kind":         {kubernetes.Owner{Group: "agents.x-k8s.io", Kind: "SandboxClaim"}, nil, false},
		"owner, not in charge": {kubernetes.Owner{Kind: "ConfigMap"}, nil, false},
		"no owner":             {kubernetes.Owner{Group: "agents.x-k8s.io", Kind: "Sandbox"}, func([]any) []any { return nil }, false},
		"two in charge":        {kubernetes.Owner{Group: "agents.x-k8s.io", Kind: "Sandbox"}, func(o []any) []any { return append(o, o[1]) }, false},
	} {
		a.set(func() {
			a.read = nil
			if tt.change != nil {
				a.read = func(p object) {
					list, _ := part(p, "metadata")["ownerReferences"].([]any)
					part(p, "metadata")["ownerReferences"] = tt.change(list)
				}
			}
		})
		c := a.config()
		c.Owner = &tt.owner
		_, err := attestOne(t, a, c, a.token(nil))
		if tt.good != (err == nil) || !tt.good && attesttest.Reason(err) != attest.ReasonClaims {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The image digest is reported only when the pod has one image.
func TestImageDigest(t *testing.T) {
	t.Parallel()
	a := newServer(t, attesttest.NewClock())
	second := object{"name": "second", "imageID": "x@" + digest}
	for name, tt := range map[string]struct {
		change func(object)
		want   string
	}{
		"docker":          {func(p object) { statusOne(p)["imageID"] = "docker-pullable://registry.example/tool@" + digest }, digest},
		"of a config":     {func(p object) { statusOne(p)["imageID"] = digest }, ""},
		"none yet":        {func(p object) { statusOne(p)["imageID"] = "" }, ""},
		"trailing":        {func(p object) { statusOne(p)["imageID"] = "tool@" + digest + "x" }, ""},
		"another's":       {func(p object) { statusOne(p)["name"] = "other" }, ""},
		"two containers":  {func(p object) { appendTo(part(p, "spec"), "containers", second) }, ""},
		"init container":  {func(p object) { appendTo(part(p, "spec"), "initContainers", second) }, ""},
		"debug container": {func(p object) { appendTo(part(p, "spec"), "ephemeralContainers", second) }, ""},
		"two statuses":    {func(p object) { appendTo(part(p, "status"), "containerStatuses", second) }, ""},
	} {
		a.set(func() { a.read = tt.change })
		id, err := attestOne(t, a, a.config(), a.token(nil))
		if got := id.Selectors["image_digest"]; err != nil || got != tt.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func statusOne(p object) object {
	list, _ := part(p, "status")["containerStatuses"].([]any)
	one, _ := list[0].(object)
	return one
}

func appendTo(o object, name string, x any) {
	list, _ := o[name].([]any)
	o[name] = append(list, x)
}

// ebb's own token is read for each request and sent only to the API server.
func TestLoginRotates(t *testing.T) {
	t.Parallel()
	a := newServer(t, attesttest.NewClock())
	c := a.config()
	at := open(t, c)
	for _, login := range []string{"login-canary-1", "login-canary-2"} {
		a.set(func() { a.login = login })
		if err := os.WriteFile(c.TokenFile, []byte(login), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := at.Attest(t.Context(), evidence(t, a.token(nil))); err != nil {
			t.Errorf("%s: %v", login, err)
		}
	}
	for _, bad := range []string{"", "two\nlines", "sp ace", strings.Repeat("x", 70<<10)} {
		if err := os.WriteFile(c.TokenFile, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		before := len(a.asked())
		if _, err := at.Attest(t.Context(), evidence(t, a.token(nil))); err == nil || errors.Is(err, attest.ErrRejected) || len(a.asked()) != before {
			t.Errorf("login %.10q: %v", bad, err)
		}
	}
}

// A connection over TLS succeeds with the cluster's own roots and fails without them.
func TestOverTLS(t *testing.T) {
	t.Parallel()
	a := newServer(t, attesttest.NewClock())
	s := httptest.NewUnstartedServer(a)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshake that fails
	s.StartTLS()
	t.Cleanup(s.Close)
	c := a.config()
	c.Server, c.Fetch = s.URL, fetch.Config{}
	c.CAFile = kubetest.File(t, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	if _, err := attestOne(t, a, c, a.token(nil)); err != nil {
		t.Error(err)
	}
	asked := len(a.asked())
	c.CAFile = ""
	if _, err := attestOne(t, a, c, a.token(nil)); err == nil || errors.Is(err, attest.ErrRejected) || len(a.asked()) != asked {
		t.Errorf("without the cluster's roots: %v", err)
	}
}

// A server that hangs delays Attest by its timeout only, and cancelling the context
// ends the request.
func TestHang(t *testing.T) {
	t.Parallel()
	a := newServer(t, attesttest.NewClock())
	hang := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	t.Cleanup(func() { close(hang); s.Close() })
	c := a.config()
	c.Server, c.Fetch = s.URL, fetch.Config{Timeout: 50 * time.Millisecond}
	if _, err := attestOne(t, a, c, a.token(nil)); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, attest.ErrRejected) {
		t.Errorf("got %v", err)
	}
}

// The responses on the page are those that a real server was observed to give.
func TestWords(t *testing.T) {
	t.Parallel()
	a := newServer(t, attesttest.NewClock())
	a.fault = func(w http.ResponseWriter, _ *http.Request) bool {
		b, _ := json.Marshal(kubetest.Status(403, "Forbidden", "may not create tokenreviews; you sent login-canary-1 "+strings.Repeat("x", 999), "", ""))
		w.WriteHeader(403)
		_, _ = w.Write(b)
		return true
	}
	_, err := attestOne(t, a, a.config(), a.token(nil))
	if err == nil || !strings.Contains(err.Error(), "HTTP 403 Forbidden") || !strings.Contains(err.Error(), "[redacted]") || len(err.Error()) > 600 {
		t.Errorf("got %v", err)
	}
}

// Requests to the API server need the permission of attest.Costly, which is requested
// only after all cheap checks.
func TestAsksForLeave(t *testing.T) {
	t.Parallel()
	a := newServer(t, attesttest.NewClock())
	k := open(t, a.config())
	ctx, asked := attesttest.Bounded(t.Context())
	for _, name := range []string{"wrong audience", "another ebb"} {
		if _, err := k.Attest(ctx, badTokens(a)[name](t)); !errors.Is(err, attest.ErrRejected) || *asked != 0 {
			t.Errorf("%s: %v, asked %d times", name, err, *asked)
		}
	}
	if _, err := k.Attest(ctx, evidence(t, a.token(nil))); !errors.Is(err, attesttest.ErrBound) || errors.Is(err, attest.ErrRejected) || *asked != 1 || len(a.asked()) != 0 {
		t.Errorf("%v, asked %d times, the server %v", err, *asked, a.asked())
	}
}
