package console_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/signin"
	"github.com/ebb-broker/ebb/web/signin/oidc"
)

// badOP is an OpenID provider whose responses a test controls.
type badOP struct {
	*httptest.Server
	issuer    *attesttest.Issuer
	beside    []any          // published in addition to the issuer's keys
	discovery map[string]any // nil value = absent
	status    int            // of the token endpoint
	asked     url.Values     // from the redirect of the last sign-in
	token     func() string  // ID token of the token endpoint
	body      string         // in place of it
	info      string         // user info
	at        *attesttest.Clock
}

func newOP(t *testing.T) *badOP {
	t.Helper()
	clock := attesttest.NewClock()
	clock.Set(time.Now().Truncate(time.Second))
	o := &badOP{at: clock, issuer: attesttest.NewIssuer(t, clock), discovery: map[string]any{}, status: http.StatusOK, info: `{"sub":"ann"}`}
	mux := http.NewServeMux()
	o.Server = httptest.NewServer(mux)
	t.Cleanup(o.Close)
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		d := map[string]any{"issuer": o.URL, "authorization_endpoint": o.URL + "/auth", "token_endpoint": o.URL + "/token", "jwks_uri": o.URL + "/keys",
			"userinfo_endpoint": o.URL + "/info", "id_token_signing_alg_values_supported": []string{"ES256", "none", "HS256"}}
		maps.Copy(d, o.discovery)
		_ = json.NewEncoder(w).Encode(d)
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		var set struct {
			Keys []any `json:"keys"`
		}
		if err := json.Unmarshal(o.issuer.JWKS(), &set); err != nil {
			t.Error(err)
		}
		set.Keys = append(set.Keys, o.beside...)
		_ = json.NewEncoder(w).Encode(set)
	})
	mux.HandleFunc("GET /info", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(o.info))
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		if id != "ebb" || secret != "hush" || base64.RawURLEncoding.EncodeToString(sum[:]) != o.asked.Get("code_challenge") {
			t.Errorf("the token endpoint was asked by %q with %v", id, r.PostForm)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(o.status)
		if o.body != "" {
			_, _ = w.Write([]byte(o.body))
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "at", "token_type": "Bearer", "id_token": o.token()})
	})
	return o
}

// claims returns the claims of a valid token, changed.
func (o *badOP) claims(change attesttest.Claims) attesttest.Claims {
	c := attesttest.Claims{"iss": o.URL, "aud": "ebb", "sub": "ann", "name": "Ann Ü", "nonce": o.asked.Get("nonce"), "groups": []string{"approvers", "web"}, "auth_time": o.at.Now().Unix(), "acr": "pwd",
		"at_hash": "sda5G2fCr6XjIpiNlGJjjQ"} // of the access token "at"
	maps.Copy(c, change)
	return c
}

