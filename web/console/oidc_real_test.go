package console_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web/signin"
	"github.com/ebb-broker/ebb/web/signin/oidc"
)

// realOP is npm's oidc-provider, an independent OpenID provider.
type realOP struct{ Issuer, ID, Secret string }

// startOP runs it for a console at base.
func startOP(t *testing.T, base string, options ...string) realOP {
	t.Helper()
	var o realOP
	counterpart.Talk(t, "EBB_TEST_NODE_OP", "../../.ci/console/op.mjs", append([]string{base + "/signin/oidc/callback"}, options...)...).Hear(&o)
	return o
}

func (o realOP) fixture(t *testing.T) *fixture {
	return newFixture(t, brokertest.Config{RealTime: true}, func(h *fixture) signin.Method {
		m, err := oidc.New(oidc.Config{Base: h.Issuer, Key: h.Ring.Derive("console-oidc"), Name: "sso", Issuer: o.Issuer, ClientID: o.ID, ClientSecret: secret.New(o.Secret), Now: h.Clock.Now,
			Scopes: []string{"openid", "profile"}, ACRValues: []string{"phr"}, Roles: broker.RoleGroups{broker.RoleApprover: {{Group: "approvers"}}, broker.RoleAuditor: {{Group: "audit"}}}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	})
}

// person is a person's browser at the provider.
type person struct {
	*http.Client
	t *testing.T
}

func newPerson(t *testing.T) person {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return person{&http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, t}
}

// through goes from the console to the provider, fills in its forms, and
// returns.
func (p person) through(b *browser, path, login, password string) (a answer, forms int) {
	p.t.Helper()
	out := b.get(path)
	out.is(p.t, http.StatusSeeOther)
	at := out.Header.Get("Location")
	for range 12 {
		if strings.HasPrefix(at, b.h.Issuer) {
			return b.do(http.MethodGet, strings.TrimPrefix(at, b.h.Issuer), nil, nil), forms
		}
		resp, err := p.Get(at)
		if err != nil {
			p.t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			p.t.Fatal(err)
		}
		if resp.StatusCode == http.StatusOK {
			if !strings.Contains(string(body), "<form") {
				p.t.Fatalf("%s: no form: %s", at, body)
			}
			forms++
			form := url.Values{"login": {login}, "password": {password}}
			if password == "" {
				form.Set("abort", "yes")
			}
			if resp, err = p.PostForm(at, form); err != nil {
				p.t.Fatal(err)
			}
			_ = resp.Body.Close()
		}
		next, err := resp.Location()
		if err != nil {
			p.t.Fatalf("%s: %d, %v: %s", at, resp.StatusCode, err, body)
		}
		at = next.String()
	}
	p.t.Fatal("led in circles")
	return
}

func TestRealOIDC(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"full", "thin"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			o := startOP(t, brokertest.Issuer, kind)
			h := o.fixture(t)
			b, p := h.browser(), newPerson(t)
			a, forms := p.through(b, "/signin/oidc", "ann", "secret")
			a.is(t, http.StatusSeeOther)
			if forms != 2 {
				t.Errorf("%d forms, want login and consent", forms)
			}
			b.get("/settings").is(t, http.StatusOK, "sso:ann", "The ann", "approvers")
			// The provider has a session: it shows no form, and auth_time stays
			// the same.
			if _, forms := p.through(h.browser(), "/signin/oidc", "", "x"); forms != 0 {
				t.Errorf("%d forms for somebody who is signed in there", forms)
			}
			// For a decision it requires a new sign-in, and a password is not
			// enough.
			a, forms = p.through(b, "/signin/oidc?again=1", "ann", "secret")
			if a.is(t, http.StatusForbidden, "strong authentication"); forms == 0 {
				t.Error("it did not ask again")
			}
			a, _ = p.through(b, "/signin/oidc?again=1", "ann", "key")
			a.is(t, http.StatusSeeOther)
			b.get("/settings").is(t, http.StatusOK, "(phr)")
			for who, says := range map[string]string{"guest": "no role", "many": "groups_claim"} {
				a, _ := newPerson(t).through(h.browser(), "/signin/oidc", who, "secret")
				a.is(t, http.StatusForbidden, says)
			}
			a, _ = newPerson(t).through(h.browser(), "/signin/oidc", "ann", "")
			a.is(t, http.StatusForbidden, "access_denied")
			eve := h.browser()
			a, _ = newPerson(t).through(eve, "/signin/oidc", "eve", "secret")
			a.is(t, http.StatusSeeOther)
			eve.get("/settings").is(t, http.StatusOK, "auditor", "sso:eve")
		})
	}
}
