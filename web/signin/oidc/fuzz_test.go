package oidc

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/broker/secret"
)

// fuzzed is a Method that makes no requests.
func fuzzed(t testing.TB) *OIDC {
	t.Helper()
	at := time.Unix(1_800_000_000, 0)
	o, err := New(Config{Base: "https://ebb.test", Key: make([]byte, 32), Name: "sso", Issuer: "https://op.test", ClientID: "ebb", ClientSecret: secret.New("hush"),
		Roles: broker.RoleGroups{broker.RoleApprover: {{Group: "web"}}, broker.RoleAuditor: {{Group: "audit"}}}, Now: func() time.Time { return at }})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// FuzzCallback: only the response to this sign-in by this provider yields a
// code, and no other text of the query is repeated.
func FuzzCallback(f *testing.F) {
	o := fuzzed(f)
	a := attempt{ID: "an id", At: o.cfg.Now()}
	state := o.derive("state", a.ID)
	for _, q := range []string{"", "state=" + state + "&code=c", "state=" + state + "&code=c&iss=https%3A%2F%2Fop.test", "state=" + state + "&code=c&code=d", "state=" + state + "&error=access_denied", "state=" + state + "&error=%3Cb%3E", "state=x&code=c",
		"state=" + state + "&code=c;iss=x", "%zz", "state=" + state + "&code=&iss=https://evil.test"} {
		f.Add(q, true)
		f.Add(q, false)
	}
	f.Fuzz(func(t *testing.T, raw string, saysIss bool) {
		code, err := o.code(&url.URL{RawQuery: raw}, &source{saysIss: saysIss}, a)
		if err != nil {
			e := broker.AsError(err)
			if said, _ := url.ParseQuery(raw); said.Get("error") != "" && !slices.Contains(answers, said.Get("error")) && strings.Contains(e.Public, "in: "+said.Get("error")+".") {
				t.Errorf("%q is repeated: %s", raw, e.Public)
			}
			return
		}
		q, perr := url.ParseQuery(raw)
		if perr != nil || len(q["state"]) != 1 || q.Get("state") != state || len(q["code"]) != 1 || q.Get("code") != code || code == "" || len(code) > 4096 || q.Has("error") ||
			q.Has("iss") && (len(q["iss"]) != 1 || q.Get("iss") != "https://op.test") || saysIss && !q.Has("iss") {
			t.Errorf("%q has the code %q", raw, code)
		}
	})
}

// FuzzCookie: an accepted cookie was written by this ebb, byte for byte, within
// the last 10 minutes.
func FuzzCookie(f *testing.F) {
	o := fuzzed(f)
	good := o.seal(attempt{ID: "an id", At: o.cfg.Now(), Again: true})
	for _, v := range []string{good, good + "A", good[1:], "", "...", "a.1800000000.true.", o.seal(attempt{ID: "an id", At: o.cfg.Now().Add(-time.Hour)}), o.seal(attempt{ID: "a.b", At: o.cfg.Now()})} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, value string) {
		r := httptest.NewRequest(http.MethodGet, "/signin/oidc/callback", nil)
		r.Header.Set("Cookie", cookieName+"="+value)
		a, err := o.attempt(echo.New().NewContext(r, httptest.NewRecorder()))
		if err != nil {
			return
		}
		found := r.CookiesNamed(cookieName)
		if len(found) != 1 || o.seal(a) != found[0].Value || o.cfg.Now().Sub(a.At) > lifetime || a.At.After(o.cfg.Now().Add(time.Minute)) {
			t.Errorf("%q is %+v", value, a)
		}
	})
}

// FuzzClaims: a person made from any claims has no configured principal's id,
// no invisible character, and no role without a group for it.
func FuzzClaims(f *testing.F) {
	o := fuzzed(f)
	byMail := fuzzed(f)
	byMail.cfg.SubjectClaim = "email"
	for _, c := range []string{`{"groups":["web","audit"],"name":"Ann","email":"a@b","email_verified":true}`, `{"groups":"web"}`, `{"groups":null}`, `{"groups":[1]}`, `{"_claim_names":{"groups":"x"}}`, `{"hasgroups":"true"}`,
		`{"groups":["\u202e"],"email":1}`, `{"email":" a","email_verified":"true"}`, `{"groups":{"web":1}}`, `{}`, `[]`} {
		f.Add("sub", c)
	}
	f.Fuzz(func(t *testing.T, sub, raw string) {
		var all claims
		if json.Unmarshal([]byte(raw), &all) != nil {
			return
		}
		for _, m := range []*OIDC{o, byMail} {
			p, err := m.person(sub, all)
			if err != nil {
				continue
			}
			id, found := strings.CutPrefix(p.ID, "sso:")
			if !found || people.CheckName(id) != nil {
				t.Errorf("%q", p.ID)
			}
			var verified bool
			if m == byMail && (json.Unmarshal(all["email_verified"], &verified) != nil || !verified) {
				t.Errorf("%s: %q is not verified", raw, p.ID)
			}
			for _, text := range append(append([]string{}, p.Groups...), p.Also...) {
				if !plain(text) {
					t.Errorf("%q is not plain", text)
				}
			}
			if p.Name != "" && !plain(p.Name) {
				t.Errorf("%q is not plain", p.Name)
			}
			if p.Has(broker.RoleApprover) != slices.Contains(p.Groups, "web") || p.Has(broker.RoleAuditor) != slices.Contains(p.Groups, "audit") || p.Has(broker.RoleOperator) || p.Has(broker.RoleRunner) {
				t.Errorf("%v with %v", p.Roles, p.Groups)
			}
		}
	})
}
