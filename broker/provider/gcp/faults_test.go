package gcp_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/gcp"
)

func hangAt(suffix string, asked chan<- struct{}, stop <-chan struct{}) func(http.ResponseWriter, *http.Request) bool {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, suffix) {
			return false
		}
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case asked <- struct{}{}:
		default:
		}
		select {
		case <-stop:
		case <-r.Context().Done():
		}
		return true
	}
}

func answerAt(suffix string, code int, text string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, suffix) {
			return false
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte(text))
		return true
	}
}

// TestFaults makes each step fail in each way. No token is issued, and the error is correct:
// after generateAccessToken a token exists, so no error may claim that none was made.
func TestFaults(t *testing.T) {
	t.Parallel()
	const login, generate, exchange = "/token", ":generateAccessToken", "/v1/token"
	for name, tt := range map[string]struct {
		code    int
		text    string
		refused []string // steps where it is a refusal
		busy    bool
	}{
		"garbage": {code: 200, text: "{{{"}, "empty": {code: 200, text: ""}, "null": {code: 200, text: "null"}, "no members": {code: 200, text: "{}"},
		"a list": {code: 200, text: "[]"}, "a login page": {code: 200, text: "<html>"}, "deep": {code: 200, text: strings.Repeat("[", 20000)},
		"another type": {code: 200, text: `{"access_token":"x","token_type":"MAC","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","expires_in":60}`},
		"numbers":      {code: 200, text: `{"access_token":1,"accessToken":1,"expireTime":1}`},
		"huge":         {code: 200, text: strings.Repeat("x", 300<<10)},
		"created":      {code: 201, text: "{}"},
		"500":          {code: 500, text: `{"error":{"status":"INTERNAL"}}`}, "503": {code: 503, text: "upstream"}, "redirect": {code: 307, text: ""},
		"403":             {code: 403, text: `{"error":{"code":403,"status":"PERMISSION_DENIED","message":"Bearer login-canary ya29.canary"}}`, refused: []string{generate}},
		"404":             {code: 404, text: `{"error":{"status":"NOT_FOUND"}}`, refused: []string{generate}},
		"400":             {code: 400, text: `{"error":{"status":"INVALID_ARGUMENT"}}`, refused: []string{generate}},
		"invalid_grant":   {code: 400, text: `{"error":"invalid_grant","error_description":"canary"}`, refused: []string{login}},
		"401":             {code: 401, text: `{"error":{"status":"UNAUTHENTICATED"}}`, refused: []string{generate}},
		"401 of a proxy":  {code: 401, text: "who?"},
		"a strange error": {code: 400, text: `{"error":"canary canary"}`}, "an error that is a number": {code: 400, text: `{"error":7}`},
		"429": {code: 429, text: `{"error":{"status":"RESOURCE_EXHAUSTED"}}`, busy: true},
	} {
		for _, at := range []string{login, generate, exchange} {
			g := newGoogle(t)
			fault := answerAt(at, tt.code, tt.text)
			g.set(func() {
				g.fault = func(w http.ResponseWriter, r *http.Request) bool {
					if at == login && r.URL.Path == exchange {
						return false
					}
					w.Header().Set("Location", "http://127.0.0.1:1/")
					return fault(w, r)
				}
			})
			c, err := driver(t, configFor(t, g), nil).Mint(t.Context(), grant("gcp:lake/a/**:read", 5*time.Minute))
			if err == nil || !c.Token.Empty() {
				t.Errorf("%s at %s: minted", name, at)
				continue
			}
			want := false
			for _, step := range tt.refused {
				want = want || step == at
			}
			if errors.Is(err, provider.ErrRefused) != want {
				t.Errorf("%s at %s: %v", name, at, err)
			}
			if _, busy := errors.AsType[*provider.BusyError](err); busy != (tt.busy && at != exchange) {
				t.Errorf("%s at %s: busy %v: %v", name, at, busy, err)
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("%s at %s: a secret is in %v", name, at, err)
			}
		}
	}
}

