package gcp_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const cloudPlatform = "https://www.googleapis.com/auth/cloud-platform"

// discovery is testdata/discovery.json: the descriptions of methods that Google publishes.
type discovery map[string]struct {
	Methods map[string]struct {
		HTTPMethod string
		Path       string
		Request    struct {
			Ref string `json:"$ref"`
		}
		Response struct {
			Ref string `json:"$ref"`
		}
		Parameters map[string]struct{ Pattern string }
		Scopes     []string
	}
	Schemas map[string]schema
}

type schema struct {
	Type, Format string
	Ref          string `json:"$ref"`
	Items        *schema
	Properties   map[string]schema
}

var published = sync.OnceValues(func() (discovery, error) {
	text, err := os.ReadFile(filepath.Join("testdata", "discovery.json"))
	if err != nil {
		return nil, err
	}
	var d discovery
	return d, json.Unmarshal(text, &d)
})

// fits reports what of v is not as a schema of an API says.
func (d discovery) fits(api string, s schema, v any, at string) []string {
	if s.Ref != "" {
		s = d[api].Schemas[s.Ref]
	}
	wrong := []string{fmt.Sprintf("%s is %T, and not %s %s", at, v, s.Type, s.Format)}
	switch x := v.(type) {
	case map[string]any:
		if s.Type != "object" {
			return wrong
		}
		var out []string
		for name, member := range x {
			p, known := s.Properties[name]
			if !known {
				out = append(out, at+"."+name+" is not published")
				continue
			}
			out = append(out, d.fits(api, p, member, at+"."+name)...)
		}
		return out
	case []any:
		if s.Type != "array" {
			return wrong
		}
		var out []string
		for i, item := range x {
			out = append(out, d.fits(api, *s.Items, item, fmt.Sprintf("%s[%d]", at, i))...)
		}
		return out
	case string:
		form := map[string]string{"google-duration": `^[0-9]+(\.[0-9]{1,9})?s$`, "google-datetime": `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$`}[s.Format]
		if s.Type == "string" && regexp.MustCompile(form).MatchString(x) {
			return nil
		}
	case float64:
		if s.Type == "integer" && x == float64(int32(x)) {
			return nil
		}
	}
	return wrong
}

// minted is a token as Google remembers it.
type minted struct {
	account string
	scopes  []string
	until   time.Time
	rules   []any // nil = not narrowed
}

// google is a fake of the token endpoint, iamcredentials, sts, iam and the metadata server. It
// compares each request with Google's published descriptions.
type google struct {
	t   *testing.T
	url string

	mu     sync.Mutex
	n      int
	logins map[string]bool // the broker's own tokens that are good
	asked  []string        // paths
	tokens map[string]minted
	may    map[string]bool // accounts that the broker may be
	fault  func(http.ResponseWriter, *http.Request) bool
	shape  func(path string, answer map[string]any)
	key    string // of the key's id that is good
}

const (
	broker = "ebb@acme.iam.gserviceaccount.com"
	reader = "lake-reader@acme.iam.gserviceaccount.com"
	other  = "other@acme.iam.gserviceaccount.com"
	query  = "bq@acme.iam.gserviceaccount.com"
)

func newGoogle(t *testing.T) *google {
	t.Helper()
	g := &google{t: t, logins: map[string]bool{}, tokens: map[string]minted{}, may: map[string]bool{reader: true, other: true, query: true}, key: "key-1"}
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	g.url = s.URL
	return g
}

func (g *google) set(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

// count is how often a path was asked for.
func (g *google) count(suffix string) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.asked {
		if strings.HasSuffix(p, suffix) {
			n++
		}
	}
	return n
}

func (g *google) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	g.asked = append(g.asked, r.URL.Path)
	fault := g.fault
	g.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	body, _ := io.ReadAll(r.Body)
	g.mu.Lock()
	defer g.mu.Unlock()
	code, answer := g.serve(w, r, body)
	if g.shape != nil && code == 200 {
		g.shape(r.URL.Path, answer)
	}
	write(w, code, answer)
}

func write(w http.ResponseWriter, code int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer)
}

func apiError(code int, status string) map[string]any {
	return map[string]any{"error": map[string]any{"code": code, "status": status, "message": "because"}}
}

