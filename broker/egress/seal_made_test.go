package egress_test

import (
	"crypto/x509"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress"
)

// TestAnswersThatMakeNothing: an error response creates no credential, and secrets in it are marked
// as usual. Another spelling of the route, or another method, discloses nothing.
//
//ebb:invariant I8 A request with another spelling of a seal route, or another method, does not return the new credential in clear text
func TestAnswersThatMakeNothing(t *testing.T) {
	t.Parallel()
	k := newTokens(t)
	if _, err := k.x.s.Ask(t, tokenScopes+" web:api.example.com/oauth/**:read"); err != nil {
		t.Fatal(err)
	}
	body := `{"access_token":"` + made + `","error":"slow_down"}`
	for status, want := range map[int]broker.LeaseState{http.StatusBadRequest: broker.LeaseRevoked, http.StatusServiceUnavailable: broker.LeaseRevoked, http.StatusFound: broker.LeaseRevoked} {
		before := len(k.sealedLeases(t, k.x.s.Task.ID))
		k.does(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		})
		res, got := k.login(t, k.x)
		if res.StatusCode != status || got != strings.Replace(body, made, "[redacted]", 1) {
			t.Errorf("%d: %d %s", status, res.StatusCode, got)
		}
		until(t, "nothing is left of it", func() bool {
			n := 0
			for _, l := range k.sealedLeases(t, k.x.s.Task.ID) {
				if l.State == want {
					n++
				}
			}
			return n >= 2 && len(k.sealedLeases(t, k.x.s.Task.ID)) == before+2
		})
	}
	k.says(`{"error":"authorization_pending"}`) // RFC 8628, with the status that some servers use
	if res, got := k.login(t, k.x); res.StatusCode != http.StatusOK || got != `{"error":"authorization_pending"}` {
		t.Errorf("%d %s", res.StatusCode, got)
	}
	k.says(body)
	count := len(k.sealedLeases(t, k.x.s.Task.ID))
	for _, path := range []string{"/oauth/token/", "/oauth/Token", "/oauth/token?x=1"} {
		for _, method := range []string{"POST", "GET", "HEAD", "PUT"} {
			text := ""
			if method == "POST" || method == "PUT" {
				text = "x"
			}
			if res, got := send(t, k.x.client(t, false), method, k.url+path, text); strings.Contains(got, "canary") {
				t.Errorf("%s %s: %d %s", method, path, res.StatusCode, got)
			}
		}
	}
	if n := len(k.sealedLeases(t, k.x.s.Task.ID)); n != count+2 { // POST with a query matches the route
		t.Errorf("%d more", n-count)
	}
	k.does(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = io.WriteString(w, body)
	})
	if res, got := k.login(t, k.x); res.StatusCode != http.StatusBadGateway || !strings.Contains(got, string(egress.BadAnswer)) {
		t.Errorf("compressed: %d %s", res.StatusCode, got)
	}
}

// A credential is replaced whichever success status its response has.
//
//ebb:invariant I2 The egress proxy stores a new credential from an upstream response with any success status
func TestSealedByEachSuccess(t *testing.T) {
	t.Parallel()
	k := newTokens(t)
	if _, err := k.x.s.Ask(t, tokenScopes); err != nil {
		t.Fatal(err)
	}
	for _, status := range []int{200, 201, 202, 203, 206, 226, 299} {
		k.does(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"access\u005ftoken":"`+made+`"}`)
		})
		if res, body := k.login(t, k.x); res.StatusCode != status || strings.Contains(body, made) || !strings.Contains(body, egress.Prefix) {
			t.Errorf("%d: %d %s", status, res.StatusCode, body)
		}
	}
}

// A request without a connection has created nothing, and does not count for max_live. The result
// of a request that was sent is unknown.
//
//ebb:invariant I12 If no connection to the upstream was made, leases reserved for credentials in its response are settled and leave no pending revocation
func TestSealingWithoutAConnection(t *testing.T) {
	t.Parallel()
	k := newTokens(t)
	for name, c := range map[string]struct {
		change func(p *egress.Config)
		want   broker.LeaseState
	}{
		"no address":        {func(p *egress.Config) { p.Dialer = &egress.Dialer{Resolver: &names{}} }, broker.LeaseRevoked},
		"may not be dialed": {func(p *egress.Config) { p.Dialer = &egress.Dialer{Resolver: k.names} }, broker.LeaseRevoked},
		"not who it is":     {func(p *egress.Config) { p.Roots = x509.NewCertPool() }, broker.LeaseRevoked},
		"hangs up":          {func(*egress.Config) {}, broker.LeaseRevoking},
	} {
		k.does(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		k.with(t, func(p *egress.Config) {
			p.Leases, p.Record, p.Answers = k.Broker, k.Broker, k.Broker
			c.change(p)
		})
		x := k.another(t)
		if _, err := x.s.Ask(t, tokenScopes); err != nil {
			t.Fatal(err)
		}
		if res, _ := k.login(t, x); res.StatusCode < 400 {
			t.Errorf("%s: %d", name, res.StatusCode)
		}
		until(t, name+" is settled", func() bool {
			ls := k.sealedLeases(t, x.s.Task.ID)
			return len(ls) == 2 && !slices.ContainsFunc(ls, func(l broker.Lease) bool {
				return l.State != c.want || (l.Upstream.Proof == broker.ProofNever) != (c.want == broker.LeaseRevoked)
			})
		})
	}
}