func TestSlowAndCutAnswers(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	defer close(stop)
	for _, at := range []string{"/token", ":generateAccessToken", "/v1/token"} {
		cut := func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, at) {
				return false
			}
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(`{"accessToken":"ya29.x","access_token":"`))
			return true
		}
		for name, fault := range map[string]func(http.ResponseWriter, *http.Request) bool{"hang": hangAt(at, nil, stop), "cut": cut} {
			g := newGoogle(t)
			g.set(func() { g.fault = fault })
			c := configFor(t, g)
			c.Timeout = 300 * time.Millisecond
			if _, err := driver(t, c, nil).Mint(t.Context(), grant("gcp:lake/a:read", time.Minute)); err == nil || errors.Is(err, provider.ErrRefused) {
				t.Errorf("%s at %s: %v", name, at, err)
			}
		}
	}
}

// TestTokenThatIsNotNarrowed: an exchange that returns the same token has not narrowed it, so
// the mint fails.
func TestTokenThatIsNotNarrowed(t *testing.T) {
	t.Parallel()
	g := newGoogle(t)
	g.set(func() {
		g.shape = func(p string, a map[string]any) {
			if p == "/v1/token" {
				a["access_token"] = "ya29.wide-canary-2"
			}
		}
	})
	c, err := driver(t, configFor(t, g), nil).Mint(t.Context(), grant("gcp:lake/a:read", time.Minute))
	if err == nil || !strings.Contains(err.Error(), "unnarrowed token") || !c.Token.Empty() {
		t.Errorf("Mint = %v", err)
	}
}

func TestConfigProblemsAllAtOnce(t *testing.T) {
	t.Parallel()
	_, err := gcp.New("gcp", gcp.Config{
		KeyFile: filepath.Join(t.TempDir(), "none"), Metadata: true, MaxLifetime: "13h",
		Buckets: map[string]gcp.Bucket{
			"A b": {ServiceAccount: "me@example.com", Actions: map[string]gcp.Action{"Read": {Role: "storage.objectViewer"}}}, "none": {ServiceAccount: reader},
		},
		Grants: map[string]map[string]gcp.Account{
			"x/*": {"read": {ServiceAccount: "../x", Scopes: []string{"bigquery"}}}, "none/y": {"read": {ServiceAccount: reader, Scopes: []string{cloudPlatform}}}, "z": {},
		},
		Endpoints: gcp.Endpoints{STS: "http://sts.example", IAM: "https://user@iam.example", Metadata: "http://10.0.0.1"},
	}, nil)
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{
		"key_file or metadata", "key_file:", "max_lifetime", `"A b"`, `"Read" is not an action`, "buckets.A b.service_account", ".role:", "buckets.none.actions",
		`"x/*"`, "grants.x/*.read.service_account", "grants.x/*.read.scopes", `"none" is a bucket`, "grants.z", "endpoints.sts", "endpoints.iam", "endpoints.metadata",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	good := keyFile(t, "k")
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(map[string]string){
		"another type":   func(m map[string]string) { m["type"] = "external_account" },
		"no address":     func(m map[string]string) { delete(m, "client_email") },
		"no id":          func(m map[string]string) { delete(m, "private_key_id") },
		"no key":         func(m map[string]string) { m["private_key"] = "canary" },
		"another's file": func(m map[string]string) { m["client_email"] = "canary@example.com" },
	} {
		var m map[string]string
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		change(m)
		doc, _ := json.Marshal(m)
		if err := os.WriteFile(good, doc, 0o600); err != nil {
			t.Fatal(err)
		}
		c := configFor(t, newGoogle(t))
		c.KeyFile = good
		if _, err := gcp.New("gcp", c, nil); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSetupIsJudged(t *testing.T) {
	t.Parallel()
	g := newGoogle(t)
	d := driver(t, configFor(t, g), nil)
	if f := d.CheckSetup(t.Context()); len(f) != 0 {
		t.Errorf("a good set-up: %+v", f)
	}
	g.set(func() { delete(g.may, other) })
	if f := d.CheckSetup(t.Context()); len(f) != 1 || !f[0].Fatal || !strings.Contains(f[0].Remedy, "add-iam-policy-binding "+other) {
		t.Errorf("without a right: %+v", f)
	}
	g.set(func() { g.fault = answerAt(":testIamPermissions", 403, "{}") })
	if f := d.CheckSetup(t.Context()); len(f) != 3 || f[0].Fatal {
		t.Errorf("where it cannot be seen: %+v", f)
	}
	g.set(func() { g.fault = answerAt("/token", 400, `{"error":"invalid_grant"}`) })
	if f := driver(t, configFor(t, g), nil).CheckSetup(t.Context()); len(f) != 1 || !f[0].Fatal {
		t.Errorf("without a login: %+v", f)
	}
}
