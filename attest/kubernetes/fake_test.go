package kubernetes_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/kubernetes"
	"github.com/ebb-broker/ebb/attest/kubetest"
)

const (
	aud     = "https://ebb.example"
	saUID   = "176789b7-fd25-4352-a47d-c1ea152ecc87"
	podUID  = "c1271d63-5ad5-42f5-8672-cc12b69dd1fb"
	nodeUID = "5f0c9a3e-0d51-4f83-9d3d-1a4a3b0f6b11"
	digest  = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
)

type object = kubetest.Object

// apiServer is a fake kube-apiserver. It gives the responses that version 1.36 was
// observed to give, and fails the test on a request that a real one would not accept.
type apiServer struct {
	t      testing.TB
	clock  *attesttest.Clock
	issuer *attesttest.Issuer // the cluster's

	mu       sync.Mutex
	login    string
	pods     map[string]object // by namespace/name
	calls    []string
	fault    func(http.ResponseWriter, *http.Request) bool // true = answered
	reviewed func(object)                                  // changes a review's answer
	read     func(object)                                  // changes a pod on its way
	mute     bool                                          // may not watch
	version  int                                           // of the last change
	watchers map[chan struct{}]bool
}

func newServer(t testing.TB, clock *attesttest.Clock) *apiServer {
	t.Helper()
	a := &apiServer{t: t, clock: clock, issuer: attesttest.NewIssuer(t, clock), login: "login-canary-1", version: 241, pods: map[string]object{}, watchers: map[chan struct{}]bool{}}
	a.create("tool-1", podUID)
	return a
}

// create adds a running pod to the namespace agents.
func (a *apiServer) create(name, uid string) {
	a.pods["agents/"+name] = object{
		"kind": "Pod", "apiVersion": "v1",
		"metadata": object{"name": name, "namespace": "agents", "uid": uid, "resourceVersion": "241", "creationTimestamp": "2026-11-21T21:26:41Z",
			"ownerReferences": []any{
				object{"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "22222222-2222-2222-2222-222222222222"},
				object{"apiVersion": "agents.x-k8s.io/v1beta1", "kind": "Sandbox", "name": "sandbox-1", "uid": "11111111-1111-1111-1111-111111111111", "controller": true},
			}},
		"spec": object{"serviceAccountName": "worker", "serviceAccount": "worker", "nodeName": "node-1", "restartPolicy": "Always",
			"containers": []any{object{"name": "tool", "image": "registry.example/tool:1", "resources": object{}}}},
		"status": object{"phase": "Running", "containerStatuses": []any{
			object{"name": "tool", "ready": true, "image": "registry.example/tool:1", "imageID": "registry.example/tool@" + digest}}},
	}
}

// set calls f with the lock held and wakes all watch requests.
func (a *apiServer) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
	a.version++
	for _, p := range a.pods {
		part(p, "metadata")["resourceVersion"] = strconv.Itoa(a.version)
	}
	for c := range a.watchers {
		delete(a.watchers, c)
		close(c)
	}
}

func (a *apiServer) asked() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.calls)
}

func part(o object, path ...string) object {
	for _, name := range path {
		o, _ = o[name].(object)
	}
	return o
}

var podPath = regexp.MustCompile(`^/api/v1/namespaces/([a-z0-9-]+)/pods/([a-z0-9.-]+)$`)

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") != "" {
		a.watch(w, r)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, r.Method+" "+r.URL.RequestURI())
	if a.fault != nil && a.fault(w, r) {
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+a.login {
		kubetest.Answer(w, 401, kubetest.Status(401, "Unauthorized", "Unauthorized"))
		return
	}
	if r.Header.Get("Accept") != "application/json" || r.URL.RawQuery != "" || r.Header.Get("Cookie") != "" {
		a.t.Errorf("%s %s with %v", r.Method, r.URL, r.Header)
	}
	m := podPath.FindStringSubmatch(r.URL.EscapedPath())
	switch {
	case r.URL.EscapedPath() == "/apis/authentication.k8s.io/v1/tokenreviews" && r.Method == http.MethodPost:
		a.review(w, r)
	case m != nil && r.Method == http.MethodGet:
		a.pod(w, m[1], m[2])
	default:
		a.t.Errorf("%s %s is no path of the API that is used", r.Method, r.URL)
		kubetest.Answer(w, 404, kubetest.Status(404, "NotFound", "the server could not find the requested resource"))
	}
}

