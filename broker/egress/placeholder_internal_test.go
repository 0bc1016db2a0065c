package egress

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/stricturl"
)

// FuzzPlaceholder (E75, E78): a request that is accepted with one placeholder contains no other
// placeholder, in any header or spelling, and no credential of the sandbox itself.
func FuzzPlaceholder(f *testing.F) {
	const id = "lse_01a2026dfee7777f927bf305be517957"
	for _, seed := range [][3]string{
		{"Authorization", "Bearer " + Prefix + id, "a=1"},
		{"X-Api-Key", Prefix + id, "api_key=%65bb-placeholder." + id},
		{"Authorization", "Basic eDplYmItcGxhY2Vob2xkZXIueA==", "access_token=" + Prefix + id},
		{"X_Api_Key", Prefix + id, ""}, {"Ebb-Placeholder.x", "y", "EBB-PLACEHOLDER.x=1"}, {"Cookie", "a=" + Prefix + id, "q=a+b&&=&key"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, name, value, rawQuery string) {
		query, err := stricturl.Query(rawQuery)
		if err != nil {
			return
		}
		r := &http.Request{Method: http.MethodGet, Host: "api.example.com", URL: &url.URL{Path: "/v1/x", RawQuery: rawQuery}, Header: http.Header{}}
		r.Header[http.CanonicalHeaderKey(name)] = []string{value}
		found, err := placeholderOf(r, query)
		if err != nil || Clean(r.Header) != nil {
			return
		}
		dropPlaceholder(r)
		if strings.ContainsAny(found, " \t,;") && strings.Contains(found, Prefix) {
			t.Errorf("the lease is %q", found)
		}
		left, err := stricturl.Query(r.URL.RawQuery)
		if err != nil {
			t.Fatalf("%q became %q, which is not a query: %v", rawQuery, r.URL.RawQuery, err)
		}
		for k, vs := range left {
			for _, v := range vs {
				if holds(k) || holds(v) || isCredentialParameter(k) {
					t.Errorf("of the query %q=%q leaves", k, v)
				}
			}
		}
		for k, vs := range r.Header {
			if holds(k) || holds(strings.Join(vs, " ")) || carriesCredential(k) || strings.Contains(k, "_") {
				t.Errorf("the header %q: %q leaves", k, vs)
			}
		}
	})
}

// An AWS signature that no injector has replaced keeps the request from being sent.
//
//ebb:invariant I6 A request that still contains a placeholder after injection, for example in an AWS signature, is not sent
func TestClaimsLeftOver(t *testing.T) {
	t.Parallel()
	claim := awsScheme + " Credential=" + Prefix + "lse_1/20261122/eu-central-1/s3/aws4_request, SignedHeaders=host, Signature=0"
	for _, c := range []struct {
		h     http.Header
		claim bool
		stray bool
	}{
		{http.Header{"Authorization": {claim}}, true, true},
		{http.Header{"Authorization": {claim, claim}}, false, true},
		{http.Header{"Authorization": {"Bearer x"}}, false, false},
		{http.Header{"Authorization": {strings.Replace(claim, Prefix, "AKIA", 1)}}, false, false},
		{http.Header{"X-Api-Key": {"x", Prefix + "lse_1"}}, false, true},
	} {
		if got := awsClaim(c.h) != ""; got != c.claim {
			t.Errorf("%v: a claim: %v", c.h, got)
		}
		if got := strayIn(c.h); got != c.stray {
			t.Errorf("%v: stray: %v", c.h, got)
		}
	}
}
