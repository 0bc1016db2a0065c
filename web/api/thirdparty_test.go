package api_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/receipt"
	"github.com/ebb-broker/ebb/scopes"
)

// withUpstream is a rig whose provider "up" is a third party. It returns the
// public key as the issued document.
func withUpstream(t *testing.T, run bool) (*rig, *brokertest.Upstream, *box) {
	t.Helper()
	up := brokertest.NewUpstream(t, nil)
	document := brokertest.Party{URL: up.URL, Shape: func(c *provider.Credential) {
		c.Type, c.Format = "N_A", "urn:ebb:params:oauth:token-type:test-document"
	}}
	r := newRig(t, options{broker: brokertest.Config{RealTime: true, Run: run, Providers: map[string]broker.Provider{
		"up": {Driver: document.Driver(), Kind: "test", Resource: "https://up.test/"},
	}}})
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("up:**:* orders:**:*")
	return r, up, r.sandboxFor(t, spec)
}

// RFC 8693 section 2.2.1: the response for a credential that is not an access
// token says so, and names its type.
func TestThirdPartyToken(t *testing.T) {
	t.Parallel()
	r, up, b := withUpstream(t, true)
	a := b.ask(t, "up:a:read", "public_key", "ssh-ed25519 AAAA me@box")
	if a.status != 200 || a.text("token_type") != "N_A" || a.text("issued_token_type") != "urn:ebb:params:oauth:token-type:test-document" || a.text("revocability") != "instant" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if !up.Accepts(a.text("access_token")) {
		t.Error("the provider does not know it")
	}
	own := b.ask(t, canRead)
	if strings.Contains(own.body, "revocability") || own.text("issued_token_type") != typeAccess {
		t.Errorf("an own token: %s", own.body)
	}
	for name, key := range map[string]string{"too long": strings.Repeat("k", 16<<10+1), "not ASCII": "k\u00e9y"} {
		if a := b.ask(t, "up:a:read", "public_key", key); a.status != 400 || a.text("error") != "invalid_request" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	// A sandbox revokes a credential that it no longer needs, by the lease id.
	for _, token := range []string{"lse_00000000000000000000000000000000", a.text("lease_id")} {
		if got := r.post(t, "/oauth2/revoke", with(url.Values{"token": {token}}, b.assertion(t)...)); got.status != 200 {
			t.Errorf("revoking %s: %d %s", token, got.status, got.body)
		}
	}
	waitFor(t, func() bool { return len(up.Alive()) == 0 })
}

// A provider that limits the rate is 429 with Retry-After, one that refuses is
// 403, one that is down is 503. The response contains none of their texts.
func TestThirdPartyFailures(t *testing.T) {
	t.Parallel()
	for fault, want := range map[brokertest.Fault]int{brokertest.Busy: 429, brokertest.Refuse: 400, brokertest.Error500: 503} {
		_, up, b := withUpstream(t, true)
		up.On(brokertest.OpMint, fault)
		a := b.ask(t, "up:a:read")
		if a.status != want || strings.Contains(a.body, "canary") {
			t.Errorf("%s: %d %s", fault, a.status, a.body)
		}
		if (a.status == 429 || a.status == 503) && a.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", fault)
		}
	}
}