// watch answers a watch request with the next change after the requested version, or
// ends when its timeout has passed.
func (a *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	seconds, err := strconv.Atoi(q.Get("timeoutSeconds"))
	since, unread := strconv.Atoi(q.Get("resourceVersion"))
	if err != nil || unread != nil || seconds < 1 || len(q) != 4 || q.Get("watch") != "true" || q.Get("fieldSelector") != "metadata.name=tool-1" ||
		r.URL.EscapedPath() != "/api/v1/namespaces/agents/pods" || r.Method != http.MethodGet || r.Header.Get("Authorization") != "Bearer "+a.login {
		a.t.Errorf("%s %s is no watch of a pod", r.Method, r.URL)
	}
	news := make(chan struct{})
	a.mu.Lock()
	a.calls = append(a.calls, "WATCH")
	answered := a.fault != nil && a.fault(w, r)
	if !answered && a.mute {
		kubetest.Answer(w, 403, kubetest.Status(403, "Forbidden", "pods is forbidden: cannot watch", "pods", ""))
		answered = true
	}
	if a.version > since { // between the reading and the watch
		close(news)
	} else {
		a.watchers[news] = true
	}
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.watchers, news)
	}()
	if answered {
		return
	}
	w.WriteHeader(200)
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	over := time.NewTimer(time.Duration(seconds) * time.Second)
	defer over.Stop()
	select {
	case <-news:
		_, _ = w.Write([]byte(`{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1"}}` + "\n"))
	case <-over.C:
	case <-r.Context().Done():
	}
}

func (a *apiServer) pod(w http.ResponseWriter, namespace, name string) {
	p, found := a.pods[namespace+"/"+name]
	if !found {
		kubetest.Answer(w, 404, kubetest.NotFound("pods", name))
		return
	}
	if a.read != nil {
		p = clone(p)
		a.read(p)
	}
	kubetest.Answer(w, 200, p)
}

func clone(o object) object {
	b, _ := json.Marshal(o)
	var out object
	_ = json.Unmarshal(b, &out)
	return out
}

// review answers a TokenReview of authentication.k8s.io/v1.
func (a *apiServer) review(w http.ResponseWriter, r *http.Request) {
	var in struct {
		APIVersion, Kind string
		Spec             struct {
			Token     string
			Audiences []string
		}
	}
	kubetest.Read(a.t, r, &in)
	if in.APIVersion != "authentication.k8s.io/v1" || in.Kind != "TokenReview" || in.Spec.Token == "" ||
		!slices.Equal(in.Spec.Audiences, []string{aud}) {
		a.t.Errorf("the review is %+v", in)
	}
	out := object{"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": object{"managedFields": []any{}},
		"spec": object{"token": in.Spec.Token, "audiences": in.Spec.Audiences}}
	user, audiences, why := a.authenticate(in.Spec.Token, in.Spec.Audiences)
	if why != nil {
		out["status"] = object{"user": object{}, "error": why.Error()}
	} else {
		out["status"] = object{"authenticated": true, "user": user, "audiences": audiences}
	}
	if a.reviewed != nil {
		a.reviewed(out)
	}
	kubetest.Answer(w, 201, out)
}

// authenticate does the checks of the service account authenticator: signature, time
// with a minute of leeway, audience, and whether the pod still exists.
func (a *apiServer) authenticate(token string, audiences []string) (user object, granted []string, err error) {
	set, err := jose.ParseJWKS(a.issuer.JWKS())
	if err != nil {
		return nil, nil, err
	}
	c, err := jose.Verify(token, jose.Profile{Types: []string{"jwt"}, AllowNoType: true, Algs: []jose.Alg{jose.ES256}, Issuer: a.issuer.URL, AnyAudience: true,
		MaxLifetime: 400 * 24 * time.Hour, Leeway: time.Minute}, set.Key, a.clock.Now())
	if err != nil {
		return nil, nil, errors.New("invalid bearer token")
	}
	for _, x := range c.Audience {
		if slices.Contains(audiences, x) {
			granted = append(granted, x)
		}
	}
	if len(granted) == 0 {
		return nil, nil, fmt.Errorf("[invalid bearer token, token audiences %q is invalid for the target audiences %q]", c.Audience, audiences)
	}
	var k struct {
		Namespace      string `json:"namespace"`
		ServiceAccount struct {
			Name string `json:"name"`
			UID  string `json:"uid"`
		} `json:"serviceaccount"`
		Bound *struct {
			Name string `json:"name"`
			UID  string `json:"uid"`
		} `json:"pod"`
		Node *struct {
			Name string `json:"name"`
		} `json:"node"`
	}
	if err := c.DecodeClaim("kubernetes.io", &k); err != nil || k.ServiceAccount.UID != saUID {
		return nil, nil, errors.New("invalid bearer token")
	}
	extra := object{"authentication.kubernetes.io/credential-id": []string{"JTI=" + c.ID}}
	if k.Bound != nil {
		switch got := part(a.pods[k.Namespace+"/"+k.Bound.Name], "metadata")["uid"]; got {
		case nil:
			return nil, nil, errors.New("[invalid bearer token, service account token has been invalidated]")
		case k.Bound.UID:
		default:
			return nil, nil, fmt.Errorf("[invalid bearer token, pod UID (%s) does not match service account pod ref claim (%s)]", got, k.Bound.UID)
		}
		extra["authentication.kubernetes.io/pod-name"], extra["authentication.kubernetes.io/pod-uid"] = []string{k.Bound.Name}, []string{k.Bound.UID}
	}
	if k.Node != nil {
		extra["authentication.kubernetes.io/node-name"] = []string{k.Node.Name}
	}
	return object{"username": "system:serviceaccount:" + k.Namespace + ":" + k.ServiceAccount.Name, "uid": k.ServiceAccount.UID,
		"groups": []string{"system:serviceaccounts", "system:authenticated"}, "extra": extra}, granted, nil
}

