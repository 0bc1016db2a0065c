package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest"
)

// owned lists the credentials of b, with a client assertion.
func (b *box) owned(t testing.TB) *answer {
	t.Helper()
	return b.r.post(t, "/oauth2/credentials", with(url.Values{}, b.assertion(t)...), b.prove(t))
}

// names are the lease ids of a listing.
func names(a *answer) (out []string) {
	items, _ := a.json["items"].([]any)
	for _, item := range items {
		name, _ := item.(map[string]any)["lease_id"].(string)
		out = append(out, name)
	}
	return out
}

// A sandbox lists and revokes its own credentials by id, and none of others.
//
//ebb:invariant I2 The list of credentials that a sandbox can read contains only the credentials issued to that sandbox
//ebb:invariant I2 A sandbox that revokes a credential by its lease ID can revoke only its own credentials
func TestOwnCredentials(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b, other := r.sandbox(t), r.sandbox(t)
	if got := b.owned(t); got.status != http.StatusOK || len(names(got)) != 0 {
		t.Fatalf("before anything: %d %s", got.status, got.body)
	}
	mine, theirs := b.access(t, canRead), other.access(t, canRead)
	a, o := b.owned(t), other.owned(t)
	if len(names(a)) != 1 || len(names(o)) != 1 || names(a)[0] == names(o)[0] || a.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("%s and %s", a.body, o.body)
	}
	for _, said := range []string{mine, theirs, other.task, brokertest.Runner, "rule", "owner", "cnf"} {
		if strings.Contains(a.body, said) {
			t.Errorf("the listing holds %q: %s", said, a.body)
		}
	}
	revoke := func(name string) {
		if got := b.revoke(t, name); got.status != http.StatusOK {
			t.Errorf("revoking %s: %d %s", name, got.status, got.body)
		}
	}
	revoke(names(o)[0])
	if !r.active(t, theirs) || !strings.Contains(other.owned(t).body, `"live"`) {
		t.Error("a sandbox ended another's credential")
	}
	revoke(names(a)[0])
	if after := b.owned(t); r.active(t, mine) || !strings.Contains(after.body, `"revoked"`) {
		t.Errorf("after its end: %s", after.body)
	}
}

// Callers without a sandbox, or with a closed task, get nothing.
func TestOwnCredentialsStrangers(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b, other := r.sandbox(t), r.sandbox(t)
	b.access(t, canRead)
	ask := func(name string, status int, code string, f url.Values, mods ...func(*http.Request)) {
		got := r.post(t, "/oauth2/credentials", f, mods...)
		got.want(t, name, status, code)
		if strings.Contains(got.body, "lse_") {
			t.Errorf("%s: %s", name, got.body)
		}
	}
	ask("nobody", 401, "invalid_client", url.Values{})
	ask("a key alone", 401, "invalid_client", url.Values{}, b.prove(t))
	ask("no proof", 400, "invalid_dpop_proof", with(url.Values{}, b.assertion(t)...))
	ask("the proof of another", 400, "invalid_dpop_proof", with(url.Values{}, b.assertion(t)...), other.prove(t))
	ask("an operator", 401, "invalid_client", r.client(t, brokertest.Operator, url.Values{}), b.prove(t))
	ask("another task by name", 401, "invalid_client", with(url.Values{"task_id": {b.task}, "client_id": {b.client}}, other.assertion(t)...), other.prove(t))
	r.v1(t, brokertest.Runner, http.MethodPost, "/v1/tasks/"+b.task+"/complete", nil)
	ask("after the end", 401, "invalid_client", with(url.Values{}, b.assertion(t)...), b.prove(t))
}
