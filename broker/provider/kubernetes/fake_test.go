package kubernetes_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/kubetest"
	"github.com/ebb-broker/ebb/broker/provider"
)

// apiServer stands for a kube-apiserver. It answers what one of version 1.36 was
// seen to answer, and fails the test on anything that one would not understand.
type apiServer struct {
	t   *testing.T
	url string
	ca  string // file

	mu       sync.Mutex
	login    string
	secrets  map[string]*boundSecret // by namespace/name
	accounts map[string]bool         // namespace/name
	calls    []string
	deleted  int
	maxLife  time.Duration
	page     int                                           // entries of a page at most; 0 = as asked
	finalize bool                                          // deleting leaves the object
	denied   func(ns, verb, resource, name string) bool    // of access reviews
	fault    func(http.ResponseWriter, *http.Request) bool // true = answered
	after    func(http.ResponseWriter, *http.Request, int, any) bool
	forge    func(claims map[string]any)
	token    func(string) string
}

func newServer(t *testing.T) *apiServer {
	t.Helper()
	a := &apiServer{
		t: t, login: "login-canary-1", secrets: map[string]*boundSecret{}, accounts: map[string]bool{"agents/shop-deployer": true, "agents/shop-reader": true, "other/reader": true},
	}
	s := httptest.NewTLSServer(a)
	t.Cleanup(s.Close)
	a.url, a.ca = s.URL, kubetest.File(t, string(pemOf(s)))
	return a
}

func (a *apiServer) set(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

func (a *apiServer) left() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.secrets)
}

// alive is what the real server's authenticator looks at.
func (a *apiServer) alive(token string) bool {
	parts := strings.Split(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return false
	}
	var c struct {
		K struct {
			Namespace string
			Secret    struct{ Name, UID string }
		} `json:"kubernetes.io"`
	}
	if json.Unmarshal(text, &c) != nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.secrets[c.K.Namespace+"/"+c.K.Secret.Name]
	return s != nil && s.UID == c.K.Secret.UID
}

var routes = regexp.MustCompile(`^/api/v1/namespaces/([a-z0-9-]+)/(secrets|serviceaccounts)(?:/([a-z0-9.-]+))?(/token)?$`)

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	fault, after, login := a.fault, a.after, a.login
	a.calls = append(a.calls, r.Method+" "+r.URL.RequestURI())
	a.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+login {
		kubetest.Answer(w, 401, kubetest.Status(401, "Unauthorized", "Unauthorized"))
		return
	}
	code, answer := a.serve(r)
	if after == nil || !after(w, r, code, answer) {
		kubetest.Answer(w, code, answer)
	}
}