// token returns a token that a kubelet would project into the pod tool-1, changed by
// claims.
func (a *apiServer) token(claims attesttest.Claims) string {
	return a.tokenWith(nil, claims)
}

func (a *apiServer) tokenWith(header, claims attesttest.Claims) string {
	a.t.Helper()
	h := attesttest.Claims{"typ": nil}
	maps.Copy(h, header)
	now := a.clock.Now()
	c := attesttest.Claims{"aud": []string{aud}, "sub": "system:serviceaccount:agents:worker", "nbf": now.Unix(), "kubernetes.io": bound(nil)}
	maps.Copy(c, claims)
	return a.issuer.TokenWith(h, c)
}

// bound returns the claim kubernetes.io of the pod tool-1; nil removes a member.
func bound(change object) object {
	k := object{"namespace": "agents", "node": object{"name": "node-1", "uid": nodeUID}, "pod": object{"name": "tool-1", "uid": podUID},
		"serviceaccount": object{"name": "worker", "uid": saUID}}
	maps.Copy(k, change)
	maps.DeleteFunc(k, func(_ string, v any) bool { return v == nil })
	return k
}

// inside answers requests without a network, so that tests can run in a synctest
// bubble.
type inside struct{ http.Handler }

func (i inside) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if r.Body == nil {
		r.Body = io.NopCloser(strings.NewReader(""))
	}
	if r.URL.Query().Get("watch") != "" {
		return i.stream(r)
	}
	rec := httptest.NewRecorder()
	i.ServeHTTP(rec, r)
	return rec.Result(), nil
}

// stream returns the response when its header is complete, with a body that is read as
// it is written.
func (i inside) stream(r *http.Request) (*http.Response, error) {
	body, w := io.Pipe()
	s := &streamed{head: make(chan int, 1), body: w}
	go func() {
		i.ServeHTTP(s, r)
		s.WriteHeader(200)
		w.CloseWithError(r.Context().Err()) //nolint:errcheck // never fails; nil is the end
	}()
	select {
	case code := <-s.head:
		return &http.Response{StatusCode: code, Header: http.Header{}, Body: body, Request: r}, nil
	case <-r.Context().Done():
		body.CloseWithError(r.Context().Err()) //nolint:errcheck // never fails
		return nil, r.Context().Err()
	}
}

type streamed struct {
	head chan int
	once sync.Once
	body *io.PipeWriter
}

func (s *streamed) Header() http.Header { return http.Header{} }

func (s *streamed) WriteHeader(code int) { s.once.Do(func() { s.head <- code }) }

func (s *streamed) Write(b []byte) (int, error) {
	s.WriteHeader(200)
	return s.body.Write(b)
}

// config returns a configuration for the server without a network.
func (a *apiServer) config() kubernetes.Config {
	return kubernetes.Config{Name: "cluster", Audience: aud, Server: "https://10.0.0.1:6443", TokenFile: kubetest.File(a.t, a.login+"\n"),
		Fetch: fetch.Config{Transport: inside{a}}, Now: a.clock.Now}
}

// signed returns a configuration of mode jwks.
func (a *apiServer) signed() kubernetes.Config {
	return kubernetes.Config{Name: "cluster", Mode: kubernetes.ModeJWKS, Audience: aud, Issuer: a.issuer.URL, JWKSURL: a.issuer.JWKSURL, Now: a.clock.Now}
}

func open(t testing.TB, c kubernetes.Config) attest.Attestor {
	t.Helper()
	a, err := kubernetes.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func evidence(t testing.TB, token string) attest.Evidence {
	return attest.Evidence{Attestor: "cluster", Document: []byte(token), Key: attesttest.NewKey(t)}
}