func TestThirdPartyEnd(t *testing.T) {
	t.Parallel()
	r, up, b := withUpstream(t, true)
	lease := b.ask(t, "up:a:read").text("lease_id")
	task := "/v1/tasks/" + b.task
	r.v1(t, brokertest.Runner, "GET", task+"/receipt", nil).problem(t, "no receipt yet", 409, "conflict")
	r.v1(t, brokertest.Runner, "POST", task+"/complete?wait_seconds=61", nil).problem(t, "too long", 400, "invalid_request")
	r.v1(t, brokertest.Runner, "POST", task+"/complete?wait=1", nil).problem(t, "unknown parameter", 400, "invalid_request")
	up.On(brokertest.OpRevoke, brokertest.Error500)
	a := r.v1(t, brokertest.Runner, "POST", task+"/complete", nil)
	if a.status != 200 || a.number("pending_revocations") != 1 || a.text("receipt") == "" || !strings.Contains(a.body, `"state":"revoking"`) {
		t.Fatalf("%d %s", a.status, a.body)
	}
	waitFor(t, func() bool {
		l := r.v1(t, brokertest.Operator, "GET", "/v1/leases/"+lease, nil)
		return strings.Contains(l.body, `"attempts":1`) || strings.Contains(l.body, `"attempts":2`)
	})
	list := r.v1(t, brokertest.Auditor, "GET", "/v1/providers", nil)
	if list.status != 200 || !strings.Contains(list.body, `"pending_revocations":1`) || !strings.Contains(list.body, `"third_party":true`) {
		t.Errorf("%d %s", list.status, list.body)
	}
	r.v1(t, brokertest.Runner, "GET", "/v1/providers", nil).problem(t, "a runner", 403, "forbidden")
	r.v1(t, brokertest.Runner, "POST", "/v1/leases/"+lease+"/retry", nil).problem(t, "a runner", 403, "forbidden")
	r.v1(t, brokertest.Operator, "POST", "/v1/leases/"+lease+"/force", map[string]any{"reason": ""}).problem(t, "no reason", 400, "invalid_request")
	up.On(brokertest.OpRevoke, "")
	if a := r.v1(t, brokertest.Operator, "POST", "/v1/leases/"+lease+"/retry", nil); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	waitFor(t, func() bool { return len(up.Alive()) == 0 })
	if a = r.v1(t, brokertest.Runner, "POST", task+"/complete?wait_seconds=10", nil); a.number("pending_revocations") != 0 || a.header.Get("Preference-Applied") != "" {
		t.Errorf("%d %s", a.status, a.body)
	}
	r.v1(t, brokertest.Operator, "POST", "/v1/leases/"+lease+"/force", map[string]any{"reason": "x"}).problem(t, "nothing is owed", 409, "conflict")
	a = r.v1(t, brokertest.Auditor, "GET", task+"/receipt", nil)
	keys, err := jose.ParseJWKS(r.env.Broker.JWKS())
	if err != nil {
		t.Fatal(err)
	}
	got, err := receipt.Verify(a.text("receipt"), keys, r.env.Issuer, time.Now())
	if err != nil || !got.Complete || got.Total != 1 || got.Credentials[0].Lease != lease {
		t.Errorf("%+v %v", got, err)
	}
	r.v1(t, brokertest.Runner2, "GET", task+"/receipt", nil).problem(t, "another runner", 404, "not_found")
}

// Operators run a provider self-test: a failed check is a response, not an
// error.
func TestProviderCheck(t *testing.T) {
	t.Parallel()
	r, up, _ := withUpstream(t, true)
	check := func(who, name string, body any) *answer {
		return r.v1(t, who, "POST", "/v1/providers/"+name+"/check", body)
	}
	for _, who := range []string{brokertest.Runner, brokertest.Approver, brokertest.Auditor, brokertest.Server} {
		check(who, "up", map[string]any{"scope": "up:a:read"}).problem(t, who, 403, "forbidden")
	}
	check(brokertest.Operator, "nope", map[string]any{}).problem(t, "unknown", 404, "not_found")
	check(brokertest.Operator, "%00%0a..%2f", map[string]any{}).problem(t, "a hostile name", 404, "not_found")
	check(brokertest.Operator, "orders", map[string]any{}).problem(t, "ebb's own tokens", 404, "not_found")
	check(brokertest.Operator, "up", map[string]any{"scope": "orders:a:read"}).problem(t, "another's scope", 400, "invalid_scope")
	check(brokertest.Operator, "up", map[string]any{"scope": "up:a:read", "ttl_seconds": 9}).problem(t, "too short", 400, "invalid_request")
	check(brokertest.Operator, "up", map[string]any{"public_key": "x"}).problem(t, "unknown member", 400, "invalid_request")
	check(brokertest.Operator, "up", nil).problem(t, "no body", 415, "unsupported_media_type")
	if up.Minted() != 0 {
		t.Fatal("something was minted")
	}
	if a := check(brokertest.Operator, "up", map[string]any{}); a.status != 200 || a.json["ok"] != true || up.Minted() != 0 {
		t.Errorf("the set-up alone: %d %s", a.status, a.body)
	}
	a := check(brokertest.Operator, "up", map[string]any{"scope": "up:a:read", "ttl_seconds": 60})
	if a.status != 200 || a.json["ok"] != true || a.text("lease_id") == "" || up.Minted() != 1 || len(up.Alive()) != 0 || strings.Contains(a.body, "canary") {
		t.Errorf("%d %s", a.status, a.body)
	}
	up.On(brokertest.OpMint, brokertest.DoneCut)
	a = check(brokertest.Operator, "up", map[string]any{"scope": "up:a:read"})
	if a.status != 200 || a.json["ok"] != false || !strings.Contains(a.body, `"step":"mint","ok":false`) || strings.Contains(a.body, "canary") {
		t.Errorf("%d %s", a.status, a.body)
	}
	waitFor(t, func() bool { return len(up.Alive()) == 0 })
}

func waitFor(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(40 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within two minutes")
		}
	}
}
