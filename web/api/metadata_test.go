package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/api"
)

func TestRFC_A98_A99_Metadata(t *testing.T) {
	t.Parallel()
	for _, issuer := range []string{"https://ebb.test", "https://ebb.test/base", "https://ebb.test:8443/a/b", "http://127.0.0.1:8420"} {
		r := newRig(t, options{broker: brokertest.Config{Issuer: issuer}, loose: true})
		u, err := url.Parse(issuer)
		if err != nil {
			t.Fatal(err)
		}
		origin := strings.TrimSuffix(issuer, u.Path)
		var docs []string
		for _, at := range []string{
			origin + "/.well-known/oauth-authorization-server" + u.Path, // RFC 8414 section 3.1: inserted
			issuer + "/.well-known/openid-configuration",                // OpenID Connect Discovery: appended
		} {
			req := r.request(http.MethodGet, "", nil)
			req.URL, _ = url.Parse(at)
			req.RequestURI = req.URL.RequestURI()
			a := r.do(t, req)
			if a.status != 200 || a.text("issuer") != issuer || a.header.Get("Content-Type") != "application/json" {
				t.Fatalf("%s: %d %s", at, a.status, a.body)
			}
			docs = append(docs, a.body)
			r.everyURLAnswers(t, a)
		}
		if docs[0] != docs[1] {
			t.Errorf("%s: the two documents differ", issuer)
		}
	}
}

// everyURLAnswers requests every advertised URL; all must exist.
func (r *rig) everyURLAnswers(t testing.TB, a *answer) {
	t.Helper()
	for name, v := range a.json {
		switch v := v.(type) {
		case []any:
			if len(v) == 0 && name != "response_types_supported" {
				t.Errorf("A99: %s is empty and should be left out", name)
			}
		case string:
			if name == "issuer" {
				continue
			}
			u, err := url.Parse(v)
			if err != nil {
				t.Fatal(err)
			}
			method := http.MethodGet
			if strings.HasSuffix(name, "_endpoint") && name != "authorization_endpoint" {
				method = http.MethodPost
			}
			req := r.request(method, "", nil)
			req.URL, req.RequestURI = u, u.RequestURI()
			if got := r.do(t, req); got.status == 404 || got.status == 405 || got.status >= 500 {
				t.Errorf("A99: %s %s answers %d", name, v, got.status)
			}
		}
	}
}

func TestRFC_A99_OnlyWhatIsThere(t *testing.T) {
	t.Parallel()
	pure := newRig(t, options{}).do(t, newRig(t, options{}).request("GET", "/.well-known/oauth-authorization-server", nil))
	for _, absent := range []string{
		"tls_client_certificate_bound_access_tokens", "registration_endpoint", "userinfo_endpoint"} {
		if pure.json[absent] != nil {
			t.Errorf("%s is advertised", absent)
		}
	}
	if strings.Contains(pure.body, "none\"") && strings.Contains(detailsText(t, pure.json["token_endpoint_auth_signing_alg_values_supported"]), "none") {
		t.Error("alg none is advertised")
	}
	r := newRig(t, options{})
	for _, g := range pure.json["grant_types_supported"].([]any) {
		a := r.post(t, tokenURL, url.Values{"grant_type": {g.(string)}})
		if a.text("error") == "unsupported_grant_type" {
			t.Errorf("%s is advertised and not supported", g)
		}
	}
}

// D2: RFC 8414 and MCP clients require members of a code flow, which ebb does
// not have. The metadata has them, without a response type, and the
// authorization endpoint refuses and never redirects.
func TestNoCodeFlow(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{mtls: true})
	a := r.do(t, r.request("GET", "/.well-known/oauth-authorization-server", nil))
	if a.text("authorization_endpoint") != brokertest.Issuer+"/oauth2/authorize" ||
		detailsText(t, a.json["response_types_supported"]) != `[]` || detailsText(t, a.json["code_challenge_methods_supported"]) != `["S256"]` ||
		a.json["tls_client_certificate_bound_access_tokens"] != true {
		t.Errorf("%s", a.body)
	}
	if strings.Contains(detailsText(t, a.json["grant_types_supported"]), "authorization_code") {
		t.Error("authorization_code is advertised")
	}
	for _, query := range []string{"", "?response_type=code&client_id=x&redirect_uri=https://evil.test/", "?response_type=none&redirect_uri=https://evil.test/"} {
		refused := r.do(t, r.request("GET", "/oauth2/authorize"+query, nil))
		refused.want(t, "authorize"+query, 400, "unauthorized_client")
		if at := refused.header.Get("Location"); at != "" {
			t.Errorf("authorize%s redirects to %s", query, at)
		}
	}
}

func TestRFC_A100_ResourceMetadata(t *testing.T) {
	t.Parallel()
	for issuer, at := range map[string]string{
		"https://ebb.test":      "/.well-known/oauth-protected-resource/v1",
		"https://ebb.test/base": "/.well-known/oauth-protected-resource/base/v1",
	} {
		r := newRig(t, options{broker: brokertest.Config{Issuer: issuer}, loose: true})
		req := r.request(http.MethodGet, "", nil)
		req.URL, _ = url.Parse("https://ebb.test" + at)
		req.RequestURI = at
		a := r.do(t, req)
		if a.status != 200 || a.text("resource") != issuer+"/v1" || detailsText(t, a.json["authorization_servers"]) != `["`+issuer+`"]` {
			t.Errorf("%s: %d %s", at, a.status, a.body)
		}
	}
}

func TestDocumentsAreCached(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	for _, path := range []string{"/.well-known/oauth-authorization-server", "/openapi.yaml", "/openapi.json", "/.well-known/oauth-protected-resource/v1"} {
		a := r.do(t, r.request("GET", path, nil))
		tag := a.header.Get("ETag")
		if a.status != 200 || tag == "" || !strings.Contains(a.header.Get("Cache-Control"), "max-age=") {
			t.Errorf("%s: %d %v", path, a.status, a.header)
		}
		req := r.request("GET", path, nil)
		req.Header.Set("If-None-Match", tag)
		if a := r.do(t, req); a.status != 304 || a.body != "" {
			t.Errorf("%s: %d, want 304", path, a.status)
		}
	}
}

func TestProblemPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	for _, k := range web.Kinds() {
		a := r.do(t, r.request("GET", "/problems/"+string(k), nil))
		if a.status != 200 || a.text("type") != brokertest.Issuer+"/problems/"+string(k) || a.text("title") == "" {
			t.Errorf("%s: %d %s", k, a.status, a.body)
		}
	}
	r.do(t, r.request("GET", "/problems/none", nil)).problem(t, "an unknown type", 404, "not_found")
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	other, err := web.New(web.Config{PublicURL: "https://other.test"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.New(api.Config{Broker: r.env.Broker, Mux: other}); err == nil || !strings.Contains(err.Error(), "https://other.test") {
		t.Errorf("a public URL that is not the issuer: %v", err)
	}
	if _, err := api.New(api.Config{}); err == nil {
		t.Error("an empty Config was accepted")
	}
}
