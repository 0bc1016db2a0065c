package oidc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/oidc"
)

const aud = "https://ebb.example"

type fixture struct {
	clock  *attesttest.Clock
	issuer *attesttest.Issuer
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	clock := attesttest.NewClock()
	return fixture{clock, attesttest.NewIssuer(t, clock)}
}

func (f fixture) config() oidc.Config {
	return oidc.Config{Name: "ci", Issuer: f.issuer.URL, Audience: aud, JWKSURL: f.issuer.JWKSURL,
		Algs: []jose.Alg{jose.ES256}, Selectors: map[string]string{"repo": "repository"}, Now: f.clock.Now}
}

func (f fixture) new(t *testing.T, c oidc.Config) *oidc.Attestor {
	t.Helper()
	a, err := oidc.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (f fixture) token(change attesttest.Claims) string { return f.tokenWith(nil, change) }

func (f fixture) tokenWith(header, change attesttest.Claims) string {
	c := attesttest.Claims{"aud": aud, "repository": "org/repo"}
	maps.Copy(c, change)
	return f.issuer.TokenWith(header, c)
}

func evidence(t testing.TB, token string) attest.Evidence {
	return attest.Evidence{Attestor: "ci", Document: []byte(token), Key: attesttest.NewKey(t)}
}

func TestSuite(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := attesttest.Tokens(func(t *testing.T, header, claims attesttest.Claims) attest.Evidence {
		return evidence(t, f.tokenWith(header, claims))
	})
	with := tokens.With
	now := f.clock.Now()
	c := f.config()
	c.Required = map[string][]string{"repository": {"org/other", "org/repo"}}
	attesttest.Run(t, attesttest.Suite{
		Attestor: f.new(t, c),
		Clock:    f.clock,
		Good:     with(nil),
		Bad: tokens.Bad(map[string]func(*testing.T) attest.Evidence{
			"wrong audience":         with(attesttest.Claims{"aud": aud + "/"}),
			"wrong issuer":           with(attesttest.Claims{"iss": f.issuer.URL + "/"}),
			"wrong key":              func(t *testing.T) attest.Evidence { return evidence(t, foreign(t, f, "key-1")) },
			"unknown kid":            func(t *testing.T) attest.Evidence { return evidence(t, foreign(t, f, "key-99")) },
			"expired":                with(attesttest.Claims{"iat": now.Add(-time.Minute).Unix(), "exp": now.Add(-time.Second).Unix()}),
			"no expiry":              with(attesttest.Claims{"exp": nil}),
			"not yet valid":          with(attesttest.Claims{"nbf": now.Add(time.Second).Unix()}),
			"issued in the future":   with(attesttest.Claims{"iat": now.Add(time.Second).Unix()}),
			"H13 ten years":          with(attesttest.Claims{"exp": now.AddDate(10, 0, 0).Unix()}),
			"no subject":             with(attesttest.Claims{"sub": nil}),
			"required claim absent":  with(attesttest.Claims{"repository": nil}),
			"required claim differs": with(attesttest.Claims{"repository": "org/repository"}),
			"required claim prefix":  with(attesttest.Claims{"repository": "org/rep"}),
			"required claim array":   with(attesttest.Claims{"repository": []string{"org/repo"}}),
			"required claim null":    with(attesttest.Claims{"repository": []any{nil}}),
			"bound to two keys":      with(attesttest.Claims{"cnf": map[string]string{"jkt": "x", "x5t#S256": "y"}}),
			"bound to a certificate": with(attesttest.Claims{"cnf": map[string]string{"x5t#S256": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}}),
			"bound to a jwk":         with(attesttest.Claims{"cnf": map[string]any{"jwk": map[string]any{}}}),
			"H24 bidi":               with(attesttest.Claims{"sub": "a\u202eb"}),
			"H24 newline in claim":   with(attesttest.Claims{"repository": "org/repo\n"}),
		}),
		Down: func(t *testing.T) (attest.Attestor, attest.Evidence) {
			down := attesttest.NewIssuer(t, f.clock)
			down.Answer(http.StatusInternalServerError)
			c := f.config()
			c.Issuer, c.JWKSURL = down.URL, down.JWKSURL
			return f.new(t, c), evidence(t, down.Token(attesttest.Claims{"aud": aud}))
		},
		Lures: func(t *testing.T, url string) []attest.Evidence {
			return append(tokens.Lures(t, url, "picture", "repository"), with(attesttest.Claims{"_claim_sources": map[string]any{"src1": map[string]string{"endpoint": url}}})(t))
		},
	})
}

// foreign returns a token that is valid except for its signature by another issuer's key.
func foreign(t testing.TB, f fixture, kid string) string {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := f.clock.Now()
	return attesttest.Forge(t, k, attesttest.Claims{"alg": "ES256", "kid": kid},
		attesttest.Claims{"iss": f.issuer.URL, "sub": "workload", "aud": aud, "repository": "org/repo", "iat": now.Unix(), "exp": now.Add(time.Minute).Unix()})
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := f.config()
	c.Selectors = map[string]string{"repo": "repository", "ns": "/kubernetes.io/namespace", "runner": "job.runner", "n": "run", "pr": "fork", "gone": "gone.deep", "deep": "repository.x"}
	c.Leeway = new(10 * time.Second)
	e := evidence(t, f.token(attesttest.Claims{
		"kubernetes.io": map[string]any{"namespace": "team-a"}, "job": map[string]any{"runner": "linux"}, "run": 42, "fork": false,
		"cnf": map[string]string{"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"},
	}))
	id, err := f.new(t, c).Attest(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"sub": "workload", "repo": "org/repo", "ns": "team-a", "runner": "linux", "n": "42", "pr": "false"}
	if !maps.Equal(id.Selectors, want) {
		t.Errorf("got selectors %v, want %v", id.Selectors, want)
	}
	if id.Attestor != "ci" || id.Subject != "workload" || id.Class != attest.ClassSigned || id.TaskID != "" ||
		id.Key != "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I" || !id.ReplayUntil.Equal(id.NotAfter.Add(10*time.Second)) {
		t.Errorf("got %+v", id)
	}
}

// Values of mapped claims without exactly one text form are rejected.
func TestIncomparable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.new(t, f.config())
	for name, value := range map[string]any{
		"array": []string{"org/repo"}, "object": map[string]any{}, "fraction": 1.5, "huge": 1e300,
		"long": strings.Repeat("x", 2049), "control": "a\x00",
	} {
		_, err := a.Attest(t.Context(), evidence(t, f.token(attesttest.Claims{"repository": value})))
		if attesttest.Reason(err) != attest.ReasonClaims {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A certificate-bound token is accepted only with that client certificate.
func TestCertificateBound(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const x5t = "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"
	e := evidence(t, f.token(attesttest.Claims{"cnf": map[string]string{"x5t#S256": x5t}}))
	e.Key.X5T = x5t
	if _, err := f.new(t, f.config()).Attest(t.Context(), e); err != nil {
		t.Errorf("got %v", err)
	}
}

func TestKeySources(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	file := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(file, f.issuer.JWKS(), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*oidc.Config){
		"url":    func(*oidc.Config) {},
		"file":   func(c *oidc.Config) { c.JWKSURL, c.JWKSFile = "", file },
		"inline": func(c *oidc.Config) { c.JWKSURL, c.JWKS = "", f.issuer.JWKS() },
	} {
		c := f.config()
		change(&c)
		if _, err := f.new(t, c).Attest(t.Context(), evidence(t, f.token(nil))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConfigProblems(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for want, change := range map[string]func(*oidc.Config){
		"name is empty":                                 func(c *oidc.Config) { c.Name = "" },
		"issuer is not a URL":                           func(c *oidc.Config) { c.Issuer = "ci" },
		"or one with user information":                  func(c *oidc.Config) { c.Issuer = "https://ci:hunter2@issuer.example" },
		"audience is empty":                             func(c *oidc.Config) { c.Audience = "" },
		"exactly one of jwks":                           func(c *oidc.Config) { c.JWKSURL = "" },
		"exactly one of jwks, jwks_file":                func(c *oidc.Config) { c.JWKSFile = "x" },
		"not https":                                     func(c *oidc.Config) { c.JWKSURL = "http://issuer.example/jwks" },
		"without user information":                      func(c *oidc.Config) { c.JWKSURL = "https://a:b@issuer.example/jwks" },
		"algs: ebb does not accept algorithm \"none\"":  func(c *oidc.Config) { c.Algs = []jose.Alg{"none"} },
		"algs: ebb does not accept algorithm \"HS256\"": func(c *oidc.Config) { c.Algs = []jose.Alg{"HS256"} },
		"types: \"at+jwt\"":                             func(c *oidc.Config) { c.Types = []string{"at+jwt"} },
		"types: \"application/AT+JWT\"":                 func(c *oidc.Config) { c.Types = []string{"application/AT+JWT"} },
		"not between 0 and 5m0s":                        func(c *oidc.Config) { c.Leeway = new(time.Hour) },
		"max_lifetime is negative":                      func(c *oidc.Config) { c.MaxLifetime = -1 },
		"required \"x\": list the accepted values":      func(c *oidc.Config) { c.Required = map[string][]string{"x": nil} },
		"required \"y\": list the accepted values":      func(c *oidc.Config) { c.Required = map[string][]string{"y": {""}} },
		"claim path \"a..b\"":                           func(c *oidc.Config) { c.Selectors = map[string]string{"x": "a..b"} },
		"claim path \"\"":                               func(c *oidc.Config) { c.Selectors = map[string]string{"x": ""} },
		"sub is always the subject":                     func(c *oidc.Config) { c.Selectors = map[string]string{"sub": "email"} },
		"no usable key":                                 func(c *oidc.Config) { c.JWKSURL, c.JWKS = "", []byte(`{"keys":[]}`) },
		"not one strict JSON object":                    func(c *oidc.Config) { c.JWKSURL, c.JWKS = "", []byte(`nope`) },
		"private or symmetric":                          func(c *oidc.Config) { c.JWKSURL, c.JWKS = "", []byte(`{"keys":[{"kty":"oct","k":"AA"}]}`) },
		"subject: the claim path \"a.\" has ":           func(c *oidc.Config) { c.Subject = "a." },
	} {
		c := f.config()
		change(&c)
		if a, err := oidc.New(c); a != nil || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v, want an error with %q and without passwords", err, want)
		}
	}
	if _, err := oidc.New(oidc.Config{}); err == nil || strings.Count(err.Error(), "\n") < 3 {
		t.Errorf("got %v, want all problems at once", err)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	c, err := oidc.Decode([]byte(`{"issuer":"https://i.example","audience":"https://ebb.example","jwks_url":"https://i.example/k",
		"algs":["RS256"],"types":["JWT"],"required":{"sub":"repo:x","ref":["a","b"]},"selectors":{"r":"repository"},"subject":"sub","max_lifetime":"1h","leeway":"30s"}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Required["sub"]) != 1 || len(c.Required["ref"]) != 2 || c.MaxLifetime != time.Hour || *c.Leeway != 30*time.Second || c.Algs[0] != jose.RS256 || c.JWKSURL != "https://i.example/k" {
		t.Errorf("got %+v", c)
	}
	for name, raw := range map[string]string{
		"unknown member": `{"issuer":"x","require":{}}`, "letter case": `{"Issuer":"x"}`, "duplicate": `{"issuer":"x","issuer":"y"}`,
		"duration": `{"leeway":"30"}`, "number": `{"leeway":30}`, "any of": `{"required":{"a":1}}`, "empty": ``, "array": `[]`,
	} {
		if _, err := oidc.Decode([]byte(raw)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzAttest checks that arbitrary documents are rejected, without a panic and without
// an error that means "could not judge".
func FuzzAttest(f *testing.F) {
	clock := attesttest.NewClock()
	issuer := attesttest.NewIssuer(f, clock)
	a, err := oidc.New(oidc.Config{Name: "ci", Issuer: issuer.URL, Audience: aud, JWKS: issuer.JWKS(), Now: clock.Now})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(issuer.Token(attesttest.Claims{"aud": "https://other.example"})))
	f.Add([]byte("e30.e30.AA"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		if id, err := a.Attest(t.Context(), attest.Evidence{Document: doc}); !errors.Is(err, attest.ErrRejected) {
			t.Errorf("got %+v, %v", id, err)
		}
	})
}

// TestSeveralAudiences checks that a token with another audience beside ebb is refused
// unless the configuration lists that audience with a reason. Every service in aud
// receives the token and could present it here.
//
//ebb:invariant I6 A token for several audiences is refused unless the configuration names them, and as a client assertion it is always refused
func TestSeveralAudiences(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	wide := f.config()
	wide.OtherAudiences = map[string]string{"https://sts.example": "the CI makes one token for both"}
	strict, both := f.new(t, f.config()), f.new(t, wide)
	for name, c := range map[string]struct {
		aud  any
		wide bool // accepted where the configuration widens
	}{
		"the named one":          {[]string{aud, "https://sts.example"}, true},
		"the named one first":    {[]string{"https://sts.example", aud}, true},
		"one that is not named":  {[]string{aud, "https://evil.example"}, false},
		"a third":                {[]string{aud, "https://sts.example", "https://evil.example"}, false},
		"the named one alone":    {"https://sts.example", false},
		"another spelling of it": {[]string{aud, "https://sts.example/"}, false},
		"the reason as audience": {[]string{aud, "the CI makes one token for both"}, false},
	} {
		e := evidence(t, f.token(attesttest.Claims{"aud": c.aud}))
		if _, err := strict.Attest(t.Context(), e); !errors.Is(err, attest.ErrRejected) {
			t.Errorf("%s, by default: got %v, want a rejection", name, err)
		}
		if _, err := both.Attest(t.Context(), e); (err == nil) != c.wide {
			t.Errorf("%s, widened: got %v, want accepted %v", name, err, c.wide)
		}
		e.ClientAssertion = true
		if _, err := both.Attest(t.Context(), e); !errors.Is(err, attest.ErrRejected) {
			t.Errorf("%s, as client_assertion: got %v, want a rejection", name, err)
		}
		if _, err := both.ForPeople().Attest(t.Context(), e); !errors.Is(err, attest.ErrRejected) {
			t.Errorf("%s, of a person: got %v, want a rejection", name, err)
		}
	}
	for _, raw := range []string{`{"https://sts.example": ""}`, `{"": "why"}`, `{"` + aud + `": "why"}`} {
		c, err := oidc.Decode([]byte(`{"issuer":"https://i.example","audience":"` + aud + `","jwks_url":"https://i.example/k","other_audiences":` + raw + `}`))
		if err != nil {
			t.Fatal(err)
		}
		c.Name = "ci"
		if _, err := oidc.New(c); err == nil {
			t.Errorf("other_audiences %s: accepted", raw)
		}
	}
	if _, err := oidc.Decode([]byte(`{"preset":"github-actions","audience":"` + aud + `","required":{"repository_owner_id":"65"},"other_audiences":{"https://sts.example":"why"}}`)); err == nil {
		t.Error("a preset was widened")
	}
}

// TestTrace checks that a trace has the passed checks in order, up to the first failure.
func TestTrace(t *testing.T) {
	t.Parallel()
	v := newVendor(t, readGolden(t, "gitlab"))
	a := v.open(nil)
	for _, tc := range []struct {
		change     object
		want, gone string
	}{
		{nil, "subject=project_path:my-group/my-project:ref_type:branch:ref:feature-branch-1 present job_id=302 " +
			"present pipeline_id=574 present project_id=20 required namespace_id=72 required ref_protected=true selector environment=test-environment2", "\x00"},
		{object{"ref_protected": "false"}, "required namespace_id=72", "required ref_protected"},
		{object{"aud": "https://other.example"}, "issuer=https://gitlab.com", "subject"},
	} {
		var steps []string
		ctx := attest.WithTrace(t.Context(), func(s attest.Step) { steps = append(steps, s.Check+"="+s.Found) })
		_, err := a.Attest(ctx, v.evidence(tc.change))
		got := strings.Join(steps, " ")
		if (err == nil) != (tc.change == nil) || !strings.Contains(got, tc.want) || strings.Contains(got, tc.gone) {
			t.Errorf("%v: got %s, %v", tc.change, got, err)
		}
	}
}