func (g *google) serve(w http.ResponseWriter, r *http.Request, body []byte) (int, map[string]any) {
	switch {
	case r.URL.Path == "/token":
		return g.login(r, body)
	case r.URL.Path == "/computeMetadata/v1/instance/service-accounts/default/token":
		if r.Method != http.MethodGet || r.Header.Get("Metadata-Flavor") != "Google" || r.URL.RawQuery != "scopes="+url.QueryEscape(cloudPlatform) {
			g.t.Errorf("metadata: %s %s", r.Method, r.URL)
		}
		w.Header().Set("Metadata-Flavor", "Google")
		return 200, g.loggedIn()
	}
	d, err := published()
	if err != nil {
		g.t.Fatal(err)
	}
	for name, api := range d {
		for id, m := range api.Methods {
			before, after, _ := strings.Cut(m.Path, "{")
			_, after, _ = strings.Cut(after, "}")
			resource, begins := strings.CutPrefix(r.URL.Path, "/"+before)
			resource, ends := strings.CutSuffix(resource, after)
			if !begins || !ends || !strings.Contains(m.Path, "{") && resource != "" {
				continue
			}
			for _, p := range m.Parameters {
				if !regexp.MustCompile(p.Pattern).MatchString(resource) {
					g.t.Errorf("%s: the path %s", id, r.URL.Path)
				}
			}
			in := g.read(r, id, name, d, m.Request.Ref, body)
			if r.Method != m.HTTPMethod || r.URL.RawQuery != "" {
				g.t.Errorf("%s: %s %s", id, r.Method, r.URL)
			}
			code, answer := g.call(r, id, strings.TrimPrefix(resource, "projects/-/serviceAccounts/"), in)
			if code == 200 {
				if bad := d.fits(name, schema{Ref: m.Response.Ref}, roundTrip(answer), id+" answer"); len(bad) > 0 {
					g.t.Errorf("the test's own answer: %v", bad)
				}
			}
			return code, answer
		}
	}
	g.t.Errorf("%s %s is not published", r.Method, r.URL)
	return 404, apiError(404, "NOT_FOUND")
}

func roundTrip(v any) (out any) {
	b, _ := json.Marshal(v)
	_ = json.Unmarshal(b, &out)
	return out
}

// read decodes a request and holds it against its schema. The token endpoint of sts
// takes its members as a form, too, in the spelling of RFC 8693.
func (g *google) read(r *http.Request, id, api string, d discovery, ref string, body []byte) map[string]any {
	in := map[string]any{}
	switch ct := r.Header.Get("Content-Type"); {
	case id == "sts.token" && ct == "application/x-www-form-urlencoded":
		form, err := url.ParseQuery(string(body))
		if err != nil {
			g.t.Errorf("%s: %v", id, err)
		}
		for k, v := range form {
			in[regexp.MustCompile(`_[a-z]`).ReplaceAllStringFunc(k, func(s string) string { return strings.ToUpper(s[1:]) })] = v[0]
			if len(v) != 1 {
				g.t.Errorf("%s: %s is there %d times", id, k, len(v))
			}
		}
	case id != "sts.token" && ct == "application/json":
		if err := json.Unmarshal(body, &in); err != nil {
			g.t.Errorf("%s: %v", id, err)
		}
	default:
		g.t.Errorf("%s: Content-Type %q", id, ct)
	}
	for _, bad := range d.fits(api, schema{Ref: ref}, in, id) {
		g.t.Error(bad)
	}
	return in
}

func (g *google) call(r *http.Request, id, account string, in map[string]any) (int, map[string]any) {
	if id == "sts.token" {
		return g.exchange(r, in)
	}
	login, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !g.logins[login] {
		return 401, apiError(401, "UNAUTHENTICATED")
	}
	if id == "iam.projects.serviceAccounts.testIamPermissions" {
		if g.may[account] {
			return 200, map[string]any{"permissions": in["permissions"]}
		}
		return 200, map[string]any{}
	}
	if !g.may[account] {
		return 403, apiError(403, "PERMISSION_DENIED")
	}
	life, err := time.ParseDuration(in["lifetime"].(string)) //nolint:forcetypeassert // the schema says so
	if err != nil || life < time.Second || life > 12*time.Hour {
		g.t.Errorf("lifetime %v", in["lifetime"])
	}
	m := minted{account: account, until: time.Now().Add(life)}
	for _, s := range in["scope"].([]any) { //nolint:forcetypeassert // the schema says so
		m.scopes = append(m.scopes, s.(string)) //nolint:forcetypeassert // the schema says so
	}
	g.n++
	token := fmt.Sprintf("ya29.wide-canary-%d", g.n)
	g.tokens[token] = m
	return 200, map[string]any{"accessToken": token, "expireTime": m.until.UTC().Format("2006-01-02T15:04:05Z")}
}

