package api_test

import (
	"crypto/rand"
	"maps"
	"net/url"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// TestUnknownClientsLookLikeKnownOnes: without a valid signature, no response
// of an endpoint distinguishes a known client from an unknown one. The audit
// log has the reason.
//
//ebb:invariant I6 Without a valid signature, neither the response nor the verification work reveals whether a client is known
func TestUnknownClientsLookLikeKnownOnes(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	box := r.sandbox(t)
	stranger := brokertest.NewKey(t)
	now := r.env.Clock.Now()
	assertion := func(sub string, header, more map[string]any) string {
		h := map[string]any{"alg": "ES256", "typ": "client-authentication+jwt"}
		maps.Copy(h, header)
		c := map[string]any{"iss": sub, "sub": sub, "aud": brokertest.Issuer, "jti": rand.Text(), "iat": now.Unix(), "exp": now.Unix() + 60}
		maps.Copy(c, more)
		return attesttest.Forge(t, stranger, h, c)
	}
	known := []string{brokertest.Runner, brokertest.Approver, brokertest.Server, box.client}
	unknown := []string{"nobody", "sbx_" + strings.Repeat("0", 32), "sbx_x"}
	for name, c := range map[string]struct{ header, claims map[string]any }{
		"another key":        {nil, nil},
		"a kid":              {map[string]any{"kid": "k1"}, nil},
		"another algorithm":  {map[string]any{"alg": "RS256"}, nil},
		"EdDSA":              {map[string]any{"alg": "EdDSA"}, nil},
		"another audience":   {nil, map[string]any{"aud": "https://other.test"}},
		"several audiences":  {nil, map[string]any{"aud": []string{brokertest.Issuer, "https://other.test"}}},
		"expired":            {nil, map[string]any{"iat": now.Unix() - 600, "exp": now.Unix() - 300}},
		"too long a life":    {nil, map[string]any{"exp": now.Unix() + 3600}},
		"no jti":             {nil, map[string]any{"jti": nil}},
		"iss is another's":   {nil, map[string]any{"iss": "somebody"}},
		"typ of a token":     {map[string]any{"typ": "at+jwt"}, nil},
		"no exp":             {nil, map[string]any{"exp": nil}},
		"a client_id beside": {nil, nil},
	} {
		for path, form := range map[string]url.Values{
			tokenURL:               {"grant_type": {grantCredentials}},
			"/oauth2/introspect":   {"token": {"x"}},
			"/oauth2/revoke":       {"token": {"x"}},
			"/oauth2/bc-authorize": {"scope": {mustAsk}, "login_hint": {"x"}},
		} {
			answers := map[string]string{}
			for _, sub := range append(append([]string(nil), known...), unknown...) {
				if strings.HasPrefix(sub, "sbx_") != (path == "/oauth2/bc-authorize") {
					continue // sandboxes and principals authenticate at different endpoints
				}
				f := with(form, "client_assertion_type", assertionType, "client_assertion", assertion(sub, c.header, c.claims))
				if name == "a client_id beside" {
					f.Set("client_id", "another")
				}
				a := r.post(t, path, f, header("DPoP", r.proof(t, stranger, "POST", path, "")))
				if a.status != 401 {
					t.Errorf("%s at %s as %s: got %d %s, want 401", name, path, sub, a.status, a.body)
				}
				answers[a.text("error_description")] = sub
			}
			if len(answers) != 1 {
				t.Errorf("%s at %s: the answers differ: %v", name, path, answers)
			}
		}
	}
	for reason, sub := range map[string]string{"client_unknown": "nobody", "signature": brokertest.Runner} {
		f := url.Values{"token": {"x"}, "client_assertion_type": {assertionType}, "client_assertion": {assertion(sub, nil, nil)}}
		r.post(t, "/oauth2/introspect", f).want(t, sub, 401, "invalid_client")
		es, err := r.env.Broker.Entries(t.Context(), r.env.Principals[brokertest.Auditor], broker.EntryFilter{Kind: audit.PrincipalRefused})
		if err != nil {
			t.Fatal(err)
		}
		var last string
		for e, err := range es {
			if err != nil {
				t.Fatal(err)
			}
			last = string(e.Data)
		}
		if !strings.Contains(last, `"reason":"`+reason+`"`) {
			t.Errorf("%s: got %s in the audit log, want the reason %s", sub, last, reason)
		}
	}
}
