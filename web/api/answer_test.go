package api_test

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web"
)

// want checks an OAuth error response, and the parts that every one must have.
func (a *answer) want(t testing.TB, what string, status int, code string) {
	t.Helper()
	if a.status != status || a.text("error") != code {
		t.Errorf("%s: got %d %s, want %d %s", what, a.status, a.body, status, code)
	}
	if a.header.Get("Content-Type") != "application/json" || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: Content-Type %q, Cache-Control %q (A7)", what, a.header.Get("Content-Type"), a.header.Get("Cache-Control"))
	}
	if d := a.text("error_description"); d == "" || d != web.Description(d) {
		t.Errorf("%s: error_description %q", what, d)
	}
}

// problem checks a problem document.
func (a *answer) problem(t testing.TB, what string, status int, kind string) {
	t.Helper()
	if a.status != status || a.text("type") != brokertest.Issuer+"/problems/"+kind || a.number("status") != float64(status) {
		t.Errorf("%s: got %d %s, want %d %s", what, a.status, a.body, status, kind)
	}
	if a.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s: Content-Type %q", what, a.header.Get("Content-Type"))
	}
}

// claims reads a token's claims without verifying them.
func claims(t testing.TB, token string) (head, body map[string]any) {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("not a compact JWS: %d parts", len(parts))
	}
	for i, into := range []*map[string]any{&head, &body} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, into); err != nil {
			t.Fatal(err)
		}
	}
	return head, body
}

// proofClaims returns the claims of a valid proof for the token endpoint.
func (r *rig) proofClaims() map[string]any {
	return map[string]any{"jti": rand.Text(), "htm": "POST", "htu": r.env.Issuer + tokenURL, "iat": r.env.Clock.Now().Unix()}
}

func set(text string) scopes.Set { return scopes.MustParseSet(text) }

const minute = time.Minute
