package githubtest_test

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/broker/provider/github/githubtest"
)

// bed is a server with one installation, and a client that knows no more than
// GitHub's documentation.
type bed struct {
	*githubtest.Server
	t     *testing.T
	clock *attesttest.Clock
	http  *http.Client
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{t: t, clock: attesttest.NewClock(), http: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}} //nolint:gosec // loopback
	b.Server = githubtest.New(t, githubtest.Config{Now: b.clock.Now})
	b.Trust(githubtest.Key(t))
	b.Put(githubtest.Repository{ID: 1, Owner: "acme", Name: "web"}, githubtest.Repository{ID: 2, Owner: "acme", Name: "api"}, githubtest.Repository{ID: 5, Owner: "acme", Name: "open", Public: true},
		githubtest.Repository{ID: 6, Owner: "other", Name: "web"})
	b.Install(githubtest.Installation{ID: 11, Owner: "acme", Permissions: map[string]string{"metadata": "read", "contents": "read", "issues": "write"}, Repositories: []int64{1, 2}})
	return b
}

// sign makes a JWT of any header and claims.
func (b *bed) sign(key *rsa.PrivateKey, alg string, claims map[string]any) string {
	body, err := json.Marshal(claims)
	if err != nil {
		b.t.Fatal(err)
	}
	enc := base64.RawURLEncoding
	input := enc.EncodeToString(fmt.Appendf(nil, `{"alg":%q,"typ":"JWT"}`, alg)) + "." + enc.EncodeToString(body)
	sum := sha256.Sum256([]byte(input))
	sig, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		b.t.Fatal(err)
	}
	return input + "." + enc.EncodeToString(sig)
}

// claims are good ones, with changes.
func (b *bed) claims(change map[string]any) map[string]any {
	now := b.clock.Now().Unix()
	out := map[string]any{"iat": now - 60, "exp": now + 540, "iss": "Iv23liEbbTest00000001"}
	maps.Copy(out, change)
	maps.DeleteFunc(out, func(_ string, v any) bool { return v == nil })
	return out
}

func (b *bed) jwt() string { return b.sign(githubtest.Key(b.t), "RS256", b.claims(nil)) }

func (b *bed) do(method, path, auth, body string) (int, map[string]any, http.Header) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Authorization", auth)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := b.http.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	var out map[string]any
	_ = json.Unmarshal(raw, &out)
	return res.StatusCode, out, res.Header
}

func (b *bed) mint(body string) string {
	b.t.Helper()
	status, out, _ := b.do("POST", "/app/installations/11/access_tokens", "Bearer "+b.jwt(), body)
	if status != http.StatusCreated {
		b.t.Fatalf("minting answered %d %v", status, out)
	}
	return out["token"].(string)
}

func TestJWT(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	now := b.clock.Now().Unix()
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		jwt  string
		want int
	}{
		"good":              {b.jwt(), 200},
		"App id as number":  {b.sign(githubtest.Key(t), "RS256", b.claims(map[string]any{"iss": 4711})), 200},
		"App id as text":    {b.sign(githubtest.Key(t), "RS256", b.claims(map[string]any{"iss": "4711"})), 200},
		"just ten minutes":  {b.sign(githubtest.Key(t), "RS256", b.claims(map[string]any{"exp": now + 600})), 200},
		"too long":          {b.sign(githubtest.Key(t), "RS256", b.claims(map[string]any{"exp": now + 601})), 401},
		"expired":           {b.sign(githubtest.Key(t), "RS256", b.claims(map[string]any{"exp": now})), 401},
		"no exp":            {b.sign(githubtest.Key(t), "RS256", b.claims(map[string]any{"exp": nil})), 401},
		"no iat":            {b.sign(githubtest.Key(t), "RS256", b.claims(map[string]any{"iat": nil})), 401},
		"from the future":   {b.sign(githubtest.Key(t), "RS256", b.claims(map[string]any{"iat": now + 1})), 401},
		"another App":       {b.sign(githubtest.Key(t), "RS256", b.claims(map[string]any{"iss": "Iv1.x"})), 401},
		"no issuer":         {b.sign(githubtest.Key(t), "RS256", b.claims(map[string]any{"iss": nil})), 401},
		"another key":       {b.sign(other, "RS256", b.claims(nil)), 401},
		"another algorithm": {b.sign(githubtest.Key(t), "none", b.claims(nil)), 401},
		"no JWT":            {"x", 401},
		"an installation's": {b.mint(""), 401},
	} {
		if got, out, _ := b.do("GET", "/app", "Bearer "+tt.jwt, ""); got != tt.want {
			t.Errorf("%s: %d %v", name, got, out["message"])
		}
	}
	if got, _, _ := b.do("GET", "/installation/repositories", "Bearer "+b.jwt(), ""); got != 401 {
		t.Errorf("a JWT passes for a token: %d", got)
	}
}

