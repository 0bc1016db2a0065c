package api_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

func (r *rig) keySet(t testing.TB) jose.KeySet {
	t.Helper()
	a := r.do(t, r.request("GET", "/.well-known/jwks.json", nil))
	ks, err := jose.ParseJWKS([]byte(a.body))
	if err != nil {
		t.Fatal(err)
	}
	return ks
}

func TestRFC_A59_A60_A61_A62_AccessToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	orders := b.access(t, canRead, "resource", brokertest.Orders)
	mail := b.access(t, "mail:inbox:read")
	head, c := claims(t, orders)
	if head["typ"] != "at+jwt" || head["alg"] != "ES256" || head["kid"] == "" {
		t.Errorf("A59 header %v", head)
	}
	for _, banned := range []string{"jwk", "jku", "x5u", "x5c", "crit"} {
		if _, found := head[banned]; found {
			t.Errorf("header has %s", banned)
		}
	}
	for _, name := range []string{"iss", "exp", "aud", "sub", "client_id", "iat", "jti", "scope", "cnf", "txn"} {
		if c[name] == nil {
			t.Errorf("A60: no %s", name)
		}
	}
	if c["iss"] != brokertest.Issuer || c["aud"] != brokertest.Orders {
		t.Errorf("A62 iss %v aud %v", c["iss"], c["aud"])
	}
	if _, m := claims(t, mail); m["aud"] != brokertest.Mail || m["jti"] == c["jti"] {
		t.Errorf("A62 aud %v", m["aud"])
	}
	if cnf := c["cnf"].(map[string]any); len(cnf) != 1 {
		t.Errorf("A58 cnf %v", cnf)
	}
	_, err := jose.Verify(orders, jose.Profile{Types: []string{"at+jwt"}, Algs: []jose.Alg{jose.ES256}, Issuer: brokertest.Issuer, Audience: brokertest.Orders},
		r.keySet(t).Key, r.env.Clock.Now())
	if err != nil {
		t.Errorf("A61: the published keys do not verify it: %v", err)
	}
}