func (a *apiServer) serve(r *http.Request) (int, any) {
	if r.URL.Path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" && r.Method == http.MethodPost {
		return a.review(r)
	}
	m := routes.FindStringSubmatch(r.URL.Path)
	if m == nil {
		a.t.Errorf("%s %s is no path of the API", r.Method, r.URL.Path)
		return 404, kubetest.Status(404, "NotFound", "the server could not find the requested resource")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	ns, name := m[1], m[3]
	switch {
	case m[2] == "serviceaccounts" && m[4] != "" && r.Method == http.MethodPost:
		return a.tokenRequest(r, ns, name)
	case m[2] == "secrets" && m[4] == "" && name == "" && r.Method == http.MethodPost:
		return a.create(r, ns)
	case m[2] == "secrets" && m[4] == "" && name == "" && r.Method == http.MethodGet:
		return a.list(r, ns)
	case m[2] == "secrets" && m[4] == "" && name != "" && r.Method == http.MethodGet:
		if s := a.secrets[ns+"/"+name]; s != nil {
			return 200, object("Secret", s)
		}
		return 404, kubetest.NotFound("secrets", name)
	case m[2] == "secrets" && m[4] == "" && name != "" && r.Method == http.MethodDelete:
		return a.remove(r, ns, name)
	}
	a.t.Errorf("%s %s: no such method", r.Method, r.URL.Path)
	return 405, kubetest.Status(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
}

func object(kind string, s *boundSecret) map[string]any {
	return map[string]any{"kind": kind, "apiVersion": "v1", "metadata": s, "immutable": true, "type": "Opaque"}
}

func (a *apiServer) create(r *http.Request, ns string) (int, any) {
	var in struct {
		APIVersion, Kind, Type string
		Immutable              bool
		Metadata               struct {
			Name, Namespace string
			Labels          map[string]string
		}
	}
	kubetest.Read(a.t, r, &in)
	lease, ours := provider.LeaseOf(instance, in.Metadata.Name)
	if in.APIVersion != "v1" || in.Kind != "Secret" || in.Type != "Opaque" || !in.Immutable || in.Metadata.Namespace != ns || !ours {
		a.t.Errorf("the Secret is %+v", in)
	}
	want := map[string]string{"app.kubernetes.io/managed-by": "ebb", "ebb/instance": instance, "ebb/lease": lease}
	if fmt.Sprint(in.Metadata.Labels) != fmt.Sprint(want) {
		a.t.Errorf("labels are %v", in.Metadata.Labels)
	}
	at := ns + "/" + in.Metadata.Name
	if a.secrets[at] != nil {
		return 409, kubetest.Status(409, "AlreadyExists", `secrets "`+in.Metadata.Name+`" already exists`)
	}
	a.secrets[at] = &boundSecret{Name: in.Metadata.Name, Namespace: ns, UID: uid(), Labels: in.Metadata.Labels}
	return 201, object("Secret", a.secrets[at])
}

func uid() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	h := hex.EncodeToString(b)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

func (a *apiServer) tokenRequest(r *http.Request, ns, account string) (int, any) {
	var in struct {
		APIVersion, Kind string
		Spec             struct {
			Audiences         []string
			ExpirationSeconds int64
			BoundObjectRef    struct{ Kind, APIVersion, Name, UID string }
		}
	}
	kubetest.Read(a.t, r, &in)
	ref := in.Spec.BoundObjectRef
	if in.APIVersion != "authentication.k8s.io/v1" || in.Kind != "TokenRequest" || ref.Kind != "Secret" || ref.APIVersion != "v1" || ref.UID == "" {
		a.t.Errorf("the TokenRequest is %+v", in)
	}
	if !a.accounts[ns+"/"+account] {
		return 404, kubetest.NotFound("serviceaccounts", account)
	}
	if in.Spec.ExpirationSeconds < 600 || in.Spec.ExpirationSeconds > 1<<32 {
		a.t.Errorf("expirationSeconds %d", in.Spec.ExpirationSeconds)
		return 422, kubetest.Status(422, "Invalid", "may not specify a duration less than 10 minutes")
	}
	s := a.secrets[ns+"/"+ref.Name]
	if s == nil {
		return 404, kubetest.NotFound("secrets", ref.Name)
	}
	if s.UID != ref.UID {
		return 409, kubetest.Status(409, "Conflict", "the UID in the bound object reference does not match the UID in record")
	}
	if len(in.Spec.Audiences) == 0 {
		in.Spec.Audiences = []string{"https://kubernetes.default.svc", "k3s"}
	}
	life := time.Duration(in.Spec.ExpirationSeconds) * time.Second
	if a.maxLife > 0 {
		life = min(life, a.maxLife)
	}
	exp := time.Now().Add(life)
	c := map[string]any{
		"iss": "https://kubernetes.default.svc", "sub": "system:serviceaccount:" + ns + ":" + account, "aud": in.Spec.Audiences,
		"exp": exp.Unix(), "iat": time.Now().Unix(), "nbf": time.Now().Unix(), "jti": uid(),
		"kubernetes.io": map[string]any{
			"namespace": ns, "serviceaccount": map[string]any{"name": account, "uid": "sa-uid"}, "secret": map[string]any{"name": ref.Name, "uid": ref.UID},
		},
	}
	if a.forge != nil {
		a.forge(c)
	}
	payload, _ := json.Marshal(c)
	b64 := base64.RawURLEncoding.EncodeToString
	token := b64([]byte(`{"alg":"RS256","kid":"k"}`)) + "." + b64(payload) + "." + b64([]byte("signature"))
	if a.token != nil {
		token = a.token(token)
	}
	return 201, map[string]any{
		"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": map[string]any{"name": account, "namespace": ns}, "spec": in.Spec,
		"status": map[string]any{"token": token, "expirationTimestamp": exp.UTC().Format(time.RFC3339)},
	}
}

func (a *apiServer) remove(r *http.Request, ns, name string) (int, any) {
	var in struct {
		APIVersion, Kind, PropagationPolicy string
		Preconditions                       *struct{ UID string }
	}
	kubetest.Read(a.t, r, &in)
	if in.APIVersion != "v1" || in.Kind != "DeleteOptions" || in.PropagationPolicy != "Background" {
		a.t.Errorf("the DeleteOptions are %+v", in)
	}
	s := a.secrets[ns+"/"+name]
	switch {
	case s == nil:
		return 404, kubetest.NotFound("secrets", name)
	case in.Preconditions != nil && in.Preconditions.UID != s.UID:
		return 409, kubetest.Status(409, "Conflict", "Precondition failed: UID in precondition: x, UID in object meta: y")
	case a.finalize:
		s.Deleted = time.Now().UTC().Format(time.RFC3339)
		return 200, object("Secret", s)
	}
	delete(a.secrets, ns+"/"+name)
	a.deleted++
	return 200, map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Success", "details": map[string]any{"name": name, "kind": "secrets", "uid": s.UID}}
}

func (a *apiServer) list(r *http.Request, ns string) (int, any) {
	q := r.URL.Query()
	limit, err := strconv.Atoi(q.Get("limit"))
	if accept := r.Header.Get("Accept"); err != nil || limit < 1 || !strings.Contains(accept, "as=PartialObjectMetadataList") {
		a.t.Errorf("list with limit %q and Accept %q", q.Get("limit"), accept)
	}
	if a.page > 0 {
		limit = min(limit, a.page)
	}
	var names []string
	for at, s := range a.secrets {
		if strings.HasPrefix(at, ns+"/") && a.selects(q, s.Labels) && at > q.Get("continue") {
			names = append(names, at)
		}
	}
	slices.Sort(names)
	var items []any
	next := ""
	for i, at := range names {
		if i == limit {
			next = names[i-1]
			break
		}
		items = append(items, map[string]any{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": a.secrets[at]})
	}
	return 200, map[string]any{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": map[string]any{"continue": next}, "items": items}
}

// selects knows the two selectors that there are.
func (a *apiServer) selects(q url.Values, labels map[string]string) bool {
	managed := labels["app.kubernetes.io/managed-by"] == "ebb"
	switch sel := q.Get("labelSelector"); sel {
	case "app.kubernetes.io/managed-by!=ebb":
		return !managed
	case "app.kubernetes.io/managed-by=ebb,ebb/instance=" + instance:
		return managed && labels["ebb/instance"] == instance
	default:
		a.t.Errorf("labelSelector %q", sel)
		return false
	}
}

func (a *apiServer) review(r *http.Request) (int, any) {
	var in struct {
		APIVersion, Kind string
		Spec             struct {
			ResourceAttributes struct{ Namespace, Verb, Group, Resource, Subresource, Name string }
		}
	}
	kubetest.Read(a.t, r, &in)
	q := in.Spec.ResourceAttributes
	if in.APIVersion != "authorization.k8s.io/v1" || in.Kind != "SelfSubjectAccessReview" || q.Verb == "" || q.Resource == "" {
		a.t.Errorf("the review is %+v", in)
	}
	resource := q.Resource
	if q.Subresource != "" {
		resource += "/" + q.Subresource
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return 201, map[string]any{"kind": "SelfSubjectAccessReview", "status": map[string]any{"allowed": a.denied == nil || !a.denied(q.Namespace, q.Verb, resource, q.Name)}}
}

type boundSecret struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
	UID       string            `json:"uid"`
	Labels    map[string]string `json:"labels,omitempty"`
	Deleted   string            `json:"deletionTimestamp,omitempty"`
}