func TestMint(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for body, want := range map[string]int{
		``: 201, `{}`: 201,
		`{"repository_ids":[1],"permissions":{"contents":"read"}}`:  201,
		`{"repositories":["WEB"],"permissions":{"issues":"write"}}`: 201,
		`{"repository_ids":[1],"permissions":{"contents":"write"}}`: 422,
		`{"repository_ids":[1],"permissions":{"pages":"read"}}`:     422,
		`{"repository_ids":[9]}`:                                    422, `{"repository_ids":[5]}`: 422, `{"repository_ids":[6]}`: 422, `{"repositories":["nope"]}`: 422,
	} {
		got, out, _ := b.do("POST", "/app/installations/11/access_tokens", "Bearer "+b.jwt(), body)
		if got != want {
			t.Errorf("%s: %d %v", body, got, out)
		}
	}
	_, out, _ := b.do("POST", "/app/installations/11/access_tokens", "Bearer "+b.jwt(), `{"repository_ids":[2],"permissions":{"contents":"read"}}`)
	if p := out["permissions"].(map[string]any); p["contents"] != "read" || p["metadata"] != "read" || len(p) != 2 || out["repository_selection"] != "selected" {
		t.Errorf("%v", out["permissions"])
	}
	if got, _, _ := b.do("POST", "/app/installations/12/access_tokens", "Bearer "+b.jwt(), ``); got != 404 {
		t.Errorf("an unknown installation: %d", got)
	}
	b.Suspend(11, true)
	if got, out, _ := b.do("POST", "/app/installations/11/access_tokens", "Bearer "+b.jwt(), ``); got != 403 {
		t.Errorf("suspended: %d %v", got, out)
	}
}

// TestTokenIsCutDown: a token has only its requested rights, for an hour, and none after its
// revocation.
func TestTokenIsCutDown(t *testing.T) {
	t.Parallel()
	for _, format := range []string{githubtest.Opaque, githubtest.Stateless} {
		b := newBed(t)
		b.Format(format, 0)
		token := b.mint(`{"repository_ids":[1],"permissions":{"issues":"read"}}`)
		try := func(want int, method, path, body string) {
			t.Helper()
			for _, scheme := range []string{"Bearer ", "token "} {
				if got, out, _ := b.do(method, path, scheme+token, body); got != want {
					t.Errorf("%s: %s %s: %d %v, want %d", format, method, path, got, out["message"], want)
				}
			}
		}
		try(200, "GET", "/repos/acme/web", "")
		try(200, "GET", "/repos/acme/web/issues", "")
		try(403, "POST", "/repos/acme/web/issues", `{"title":"x"}`)
		try(404, "GET", "/repos/acme/api", "")
		try(404, "GET", "/repos/acme/nope", "")
		try(200, "GET", "/repos/acme/open", "")
		try(200, "GET", "/rate_limit", "")
		b.clock.Advance(time.Hour - time.Second)
		try(200, "GET", "/installation/repositories", "")
		b.clock.Advance(time.Second)
		try(401, "GET", "/installation/repositories", "")
		try(401, "DELETE", "/installation/token", "")
		if token = b.mint(`{"repository_ids":[1],"permissions":{"issues":"write"}}`); b.Living() != 1 {
			t.Errorf("%d live", b.Living())
		}
		try(201, "POST", "/repos/acme/web/issues", `{"title":"x"}`)
		if got, _, _ := b.do("DELETE", "/installation/token", "Bearer "+token, ""); got != 204 || b.Living() != 0 {
			t.Errorf("revoking answered %d, %d live", got, b.Living())
		}
		try(401, "GET", "/repos/acme/web", "")
		try(401, "DELETE", "/installation/token", "")
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	token := b.mint("")
	reset := b.clock.Now().Add(time.Minute)
	b.Budget(1, reset)
	for i, want := range []int{200, 403, 403} {
		got, _, h := b.do("GET", "/installation/repositories", "Bearer "+token, "")
		if got != want || h.Get("X-RateLimit-Remaining") != "0" || h.Get("X-RateLimit-Reset") != fmt.Sprint(reset.Unix()) {
			t.Errorf("call %d: %d %v", i, got, h)
		}
	}
	b.clock.Set(reset)
	if got, _, h := b.do("GET", "/installation/repositories", "Bearer "+token, ""); got != 200 || h.Get("X-RateLimit-Remaining") == "0" {
		t.Errorf("after the reset: %d", got)
	}
}

// TestUndocumentedIsNoticed: requests and responses that GitHub does not document fail the
// test that made them.
func TestUndocumentedIsNoticed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		method, path, body string
	}{
		"ids that are text":  {"POST", "/app/installations/11/access_tokens", `{"repository_ids":["1"]}`},
		"unknown level":      {"POST", "/app/installations/11/access_tokens", `{"permissions":{"contents":"admin"}}`},
		"unknown permission": {"POST", "/app/installations/11/access_tokens", `{"permissions":{"content":"read"}}`},
		"unknown member":     {"POST", "/app/installations/11/access_tokens", `{"repository_id":[1]}`},
		"no number":          {"GET", "/app/installations/eleven", ``},
	} {
		hears := &listener{T: t}
		b := newBed(t)
		b.Server = githubtest.New(hears, githubtest.Config{Now: b.clock.Now})
		b.do(tt.method, tt.path, "Bearer "+b.jwt(), tt.body)
		if hears.count() == 0 {
			t.Errorf("%s: nobody noticed", name)
		}
	}
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	if got := githubtest.Permissions()["repository_projects"]; !slices.Equal(got, []string{"read", "write", "admin"}) {
		t.Errorf("%v", got)
	}
}
