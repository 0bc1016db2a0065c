package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest"
)

// canary is a secret that a client sends in the wrong place.
const canary = "ebb_tkt_Q3VuZXJ5Q2FuYXJ5"

// TestNothingSentComesBack: a secret that a client sends in the wrong place, as
// a name or a value, is neither in the response nor in the log.
//
//ebb:invariant I8 A decoding error of the API repeats no member name or value that the client sent
//ebb:invariant I8 The log of a request that cannot be decoded repeats no member name or value that the client sent
//ebb:invariant I8 The error for an unknown attestor selector does not repeat the name of the selector that the client sent
func TestNothingSentComesBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{loose: true})
	b := r.sandbox(t)
	logged := 0
	silent := func(what string, a *answer) {
		t.Helper()
		if a.status >= 400 && strings.Contains(a.body, canary) {
			t.Errorf("%s: the answer repeats it: %s", what, a.body)
		}
		log := r.log.String()
		if strings.Contains(log[logged:], canary) {
			t.Errorf("%s: the log repeats it: %s", what, log[logged:])
		}
		logged = len(log)
	}
	with1 := func(s string) string { return strings.ReplaceAll(s, "$", canary) }
	for _, body := range []string{
		`{"$":1}`, `{"a":{"$":1}}`, `{"name":"n","$":1,"$":2}`, `{"labels":{"$":1}}`, `{"labels":{"a":{"$":1}}}`, `{"labels":{"$":"1","$":"2"}}`, `{"name":1,"kind":"$"}`, `{"name":["$"]}`,
		`{"sandbox_expected":{"attestor":"enroll","selectors":{"$":1}}}`, `{"sandbox_expected":{"$":"enroll"}}`, `{"ttl_seconds":"$"}`, `{"ceiling":"$"}`, `{"ceiling":["$"]}`, `{"caps":{"$":1}}`, `{"name":"$}`, `{"name":$}`, `$`, `"$"`, `["$"]`,
		`{"name":"n","kind":"$","ttl_seconds":60,"ceiling":"orders:eu/1:read","sandbox_expected":{"attestor":"enroll"}}`,
		`{"name":"n","kind":"k","ttl_seconds":60,"ceiling":"$:eu/1:read","sandbox_expected":{"attestor":"enroll"}}`,
		`{"name":"n","kind":"k","ttl_seconds":60,"ceiling":"orders:eu/1:read","sandbox_expected":{"attestor":"$"}}`,
		`{"name":"n","kind":"k","ttl_seconds":60,"ceiling":"orders:eu/1:read","sandbox_expected":{"attestor":"enroll","selectors":{"$":"x"}}}`,
		`{"name":"n","kind":"k","ttl_seconds":60,"ceiling":"orders:eu/1:read","labels":{"$ ":"x"},"sandbox_expected":{"attestor":"enroll"}}`,
		`{"name":"n","kind":"k","owner":"$ ","ttl_seconds":60,"ceiling":"orders:eu/1:read","sandbox_expected":{"attestor":"enroll"}}`,
	} {
		for _, path := range []string{"/v1/tasks", "/v1/enroll", "/v1/challenge", "/v1/policy/explain", "/v1/tasks/" + b.task + "/pause", "/v1/tasks/" + b.task + "/taint", "/v1/secrets"} {
			token, who := r.apiToken(t, brokertest.Operator), brokertest.Operator
			req := r.request(http.MethodPost, path, strings.NewReader(with1(body)))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Authorization", "DPoP "+token)
			req.Header.Set("DPoP", r.proof(t, r.env.Keys[who], http.MethodPost, path, token))
			if path == "/v1/enroll" || path == "/v1/challenge" {
				req.Header.Del("Authorization")
				req.Header.Set("DPoP", r.proof(t, b.key, http.MethodPost, path, ""))
			}
			silent(path+" "+body, r.do(t, req))
		}
	}
	for _, path := range []string{tokenURL, "/oauth2/bc-authorize", "/oauth2/introspect", "/oauth2/revoke", "/oauth2/delegate", "/oauth2/credentials"} {
		for _, more := range []string{
			"$=1", "$", "grant_type=$", "grant_type=a&grant_type=$", "scope=$", "scope=orders%3A%24%3Aread+$", "resource=$", "audience=$", "requested_expiry=$", "authorization_details=$", "authorization_details=%5B%7B%22$%22%3A1%7D%5D",
			"authorization_details=%5B%7B%22type%22%3A%22ebb_credential%22%2C%22provider%22%3A%22orders%22%2C%22$%22%3A%22x%22%7D%5D", "authorization_details=%5B%7B%22a%22%3A1%2C%22$%22%3A1%2C%22$%22%3A2%7D%5D", "selectors=%7B%22$%22%3A1%7D", "selectors=%7B%22$%22%3A%22a%22%2C%22$%22%3A%22b%22%7D",
			"selectors=$", "public_key=$", "delivery=$", "tool=$%0A", "subject_token_type=$&subject_token=x", "requested_token_type=$", "client_assertion_type=$&client_assertion=x", "task_id=$", "client_id=$", "depth=$", "uses=$", "grace_seconds=$", "completion_mode=$", "token=$", "deferral_code=$", "%zz$=1",
		} {
			f := b.exchange(canRead)
			if path != tokenURL {
				f = with(url.Values{}, b.assertion(t)...)
			}
			name, _, _ := strings.Cut(more, "=")
			f.Del(name)
			if strings.HasPrefix(more, "client_") {
				f.Del("client_assertion")
				f.Del("client_assertion_type")
			}
			silent(path+" "+more, r.postRaw(t, path, f.Encode()+"&"+with1(more), header("DPoP", r.proof(t, b.key, http.MethodPost, path, ""))))
		}
		silent(path+": query", r.post(t, path+"?"+canary+"=1", url.Values{}))
	}
	for _, at := range []string{"?$=1", "?limit=$", "?state=$", "?task_id=$&task_id=$", "?since=$", "?%zz$", "/$", "?cursor=$"} {
		for _, list := range []string{"/v1/tasks", "/v1/leases", "/v1/requests", "/v1/usage", "/v1/audit", "/v1/transcripts", "/v1/revocations", "/v1/break-glass"} {
			path, query, _ := strings.Cut(with1(at), "?")
			token := r.apiToken(t, brokertest.Operator)
			req := r.request(http.MethodGet, list+path, nil)
			req.URL.RawQuery = query
			req.Header.Set("Authorization", "DPoP "+token)
			req.Header.Set("DPoP", r.proof(t, r.env.Keys[brokertest.Operator], http.MethodGet, list+path, token))
			silent(list+at, r.do(t, req))
		}
	}
}
