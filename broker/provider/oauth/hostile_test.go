package oauth_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/oauth"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

func refused(t *testing.T, err error, says string) {
	t.Helper()
	re, ok := errors.AsType[*provider.RefusedError](err)
	if !ok || !strings.Contains(re.Public, says) {
		t.Errorf("got %v, want a refusal that says %q", err, says)
	}
}

// at is a driver whose server answers everything with f.
func at(t *testing.T, f http.HandlerFunc, change func(*oauth.Config)) (provider.Driver, *memory) {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	c := oauth.Config{
		TokenEndpoint: s.URL + "/token", RevocationEndpoint: s.URL + "/revoke", IntrospectionEndpoint: s.URL + "/introspect",
		Client: oauth.Client{ID: "ebb:1", Auth: "client_secret_basic", SecretFile: file(t, "canary secret%")},
		Grants: map[string]oauth.Grant{"drive": {RefreshToken: "ann", Actions: map[string]string{"read": "files.read"}}},
	}
	if change != nil {
		change(&c)
	}
	m := &memory{v: map[string]secret.Secret{"ann": secret.New("canary-refresh-1")}}
	return driver(t, c, m), m
}

func body(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}
}

const good = `"access_token":"canary-access","token_type":"bearer","expires_in":600`

// TestAnswers: for every response of the server, the driver issues only what was requested, and
// its errors contain no secret. handle states that a token exists, which the broker must revoke.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer  string
		ok      bool
		handle  bool
		refresh string // afterwards in the secret store
	}{
		"plain":            {answer: `{` + good + `}`, ok: true, handle: true},
		"same scope":       {answer: `{` + good + `,"scope":"files.read"}`, ok: true, handle: true},
		"unknown members":  {answer: `{` + good + `,"x":{"y":[1]}}`, ok: true, handle: true},
		"rotated":          {answer: `{` + good + `,"refresh_token":"canary-refresh-2"}`, ok: true, handle: true, refresh: "canary-refresh-2"},
		"wider":            {answer: `{` + good + `,"scope":"files.read files.write","refresh_token":"canary-refresh-2"}`, handle: true, refresh: "canary-refresh-2"},
		"other scope":      {answer: `{` + good + `,"scope":"admin"}`, handle: true},
		"no scope":         {answer: `{` + good + `,"scope":""}`, handle: true},
		"mac":              {answer: `{"access_token":"canary-access","token_type":"mac","expires_in":600}`, handle: true},
		"no type":          {answer: `{"access_token":"canary-access","expires_in":600}`, handle: true},
		"no lifetime":      {answer: `{"access_token":"canary-access","token_type":"bearer"}`, handle: true},
		"negative":         {answer: `{"access_token":"canary-access","token_type":"bearer","expires_in":-5}`, handle: true},
		"text":             {answer: `{"access_token":"canary-access","token_type":"bearer","expires_in":"600"}`, ok: true, handle: true}, // json.Number reads it; servers send it
		"fraction":         {answer: `{"access_token":"canary-access","token_type":"bearer","expires_in":1.5}`, handle: true},
		"huge":             {answer: `{"access_token":"canary-access","token_type":"bearer","expires_in":99999999999999}`, handle: true},
		"header injection": {answer: `{"access_token":"canary\r\nX: y","token_type":"bearer","expires_in":600}`, handle: true},
		"no token":         {answer: `{"token_type":"bearer","expires_in":600}`},
		"number":           {answer: `{"access_token":7,"token_type":"bearer"}`},
		"array":            {answer: `[]`},
		"null":             {answer: `null`},
		"twice":            {answer: `{` + good + `}{}`},
		"cut":              {answer: `{"access_token":"canary-acc`},
		"nothing":          {},
		"too large":        {answer: `{"x":"` + strings.Repeat("canary", 60000) + `"}`},
	} {
		d, m := at(t, body(http.StatusOK, c.answer), nil)
		cred, err := d.Mint(t.Context(), grant("files:drive:read"))
		if (err == nil) != c.ok || cred.Handle.Empty() == c.handle {
			t.Errorf("%s: Mint = %v, handle %v", name, err, !cred.Handle.Empty())
		}
		if err != nil && (strings.Contains(err.Error(), "canary") || errors.Is(err, provider.ErrRefused) || !cred.Token.Empty()) {
			t.Errorf("%s: Mint = %v", name, err)
		}
		want := c.refresh
		if want == "" {
			want = "canary-refresh-1"
		}
		if got := m.v["ann"].Reveal(); got != want {
			t.Errorf("%s: the secret store holds %q", name, got)
		}
	}
}

func TestErrorsOfTheServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		text   string
		says   string // part of the refusal's text; "" when the outcome is unknown
	}{
		"grant":   {400, `{"error":"invalid_grant","error_description":"canary"}`, "renew it"},
		"scope":   {400, `{"error":"invalid_scope"}`, "does not grant"},
		"client":  {401, `{"error":"invalid_client"}`, "refuses the broker"},
		"strange": {400, `{"error":"canary\u0000"}`, ""},
		"garbage": {404, `<html>canary`, ""},
		"bare":    {400, ``, ""},
		"bare401": {401, `{}`, ""},
		"late":    {408, `{"error":"invalid_request"}`, ""},
		"500":     {500, `{"error":"server_error"}`, ""},
		"500in4":  {400, `{"error":"temporarily_unavailable"}`, ""},
		"grant5":  {503, `{"error":"invalid_grant"}`, ""},
		"away":    {302, "", ""},
	} {
		d, _ := at(t, body(c.status, c.text), nil)
		_, err := d.Mint(t.Context(), grant("files:drive:read"))
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: Mint = %v", name, err)
		}
		if c.says != "" {
			refused(t, err, c.says)
		} else if errors.Is(err, provider.ErrRefused) {
			t.Errorf("%s: %v claims to know", name, err)
		}
		if err := d.Revoke(t.Context(), targetOf(grant("files:drive:read"), provider.Credential{Handle: secret.New("x")})); err == nil {
			t.Errorf("%s: Revoke succeeds", name)
		}
	}
	page, _ := at(t, body(http.StatusOK, "\n<!DOCTYPE html><title>Sign in</title>canary"), nil)
	if err := page.Revoke(t.Context(), targetOf(grant("files:drive:read"), provider.Credential{Handle: secret.New("x")})); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("a page for people: Revoke = %v", err)
	}
	for status, busy := range map[int]bool{429: true, 503: false} {
		d, _ := at(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
		}, nil)
		_, err := d.Mint(t.Context(), grant("files:drive:read"))
		be, ok := errors.AsType[*provider.BusyError](err)
		if ok != busy || busy && be.After != 7*time.Second || errors.Is(err, provider.ErrRefused) {
			t.Errorf("%d: Mint = %v", status, err)
		}
	}
}

// TestRequests: the requests to the server have the form of RFC 6749, for each method of
// client authentication.
func TestRequests(t *testing.T) {
	t.Parallel()
	for _, auth := range []string{"client_secret_basic", "client_secret_post", "none"} {
		d, _ := at(t, func(w http.ResponseWriter, r *http.Request) {
			_ = r.ParseForm()
			user, pass, basic := r.BasicAuth()
			got := fmt.Sprintf("%v %s %s %v %v %v %v %v %s", basic, user, pass, r.PostForm["client_id"], r.PostForm["client_secret"], r.PostForm["grant_type"], r.PostForm["refresh_token"], r.PostForm["scope"], r.URL.RawQuery)
			want := map[string]string{
				"client_secret_basic": "true ebb%3A1 canary+secret%25 [] [] [refresh_token] [canary-refresh-1] [files.read] ",
				"client_secret_post":  "false   [ebb:1] [canary secret%] [refresh_token] [canary-refresh-1] [files.read] ",
				"none":                "false   [ebb:1] [] [refresh_token] [canary-refresh-1] [files.read] ",
			}[auth]
			if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") || r.Method != http.MethodPost {
				t.Errorf("%s: the server got %s %q, want %q", auth, r.Method, got, want)
			}
			_, _ = w.Write([]byte(`{` + good + `}`))
		}, func(c *oauth.Config) {
			c.Client.Auth = auth
			if auth == "none" {
				c.Client.SecretFile = ""
			}
		})
		if _, err := d.Mint(t.Context(), grant("files:drive:read")); err != nil {
			t.Error(err)
		}
	}
}

// TestHonestClasses: the driver's class does not claim that a token can be revoked when the
// resource servers verify it themselves, or when the authorization server has no revocation.
func TestHonestClasses(t *testing.T) {
	t.Parallel()
	jwt := body(http.StatusOK, `{"access_token":"eyJhbGciOiJub25lIn0.e30.x","token_type":"Bearer","expires_in":600}`)
	d, _ := at(t, jwt, nil)
	c, err := d.Mint(t.Context(), grant("files:drive:read"))
	if err != nil || c.Revocability.Class != provider.ClassTTLOnly || d.Traits().Revocability.Class != provider.ClassEventual {
		t.Errorf("a JWT: %v, class %q", err, c.Revocability.Class)
	}
	d, _ = at(t, body(http.StatusOK, `{`+good+`}`), func(c *oauth.Config) { c.RevocationEndpoint, c.IntrospectionEndpoint = "", "" })
	if d.Traits().Revocability.Class != provider.ClassTTLOnly {
		t.Errorf("without revocation the class is %q", d.Traits().Revocability.Class)
	}
	if _, ok := d.(provider.Prober); ok {
		t.Error("without introspection it probes")
	}
	if err := d.Revoke(t.Context(), targetOf(grant("files:drive:read"), provider.Credential{})); !errors.Is(err, provider.ErrLost) {
		t.Errorf("a lost answer = %v", err)
	}
	for _, text := range []string{`{}`, `{"active":"no"}`, `[]`, `{"active":false`, ``} {
		d, _ := at(t, body(http.StatusOK, text), nil)
		if alive, err := d.(provider.Prober).Probe(t.Context(), targetOf(grant("files:drive:read"), provider.Credential{Handle: secret.New("x")})); err == nil { //nolint:forcetypeassert // a test
			t.Errorf("introspection answered %q: %v is taken for a proof", text, alive)
		}
	}
}