// A59, A61, A66, A105, A106, H10, H16: every invalid token at /v1 is
// invalid_token, and no kind of token passes for another.
func TestRFC_A66_A105_A106_H16_TokensAtV1(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	key := r.env.Keys[brokertest.Operator]
	good := r.apiToken(t, brokertest.Operator)
	head, body := claims(t, good)
	resigned := func(h, c map[string]any) string {
		hh, cc := maps.Clone(head), maps.Clone(body)
		maps.Copy(hh, h)
		maps.Copy(cc, c)
		return attesttest.Forge(t, key, hh, cc)
	}
	ours, _, _, err := r.env.Ring.Signer(r.env.Clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	// Signed with the broker's own key, so that only the checks after the
	// signature remain.
	signed := func(h, c map[string]any) string {
		hh, cc := maps.Clone(head), maps.Clone(body)
		maps.Copy(hh, h)
		maps.Copy(cc, c)
		for name, v := range c {
			if v == nil {
				delete(cc, name)
			}
		}
		return attesttest.Forge(t, ours, hh, cc)
	}
	if a := r.v1With(t, signed(nil, nil), key, "GET", "/v1/tasks", nil); a.status != 200 {
		t.Fatalf("the signer of this test is not the broker's: %d %s", a.status, a.body)
	}
	parts := strings.Split(good, ".")
	for name, token := range map[string]string{
		"H1 none":                       attesttest.Forge(t, key, `{"alg":"none","typ":"at+jwt"}`, detailsText(t, body)),
		"H1 no signature":               parts[0] + "." + parts[1] + ".AA",
		"H4 one bit":                    changeOne(good),
		"H4 truncated":                  good[:len(good)-4],
		"H5 own key in the header":      resigned(map[string]any{"jwk": attesttest.PublicJWK(t, key)}, nil),
		"A61 another key, same kid":     resigned(nil, nil),
		"H7 kid of a path":              resigned(map[string]any{"kid": "../../dev/null"}, nil),
		"A59 typ JWT":                   signed(map[string]any{"typ": "JWT"}, nil),
		"A106 H10 flattened JSON":       `{"protected":"` + parts[0] + `"}`,
		"A105 H16 a task token":         b.token,
		"H16 for another resource":      b.access(t, canRead),
		"A105 H16 a client assertion":   r.env.Assertion(t, brokertest.Operator, key),
		"A105 H16 a proof":              r.proof(t, key, "GET", "/v1/tasks", ""),
		"H22 a megabyte":                strings.Repeat("a", 12<<10) + "." + parts[1] + "." + parts[2],
		"H24 NUL in sub":                signed(nil, map[string]any{"sub": "ops\x00"}),
		"H11 case-folded":               signed(nil, map[string]any{"SUB": "root"}),
		"A59 typ of a task token":       signed(map[string]any{"typ": "ebb-task+jwt"}, nil),
		"A59 no typ":                    signed(map[string]any{"typ": ""}, nil),
		"H8 crit":                       signed(map[string]any{"crit": []string{"x"}}, nil),
		"H13 exp as text":               signed(nil, map[string]any{"exp": "9999999999"}),
		"H13 ten years":                 signed(nil, map[string]any{"exp": 2100000000}),
		"H13 from the future":           signed(nil, map[string]any{"iat": 2000000000, "exp": 2000000060}),
		"H14 no aud":                    signed(nil, map[string]any{"aud": nil}),
		"H14 two audiences":             signed(nil, map[string]any{"aud": []string{brokertest.Issuer + "/v1", "https://evil.test"}}),
		"H14 a slash more":              signed(nil, map[string]any{"aud": brokertest.Issuer + "/v1/"}),
		"H15 another issuer":            signed(nil, map[string]any{"iss": brokertest.Issuer + "/"}),
		"A58 two confirmations":         signed(nil, map[string]any{"cnf": map[string]any{"jkt": strings.Repeat("A", 43), "x5t#S256": strings.Repeat("A", 43)}}),
		"A58 no confirmation":           signed(nil, map[string]any{"cnf": nil}),
		"not a token":                   "x",
		"H13 without exp":               signed(nil, map[string]any{"exp": nil}),
		"someone who is not configured": signed(nil, map[string]any{"sub": "root"}),
	} {
		a := r.list(t, header("Authorization", "DPoP "+token), header("DPoP", r.proof(t, key, "GET", "/v1/tasks", token)))
		if strings.HasPrefix(token, "{") {
			a.problem(t, name, 400, "invalid_request") // not even a header
			continue
		}
		a.problem(t, name, 401, "invalid_token")
	}
	r.env.Clock.Add(time.Hour)
	r.list(t, header("Authorization", "DPoP "+good), header("DPoP", r.proof(t, key, "GET", "/v1/tasks", good))).problem(t, "expired", 401, "invalid_token")
}

func TestRFC_A64_RS256(t *testing.T) {
	t.Parallel()
	for _, alg := range []jose.Alg{jose.RS256, jose.EdDSA} {
		r := newRig(t, options{broker: brokertest.Config{Alg: alg}})
		token := r.sandbox(t).access(t, canRead)
		if head, _ := claims(t, token); head["alg"] != string(alg) {
			t.Errorf("alg %v, want %s", head["alg"], alg)
		}
		if !r.active(t, token) {
			t.Errorf("%s: not active", alg)
		}
	}
}

func TestRFC_A67_H64_JWKS(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	a := r.do(t, r.request("GET", "/.well-known/jwks.json", nil))
	if ct := a.header.Get("Content-Type"); ct != "application/jwk-set+json" || !strings.Contains(a.header.Get("Cache-Control"), "max-age=") {
		t.Errorf("Content-Type %q, Cache-Control %q", ct, a.header.Get("Cache-Control"))
	}
	var set struct{ Keys []map[string]any }
	if err := json.Unmarshal([]byte(a.body), &set); err != nil || len(set.Keys) == 0 {
		t.Fatalf("%v: %s", err, a.body)
	}
	for _, k := range set.Keys {
		if k["kid"] == nil || k["use"] != "sig" || k["alg"] == nil {
			t.Errorf("key %v", k)
		}
		for _, private := range []string{"d", "p", "q", "dp", "dq", "qi", "k", "oth"} {
			if k[private] != nil {
				t.Errorf("key has %s", private)
			}
		}
	}
	head, _ := claims(t, r.sandbox(t).access(t, canRead))
	if head["kid"] != set.Keys[0]["kid"] && len(set.Keys) == 1 {
		t.Errorf("kid %v is not published", head["kid"])
	}
}
