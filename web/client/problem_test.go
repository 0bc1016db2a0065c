package client_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

func TestProblems(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name   string
		status int
		kind   string
		retry  string
		body   string
		want   client.Problem
	}{
		{"problem document", 409, "application/problem+json; charset=utf-8", "", `{"type":"https://ebb.test/problems/conflict","title":"Conflict","status":409,"detail":"Look again.","instance":"i"}`,
			client.Problem{Kind: wire.KindConflict, Title: "Conflict", Detail: "Look again.", Instance: "i"}},
		{"oauth error", 400, "application/json", "", `{"error":"invalid_scope","error_description":"Ask for less."}`,
			client.Problem{Kind: wire.KindInvalidScope, Detail: "Ask for less."}},
		{"names that differ", 400, "application/json", "", `{"error":"interaction_required"}`, client.Problem{Kind: wire.KindAskRequired}},
		{"forbidden", 400, "application/json", "", `{"error":"unauthorized_client"}`, client.Problem{Kind: wire.KindForbidden}},
		{"rate", 429, "application/json", "3", `{"error":"temporarily_unavailable"}`, client.Problem{Kind: wire.KindTooMany, RetryAfter: 3 * time.Second}},
		{"unavailable", 503, "application/problem+json", "7", `{"type":"https://ebb.test/problems/temporarily_unavailable"}`, client.Problem{Kind: wire.KindUnavailable, RetryAfter: 7 * time.Second}},
		{"date", 503, "application/problem+json", "Fri, 20 Nov 2026 12:00:30 GMT", `{"type":"x/temporarily_unavailable"}`, client.Problem{Kind: wire.KindUnavailable, RetryAfter: 31 * time.Second}},
		{"absurd wait", 503, "application/problem+json", "99999999999999", `{"type":"x/temporarily_unavailable"}`, client.Problem{Kind: wire.KindUnavailable, RetryAfter: 7 * 24 * time.Hour}},
		{"negative wait", 503, "application/problem+json", "-5", `{"type":"x/temporarily_unavailable"}`, client.Problem{Kind: wire.KindUnavailable}},
		{"a proxy's page", 502, "text/html", "", `<h1>Bad gateway</h1>`, client.Problem{Detail: "the response is not from ebb; check the URL of ebb"}},
		{"a proxy's 503", 503, "text/html", "", `down`, client.Problem{Kind: wire.KindUnavailable, Detail: "the proxy cannot reach ebb; try again later"}},
		{"not an error object", 400, "application/json", "", `[1]`, client.Problem{Detail: "the response is not from ebb; check the URL of ebb"}},
		{"empty object", 400, "application/json", "", `{}`, client.Problem{Detail: "the response is not from ebb; check the URL of ebb"}},
		{"huge", 400, "application/json", "", `{"error":"` + strings.Repeat("x", 1<<20) + `"}`, client.Problem{Detail: "the response is not from ebb; check the URL of ebb"}},
		{"advice", 403, "application/problem+json", "", `{"type":"x/access_denied","advice":{"decision":"denied","code":"too_broad","would_allow":"orders:eu/1:read","retry_after_s":60,"do_not_retry_same":true}}`,
			client.Problem{Kind: wire.KindDenied, Advice: &wire.Advice{Code: wire.DenyTooBroad}}},
		{"advice that is a command", 403, "application/problem+json", "", `{"type":"x/access_denied","advice":{"would_allow":"orders:eu/1:read$(x)"}}`,
			client.Problem{Kind: wire.KindDenied}},
		{"advice with an escape sequence", 403, "application/problem+json", "", `{"type":"x/access_denied","advice":{"would_allow":"orders:eu/\u001b[31m:read"}}`,
			client.Problem{Kind: wire.KindDenied}},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", tc.kind)
			if tc.retry != "" {
				w.Header().Set("Retry-After", tc.retry)
			}
			w.WriteHeader(tc.status)
			_, _ = io.WriteString(w, tc.body)
		}))
		key, _ := newKey(t)
		o, err := client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: srv.URL, Now: func() time.Time { return now }}, ClientID: "x", Key: key})
		if err != nil {
			t.Fatal(err)
		}
		_, err = o.Tasks.Get(t.Context(), "x")
		srv.Close()
		got, ok := errors.AsType[*client.Problem](err)
		if !ok {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if (got.Advice == nil) != (tc.want.Advice == nil) || got.Advice != nil && (got.Advice.Code != tc.want.Advice.Code || got.Advice.WouldAllow == "") {
			t.Errorf("%s: advice %+v", tc.name, got.Advice)
		}
		flat := *got
		flat.Advice, flat.Pending = nil, nil
		tc.want.Advice, tc.want.Status = nil, tc.status
		if !reflect.DeepEqual(flat, tc.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", tc.name, flat, tc.want)
		}
	}
}