func TestHangs(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	d, _ := at(t, func(http.ResponseWriter, *http.Request) { <-stop }, nil)
	defer close(stop)
	done := make(chan error, 1)
	go func() { _, err := d.Mint(t.Context(), grant("files:drive:read")); done <- err }()
	select {
	case err := <-done:
		if err == nil || errors.Is(err, provider.ErrRefused) {
			t.Errorf("Mint = %v", err)
		}
	case <-time.After(2 * time.Minute): // the call's own bound is 10 s
		t.Error("a server that hangs holds a worker for ever")
	}
}

//ebb:invariant I6 A configuration that uses a client certificate for an OAuth endpoint over unencrypted HTTP is refused
func TestChecks(t *testing.T) {
	t.Parallel()
	d, _ := at(t, body(http.StatusOK, ""), nil)
	for _, bad := range []string{"files:drive:*", "files:*:read", "files:drive/1:read", "files:drive:write"} {
		if err := d.Check(scopes.MustParseSet(bad)); !errors.Is(err, provider.ErrUnsupported) {
			t.Errorf("Check(%s) = %v", bad, err)
		}
	}
	good := func() oauth.Config {
		return oauth.Config{
			TokenEndpoint: "https://op.test/token", Client: oauth.Client{ID: "ebb", Auth: "none"},
			Grants: map[string]oauth.Grant{"drive": {RefreshToken: "ann", Actions: map[string]string{"read": "files.read"}}},
		}
	}
	if _, err := oauth.New("files", good(), &memory{}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := oauth.New("files", good(), nil, nil); err == nil {
		t.Error("a refresh token without a secret store is accepted")
	}
	for name, spoil := range map[string]func(*oauth.Config){
		"http":                            func(c *oauth.Config) { c.TokenEndpoint = "http://op.test/token" },
		"query":                           func(c *oauth.Config) { c.RevocationEndpoint = "https://op.test/r?a=b" },
		"fragment":                        func(c *oauth.Config) { c.IntrospectionEndpoint = "https://op.test/i#" },
		"user":                            func(c *oauth.Config) { c.TokenEndpoint = "https://u:p@op.test/token" },
		"none":                            func(c *oauth.Config) { c.TokenEndpoint = "" },
		"client":                          func(c *oauth.Config) { c.Client.ID = "" },
		"auth":                            func(c *oauth.Config) { c.Client.Auth = "tls" },
		"no secret":                       func(c *oauth.Config) { c.Client.Auth = "client_secret_basic" },
		"no certificate":                  func(c *oauth.Config) { c.Client.Auth = "tls_client_auth" },
		"a certificate that is not shown": func(c *oauth.Config) { c.Client.CertificateFile = "/x" },
		"two ways": func(c *oauth.Config) {
			c.Client = oauth.Client{ID: "ebb", Auth: "self_signed_tls_client_auth", CertificateFile: "/x", SecretFile: "/y"}
		},
		"a certificate in the clear": func(c *oauth.Config) {
			c.Client = oauth.Client{ID: "ebb", Auth: "tls_client_auth", CertificateFile: "/x"}
			c.RevocationEndpoint = "http://127.0.0.1/revoke"
		},
		"lone secret": func(c *oauth.Config) { c.Client.SecretFile = "/x" },
		"own":         func(c *oauth.Config) { c.Grants["x"] = oauth.Grant{Actions: map[string]string{"read": "a"}} },
		"pattern":     func(c *oauth.Config) { c.Grants["*"] = c.Grants["drive"] },
		"name": func(c *oauth.Config) {
			c.Grants["x"] = oauth.Grant{RefreshToken: "../x", Actions: map[string]string{"read": "a"}}
		},
		"scope":       func(c *oauth.Config) { c.Grants["drive"].Actions["read"] = `a"b` },
		"empty scope": func(c *oauth.Config) { c.Grants["drive"].Actions["read"] = "" },
		"no actions":  func(c *oauth.Config) { c.Grants["x"] = oauth.Grant{RefreshToken: "x"} },
		"bound":       func(c *oauth.Config) { c.RevocationBound = -1 },
		"ca":          func(c *oauth.Config) { c.CAFile = "/nowhere" },
	} {
		c := good()
		spoil(&c)
		if _, err := oauth.New("files", c, &memory{}, nil); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