func (o *badOP) method(t *testing.T, change func(*oidc.Config)) func(*fixture) signin.Method {
	return func(h *fixture) signin.Method {
		c := oidc.Config{Base: h.Issuer, Key: h.Ring.Derive("console-oidc"), Name: "sso", Issuer: o.URL, ClientID: "ebb", ClientSecret: secret.New("hush"), Now: h.Clock.Now,
			Roles: broker.RoleGroups{broker.RoleApprover: {{Group: "approvers"}}, broker.RoleAuditor: {{Group: "audit"}}}}
		if change != nil {
			change(&c)
		}
		m, err := oidc.New(c)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
}

func (o *badOP) fixture(t *testing.T, change func(*oidc.Config)) *fixture {
	return newFixture(t, brokertest.Config{Start: o.at.Now()}, o.method(t, change))
}

// out starts a sign-in and stores the parameters sent to the provider.
func (o *badOP) out(t *testing.T, b *browser, path string) {
	t.Helper()
	a := b.get(path)
	a.is(t, http.StatusSeeOther)
	u, err := url.Parse(a.Header.Get("Location"))
	if err != nil || !strings.HasPrefix(u.String(), o.URL+"/auth?") {
		t.Fatalf("led to %s", u)
	}
	o.asked = u.Query()
}

func (o *badOP) back(b *browser, change url.Values) answer {
	q := url.Values{"state": {o.asked.Get("state")}, "code": {"c"}}
	for name, values := range change {
		if q.Del(name); len(values) > 0 {
			q[name] = values
		}
	}
	return b.do(http.MethodGet, "/signin/oidc/callback?"+q.Encode(), nil, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") })
}

// signIn is one sign-in with a token with these claims.
func (o *badOP) signIn(t *testing.T, b *browser, change attesttest.Claims) answer {
	t.Helper()
	return o.signInBy(t, b, "/signin/oidc", change)
}

// signInBy signs in by a link to this path.
func (o *badOP) signInBy(t *testing.T, b *browser, path string, change attesttest.Claims) answer {
	t.Helper()
	o.out(t, b, path)
	o.token = func() string { return o.issuer.Token(o.claims(change)) }
	return o.back(b, nil)
}

func TestOIDC(t *testing.T) {
	t.Parallel()
	o := newOP(t)
	h := o.fixture(t, nil)
	b := h.browser()
	b.get("/settings").is(t, http.StatusSeeOther)
	b.get("/signin").is(t, http.StatusOK, "Sign in with sso", `href="/signin/oidc"`)
	a := o.signIn(t, b, nil)
	a.is(t, http.StatusSeeOther)
	if a.Header.Get("Location") != "/settings" {
		t.Errorf("led to %s", a.Header.Get("Location"))
	}
	if q := o.asked; q.Get("code_challenge_method") != "S256" || q.Get("response_type") != "code" || q.Get("redirect_uri") != h.Issuer+"/signin/oidc/callback" || len(q.Get("state")) < 32 ||
		len(q.Get("nonce")) < 32 || q.Get("state") == q.Get("nonce") || q.Get("max_age") != "28800" || q.Has("acr_values") {
		t.Errorf("asked %v", q)
	}
	b.get("/settings").is(t, http.StatusOK, "Ann Ü", "sso:ann", "approver", "web", "by oidc (pwd)")
	// The callback is accepted once: the cookie is deleted.
	o.back(b, nil).is(t, http.StatusUnauthorized)
}

// TestOIDCInFIPSMode: sign-in at a provider that publishes certificates with
// its keys, as most do, works without SHA-1.
func TestOIDCInFIPSMode(t *testing.T) {
	if !counterpart.FIPSOnly(t) {
		return
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	o := newOP(t)
	jwk := attesttest.PublicJWK(t, key)
	jwk["kid"], jwk["x5c"] = "with a certificate", []string{base64.StdEncoding.EncodeToString(der)}
	o.beside = []any{jwk}
	b := o.fixture(t, nil).browser()
	o.signIn(t, b, nil).is(t, http.StatusSeeOther)
	b.get("/settings").is(t, http.StatusOK, "sso:ann")
}

// TestOIDCTokens: every reason for which a token is invalid for this sign-in.
//
//ebb:invariant I7 A person cannot sign in with a name that contains characters that look like others
func TestOIDCTokens(t *testing.T) {
	t.Parallel()
	o := newOP(t)
	h := o.fixture(t, nil)
	now := o.at.Now().Unix()
	for name, change := range map[string]attesttest.Claims{
		"iss":             {"iss": "https://evil.test"},
		"no iss":          {"iss": nil},
		"aud":             {"aud": "other"},
		"no aud":          {"aud": nil},
		"two auds":        {"aud": []string{"ebb", "other"}},
		"two auds, azp":   {"aud": []string{"ebb", "other"}, "azp": "ebb"},
		"azp":             {"azp": "other"},
		"nonce":           {"nonce": "x"},
		"no nonce":        {"nonce": nil},
		"expired":         {"exp": now - 1},
		"no exp":          {"exp": nil},
		"iat early":       {"iat": now - 600},
		"iat late":        {"iat": now + 600},
		"no iat":          {"iat": nil},
		"no sub":          {"sub": nil},
		"sub empty":       {"sub": ""},
		"sub hidden":      {"sub": "a\u202eb"},
		"at_hash empty":   {"at_hash": ""},
		"at_hash number":  {"at_hash": 1},
		"sub long":        {"sub": strings.Repeat("a", 300)},
		"nbf":             {"nbf": now + 3600},
		"auth_time ahead": {"auth_time": now + 600},
		"auth_time text":  {"auth_time": "yesterday"},
		"at_hash":         {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"},
		"groups a map":    {"groups": map[string]int{"approvers": 1}},
		"groups hidden":   {"groups": []string{"approvers", "a\u202eb"}},
		"groups numbers":  {"groups": []int{1}},
	} {
		b := h.browser()
		if a := o.signIn(t, b, change); a.StatusCode != http.StatusUnauthorized || b.cookies["__Host-ebb-sess"] != "" {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
	for name, change := range map[string]attesttest.Claims{
		"no role":         {"groups": []string{"web"}},
		"no groups":       {"groups": nil},
		"letter case":     {"groups": []string{"Approvers"}},
		"one in a text":   {"groups": "approvers,audit"},
		"proved long ago": {"auth_time": now - 9*3600},
		"sub with spaces": {"sub": " ann"},
		"sub look-alike":  {"sub": "\u0430nn"},
		"sub fullwidth":   {"sub": "\uff41nn"},
		"overage":         {"groups": nil, "_claim_names": map[string]string{"groups": "src1"}, "_claim_sources": map[string]any{"src1": map[string]string{"endpoint": "https://graph.test"}}},
		"hasgroups":       {"groups": nil, "hasgroups": true},
		"hasgroups text":  {"groups": nil, "hasgroups": "true"},
		"too many":        {"groups": strings.Split(strings.Repeat("g,", 2000), ",")[:1999]},
	} {
		b := h.browser()
		a := o.signIn(t, b, change)
		if a.StatusCode != http.StatusForbidden || b.cookies["__Host-ebb-sess"] != "" {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
		if strings.HasPrefix(name, "overage") && !strings.Contains(a.body, "groups_claim") {
			t.Errorf("%s does not say what to set up: %s", name, a.body)
		}
	}
	for name, header := range map[string]attesttest.Claims{"none": {"alg": "none"}, "HS256": {"alg": "HS256"}, "ES384": {"alg": "ES384"}, "crit": {"crit": []string{"b64"}, "b64": false}, "kid": {"kid": "other"}} {
		b := h.browser()
		o.out(t, b, "/signin/oidc")
		o.token = func() string { return o.issuer.TokenWith(header, o.claims(nil)) }
		if a := o.back(b, nil); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
	o.token = func() string { return o.issuer.Token(o.claims(nil)) }
	for _, kind := range []string{`"DPoP"`, `"mac"`, `""`, `7`} {
		b := h.browser()
		o.out(t, b, "/signin/oidc")
		o.body = `{"access_token":"at","token_type":` + kind + `,"id_token":"` + o.token() + `"}`
		if a := o.back(b, nil); a.StatusCode < 400 || b.cookies["__Host-ebb-sess"] != "" {
			t.Errorf("token_type %s: %d", kind, a.StatusCode)
		}
	}
	o.token = func() string { return "" }
	for _, body := range []string{"{}", `{"access_token":"x","token_type":"Bearer"}`, `{"access_token":"x","token_type":"Bearer","id_token":7}`, `{"access_token":"x","token_type":"Bearer","id_token":"a.b.c"}`} {
		b := h.browser()
		o.out(t, b, "/signin/oidc")
		o.body = body
		if a := o.back(b, nil); a.StatusCode < 400 || b.cookies["__Host-ebb-sess"] != "" {
			t.Errorf("%s: %d", body, a.StatusCode)
		}
	}
}

// TestOIDCAnswers: a link cannot sign a person in as another.
func TestOIDCAnswers(t *testing.T) {
	t.Parallel()
	o := newOP(t)
	h := o.fixture(t, nil)
	o.token = func() string { return o.issuer.Token(o.claims(nil)) }
	for name, change := range map[string]url.Values{
		"another state": {"state": {"x"}}, "no state": {"state": nil}, "two states": {"state": {"x", "y"}}, "no code": {"code": nil}, "two codes": {"code": {"a", "b"}},
		"another issuer": {"iss": {"https://evil.test"}},
	} {
		b := h.browser()
		o.out(t, b, "/signin/oidc")
		if a := o.back(b, change); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, a.StatusCode)
		}
	}
	// The callback of another person's sign-in, or of none.
	mine, theirs := h.browser(), h.browser()
	o.out(t, theirs, "/signin/oidc")
	o.back(mine, nil).is(t, http.StatusUnauthorized, "did not start in this browser")
	state := o.asked.Get("state")
	o.out(t, mine, "/signin/oidc")
	o.back(mine, url.Values{"state": {state}}).is(t, http.StatusUnauthorized)
	// Too late, and with a forged cookie.
	o.out(t, mine, "/signin/oidc")
	h.Clock.Add(10*time.Minute + time.Second)
	o.back(mine, nil).is(t, http.StatusUnauthorized)
	o.out(t, mine, "/signin/oidc")
	good := mine.cookies["__Host-ebb-oidc"]
	for _, bad := range []string{"", "x", "...", strings.ToUpper(good), strings.Replace(good, ".false.", ".true.", 1), "a.1.false." + good, good + "."} {
		mine.cookies["__Host-ebb-oidc"] = bad
		o.back(mine, nil).is(t, http.StatusUnauthorized)
	}
	// The provider's error code is shown; texts that anyone can write into a
	// link are not.
	for said, shown := range map[string]string{"access_denied": "access_denied", "call +1 555 0100": "an unknown error code"} {
		o.out(t, mine, "/signin/oidc")
		a := o.back(mine, url.Values{"error": {said}, "error_description": {"call +1 555 0100"}, "code": nil})
		a.is(t, http.StatusForbidden, shown)
		if strings.Contains(a.body, "555") {
			t.Error("a stranger's text is shown")
		}
	}
	// A form neither completes a sign-in nor redirects to another site.
	b := h.browser()
	o.out(t, b, "/signin/oidc")
	b.do(http.MethodPost, "/signin/oidc", url.Values{"state": {o.asked.Get("state")}, "code": {"c"}}, nil).is(t, http.StatusNotFound)
}

func TestOIDCDown(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*badOP){
		"gone":                func(o *badOP) { o.Close() },
		"another issuer":      func(o *badOP) { o.discovery["issuer"] = "https://evil.test" },
		"only HS256":          func(o *badOP) { o.discovery["id_token_signing_alg_values_supported"] = []string{"HS256", "none"} },
		"keys over http":      func(o *badOP) { o.discovery["jwks_uri"] = "http://10.0.0.1/keys" },
		"user info over http": func(o *badOP) { o.discovery["userinfo_endpoint"] = "http://info.test/" },
		"login over http":     func(o *badOP) { o.discovery["authorization_endpoint"] = "http://login.test/" },
		"login by script":     func(o *badOP) { o.discovery["authorization_endpoint"] = "javascript:alert(1)" },
		"no secrets":          func(o *badOP) { o.discovery["token_endpoint_auth_methods_supported"] = []string{"private_key_jwt"} },
		"metadata address":    func(o *badOP) { o.discovery["token_endpoint"] = "http://169.254.169.254/token" },
	} {
		o := newOP(t)
		h := o.fixture(t, nil)
		change(o)
		a := h.browser().get("/signin/oidc")
		if a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(a.body, "identity provider does not answer") || a.Header.Get("Location") != "" {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
		h.as(brokertest.Approver) // others still sign in
	}
	// URLs in the provider's metadata must be public, unless configured
	// otherwise.
	o := newOP(t)
	o.discovery["token_endpoint"] = "https://127.0.0.1:9/token"
	h := o.fixture(t, nil)
	b := h.browser()
	o.out(t, b, "/signin/oidc")
	o.back(b, nil).is(t, http.StatusServiceUnavailable)
	for status, want := range map[int]int{http.StatusInternalServerError: http.StatusServiceUnavailable, http.StatusFound: http.StatusServiceUnavailable, http.StatusBadRequest: http.StatusUnauthorized} {
		o := newOP(t)
		o.status, o.body = status, `{"error":"invalid_grant","error_description":"the code was xyzzy"}`
		h := o.fixture(t, nil)
		b := h.browser()
		o.out(t, b, "/signin/oidc")
		a := o.back(b, nil)
		if a.is(t, want); strings.Contains(a.body, "xyzzy") {
			t.Error("what the provider said in an error is shown")
		}
	}
}

// TestOIDCNames: an id belongs to one person, and the owner of a task is that
// person under any of their names.
//
//ebb:invariant I7 The owner of a task cannot decide its requests under any name that the identity provider gives them
func TestOIDCNames(t *testing.T) {
	t.Parallel()
	o := newOP(t)
	h := o.fixture(t, func(c *oidc.Config) { c.SubjectClaim = "email" })
	for name, change := range map[string]attesttest.Claims{
		"none": {}, "not verified": {"email": "ann@example.com"}, "false": {"email": "ann@example.com", "email_verified": false}, "text": {"email": "ann@example.com", "email_verified": "true"},
	} {
		if a := o.signIn(t, h.browser(), change); a.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", name, a.StatusCode)
		}
	}
	b := h.browser()
	o.signIn(t, b, attesttest.Claims{"email": "ann@example.com", "email_verified": true}).is(t, http.StatusSeeOther)
	b.get("/settings").is(t, http.StatusOK, "sso:ann@example.com", `Mail goes to <span class="name">ann@example.com</span>`)
	sub := newOP(t)
	h = sub.fixture(t, nil)
	r := h.asked("orders:eu/1:write")
	other := h.browser()
	sub.signIn(t, other, attesttest.Claims{"email": "x@example.com"}).is(t, http.StatusSeeOther)
	other.get("/requests/"+r.ID).is(t, http.StatusOK, `value="approve"`)
	other.get("/settings").is(t, http.StatusOK, "You get no mail") // an unverified address is not used
	for _, claim := range []string{"email", "preferred_username", "upn", "sub"} {
		b := h.browser()
		sub.signIn(t, b, attesttest.Claims{claim: strings.ToUpper(r.Owner)}).is(t, http.StatusSeeOther)
		a := b.get("/requests/" + r.ID)
		if a.StatusCode == http.StatusOK && strings.Contains(a.body, `value="approve"`) {
			t.Errorf("by %s the owner may decide: %s", claim, a.body)
		}
	}
}

// TestOIDCInfo: claims missing from the token may come from the user info of
// the same person.
func TestOIDCInfo(t *testing.T) {
	t.Parallel()
	o := newOP(t)
	h := o.fixture(t, nil)
	for body, want := range map[string]int{
		`{"sub":"ann","groups":["approvers"]}`:                               http.StatusSeeOther,
		`{"sub":"bob","groups":["approvers"]}`:                               http.StatusUnauthorized,
		`{"groups":["approvers"]}`:                                           http.StatusUnauthorized,
		`{"sub":"ann"}`:                                                      http.StatusForbidden,
		`{"sub":"ann","hasgroups":true}`:                                     http.StatusForbidden,
		`{"sub":"ann","groups":["approvers"]} ` + strings.Repeat(" ", 2<<20): http.StatusServiceUnavailable,
		`<html>`: http.StatusServiceUnavailable,
	} {
		o.info = body
		if a := o.signIn(t, h.browser(), attesttest.Claims{"groups": nil}); a.StatusCode != want {
			t.Errorf("%.60s: %d, want %d: %s", body, a.StatusCode, want, a.body)
		}
	}
}

// TestOIDCVerifiedAddress: the user info verifies its own address, not the one of the token.
func TestOIDCVerifiedAddress(t *testing.T) {
	t.Parallel()
	o := newOP(t)
	h := o.fixture(t, func(c *oidc.Config) { c.SubjectClaim = "email" })
	o.info = `{"sub":"ann","groups":["approvers"],"email":"ann@example.com","email_verified":true}`
	for mail, want := range map[string]int{"ann@example.com": http.StatusSeeOther, "tom@example.com": http.StatusForbidden} {
		if a := o.signIn(t, h.browser(), attesttest.Claims{"groups": nil, "email": mail}); a.StatusCode != want {
			t.Errorf("%s: %d, want %d", mail, a.StatusCode, want)
		}
	}
}

// TestOIDCAgain: a decision needs a new sign-in with the configured strength.
func TestOIDCAgain(t *testing.T) {
	t.Parallel()
	o := newOP(t)
	h := o.fixture(t, func(c *oidc.Config) { c.ACRValues = []string{"phr", "phrh"} })
	r := h.asked("orders:eu/1:write")
	b := h.browser()
	o.signIn(t, b, nil).is(t, http.StatusSeeOther)
	page := b.get("/requests/" + r.ID)
	page.is(t, http.StatusOK, "/requests/"+r.ID+"/again") // recent, but not strong enough
	b.choose(page, r.ID, "narrow", url.Values{"scope": {"orders:eu/1:write"}, "minutes": {"3"}}).is(t, http.StatusForbidden)
	again := func(change attesttest.Claims) answer {
		a := b.get("/requests/" + r.ID + "/again")
		a.is(t, http.StatusSeeOther)
		if a.Header.Get("Location") != "/signin/oidc?again=1" {
			t.Fatal(a.Header.Get("Location"))
		}
		o.out(t, b, "/signin/oidc?again=1")
		if o.asked.Get("max_age") != "0" || o.asked.Get("acr_values") != "phr phrh" {
			t.Errorf("asked %v", o.asked)
		}
		o.token = func() string { return o.issuer.Token(o.claims(change)) }
		return o.back(b, nil)
	}
	again(attesttest.Claims{"acr": "pwd"}).is(t, http.StatusForbidden, "strong authentication")
	again(attesttest.Claims{"acr": nil}).is(t, http.StatusForbidden, "strong authentication")
	again(attesttest.Claims{"acr": "phr", "auth_time": nil}).is(t, http.StatusForbidden, "auth_time")
	again(attesttest.Claims{"acr": "phr", "auth_time": o.at.Now().Add(-5 * time.Minute).Unix()}).is(t, http.StatusForbidden, "did not make you sign in again")
	a := again(attesttest.Claims{"acr": "phr"})
	a.is(t, http.StatusSeeOther)
	if a.Header.Get("Location") != "/requests/"+r.ID {
		t.Errorf("led to %s", a.Header.Get("Location"))
	}
	if got := ids(b.get("/settings")); len(got) != 1 {
		t.Errorf("%d sessions in one browser", len(got))
	}
	page = b.get("/requests/" + r.ID)
	if strings.Contains(page.body, "/again") {
		t.Error("asked again")
	}
	// Groups are valid for 15 minutes, the sign-in for 10 minutes.
	h.Clock.Add(11 * time.Minute)
	b.get("/requests/"+r.ID).is(t, http.StatusOK, "/again")
	b.choose(page, r.ID, "narrow", url.Values{"scope": {"orders:eu/1:write"}, "minutes": {"3"}}).is(t, http.StatusForbidden, "within the last 10 minutes")
}