// A redirect must not carry a token, a ticket or an assertion.
func TestRedirectNotFollowed(t *testing.T) {
	t.Parallel()
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("followed to %s", r.URL) }))
	defer thief.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		srv := httptest.NewServer(http.RedirectHandler(thief.URL, status))
		key, _ := newKey(t)
		o, err := client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: srv.URL}, ClientID: "x", Key: key})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Tasks.Get(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "redirect") {
			t.Errorf("%d: %v", status, err)
		}
		srv.Close()
	}
}

// Responses with status 200 and invalid content.
func TestBadSuccess(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"no token":      `{"token_type":"DPoP","expires_in":60}`,
		"no type":       `{"access_token":"SECRET","expires_in":60}`,
		"unknown type":  `{"access_token":"SECRET","token_type":"N_A","expires_in":60}`,
		"no expiry":     `{"access_token":"SECRET","token_type":"DPoP"}`,
		"negative":      `{"access_token":"SECRET","token_type":"DPoP","expires_in":-1}`,
		"string expiry": `{"access_token":"SECRET","token_type":"DPoP","expires_in":"60"}`,
		"cut":           `{"access_token":"SECRET"`,
		"not JSON":      `SECRET`,
		"too large":     `{"x":"` + strings.Repeat("SECRET", 3<<20) + `"}`,
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, body)
		}))
		key, _ := newKey(t)
		o, err := client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: srv.URL}, ClientID: "x", Key: key})
		if err != nil {
			t.Fatal(err)
		}
		_, err = o.Tasks.Get(t.Context(), "x")
		srv.Close()
		if err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, err), "SECRET") {
			t.Errorf("%s: error %.200v", name, err)
		}
	}
}

func FuzzProblem(f *testing.F) {
	f.Add(400, "application/json", "3", []byte(`{"error":"authorization_pending","deferral_code":"c","interval":5,"expires_in":60}`))
	f.Add(403, "application/problem+json", "", []byte(`{"type":"x/access_denied","advice":{}}`))
	f.Add(200, "application/json", "", []byte(`{"access_token":"t","token_type":"DPoP","expires_in":1e9}`))
	key, _ := newKey(f)
	f.Fuzz(func(t *testing.T, status int, kind, retry string, body []byte) {
		rt := roundTrip(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}, "Retry-After": {retry}}, Body: io.NopCloser(strings.NewReader(string(body))), Request: r}, nil
		})
		o, err := client.NewOperator(client.OperatorConfig{Config: client.Config{Issuer: issuer, HTTP: &http.Client{Transport: rt}}, ClientID: "x", Key: key})
		if err != nil {
			t.Fatal(err)
		}
		_, err = o.Tasks.Get(t.Context(), "x")
		if p, ok := errors.AsType[*client.Problem](err); ok && (p.RetryAfter < 0 || p.RetryAfter > 7*24*time.Hour || p.Pending != nil && p.Pending.Interval < 0) {
			t.Errorf("%+v", p)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