func (g *google) exchange(r *http.Request, in map[string]any) (int, map[string]any) {
	const access = "urn:ietf:params:oauth:token-type:access_token"
	if in["grantType"] != "urn:ietf:params:oauth:grant-type:token-exchange" || in["subjectTokenType"] != access || in["requestedTokenType"] != access || r.Header.Get("Authorization") != "" {
		g.t.Errorf("sts: %v", in)
	}
	m, known := g.tokens[fmt.Sprint(in["subjectToken"])]
	if !known || !slices.Equal(m.scopes, []string{cloudPlatform}) {
		return 400, map[string]any{"error": "invalid_grant", "error_description": "because"}
	}
	d, _ := published()
	var o map[string]any
	text := fmt.Sprint(in["options"])
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		g.t.Errorf("sts: options: %v", err)
	}
	for _, bad := range d.fits("sts", schema{Ref: "GoogleIdentityStsV1Options"}, o, "options") {
		g.t.Error(bad)
	}
	boundary, _ := o["accessBoundary"].(map[string]any)
	m.rules, _ = boundary["accessBoundaryRules"].([]any)
	if inner, _ := json.Marshal(boundary); len(m.rules) < 1 || len(m.rules) > 10 || len(inner) > 2048 {
		g.t.Errorf("sts: %d rules in %d characters", len(m.rules), len(inner))
	}
	g.n++
	token := fmt.Sprintf("ya29.dr.narrow-canary-%d", g.n)
	g.tokens[token] = m
	return 200, map[string]any{"access_token": token, "issued_token_type": access, "token_type": "Bearer", "expires_in": int(time.Until(m.until) / time.Second)}
}

func (g *google) loggedIn() map[string]any {
	g.n++
	token := fmt.Sprintf("login-canary-%d", g.n)
	g.logins[token] = true
	return map[string]any{"access_token": token, "expires_in": 3599, "token_type": "Bearer"}
}

var private = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

// login judges an assertion as RFC 7523 says.
func (g *google) login(r *http.Request, body []byte) (int, map[string]any) {
	form, err := url.ParseQuery(string(body))
	parts := strings.Split(form.Get("assertion"), ".")
	if err != nil || r.Method != http.MethodPost || len(form) != 2 || len(parts) != 3 || form.Get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
		g.t.Errorf("login: %s %v", r.Method, form)
		return 400, map[string]any{"error": "invalid_request"}
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	sig, _ := base64.RawURLEncoding.DecodeString(parts[2])
	if err := rsa.VerifyPKCS1v15(&private().PublicKey, crypto.SHA256, sum[:], sig); err != nil {
		g.t.Error(err)
	}
	var h struct{ Alg, Typ, Kid string }
	var c struct {
		Iss, Scope, Aud string
		Iat, Exp        int64
	}
	decode := func(part string, into any) {
		text, _ := base64.RawURLEncoding.DecodeString(part)
		if err := json.Unmarshal(text, into); err != nil {
			g.t.Error(err)
		}
	}
	decode(parts[0], &h)
	decode(parts[1], &c)
	if h.Alg != "RS256" || h.Typ != "JWT" || c.Iss != broker || c.Scope != cloudPlatform || c.Aud != g.url+"/token" || c.Exp-c.Iat != 3600 {
		g.t.Errorf("assertion %+v %+v", h, c)
	}
	if h.Kid != g.key {
		return 400, map[string]any{"error": "invalid_grant", "error_description": "Invalid JWT Signature."}
	}
	return 200, g.loggedIn()
}

// keyFile is a JSON key as Google hands them out.
func keyFile(t *testing.T, id string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key.json")
	writeKey(t, path, id)
	return path
}

func writeKey(t *testing.T, path, id string) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(private())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "acme", "private_key_id": id, "client_email": broker, "token_uri": "https://attacker.example/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err == nil {
		err = os.WriteFile(path, doc, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
