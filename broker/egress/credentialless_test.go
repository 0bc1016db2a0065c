package egress_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/egress"
	web "github.com/ebb-broker/ebb/broker/provider/http"
	"github.com/ebb-broker/ebb/scopes"
)

// public returns a bed with a second provider, whose requests need no credential.
func public(t *testing.T) (*bed, *sandbox, string) {
	t.Helper()
	b := newBed(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/docs/events" {
			ticks(w, r)
			return
		}
		w.Header().Set("Set-Cookie", "session=1")
		w.Header().Set("Content-Length", strconv.Itoa(len("page")))
		_, _ = io.WriteString(w, "page")
	})
	_, port, _ := strings.Cut(b.host, ":")
	n, _ := strconv.Atoi(port)
	d, err := web.New("web", web.Config{Allow: []string{"api.example.com/docs/**:read", "www.example.com/**:read"}, Port: uint16(n)})
	if err != nil {
		t.Fatal(err)
	}
	c := b.Config
	c.Registerer, c.Providers = nil, map[string]broker.Provider{"stripe": c.Providers["stripe"], "web": {Driver: d, Kind: "http", Resource: "https://web.test/"}}
	if b.Broker, err = core.New(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	b.with(t, func(p *egress.Config) { p.Leases, p.Record = b.Broker, b.Broker })
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("stripe:**:* web:**:*")
	x := b.boxOf(t, b.Open(t, spec))
	return b, x, "https://" + b.host
}

// TestCredentiallessRequests (E46, E75, E76): a request without a placeholder is sent only if a
// credential-less lease covers it.
//
//ebb:invariant I6 A request without a placeholder is sent only under a credential-less lease of the same task that covers the request
func TestCredentiallessRequests(t *testing.T) {
	t.Parallel()
	b, x, host := public(t)
	c := x.client(t, false)
	refused := func(when, method, url string, headers ...string) {
		t.Helper()
		before := len(b.arrived())
		res, body := send(t, c, method, url, "", headers...)
		if res.StatusCode == http.StatusOK || len(b.arrived()) != before {
			t.Errorf("%s: %s %s: %d %s", when, method, url, res.StatusCode, body)
		}
	}
	refused("without a lease", "GET", host+"/docs/a")
	stripe := x.placeholder(t, "stripe:charges:read")
	refused("with another's lease", "GET", host+"/docs/a")
	tok, err := x.s.Ask(t, "web:api.example.com/docs/**:read")
	if err != nil {
		t.Fatal(err)
	}
	res, body := send(t, c, "GET", host+"/docs/a?q=1", "", "Authorization", "Bearer mine", "X-Api-Key", "mine", "Cookie", "a=b")
	if res.StatusCode != http.StatusOK || body != "page" || res.ContentLength != 4 || res.Header.Get("Set-Cookie") != "" {
		t.Fatalf("%d %q %v", res.StatusCode, body, res.Header)
	}
	seen := b.arrived()
	if h := seen[len(seen)-1].Header; h.Get("Authorization")+h.Get("X-Api-Key")+h.Get("Cookie") != "" {
		t.Errorf("it left with %v", h)
	}
	kinds := ""
	for _, e := range b.uses(t, x.s.Task.ID) {
		if e.LeaseID == tok.LeaseID {
			kinds += e.Kind + " "
		}
	}
	if !strings.Contains(kinds, audit.EgressAllowed) {
		t.Errorf("in the audit log: %q", kinds)
	}
	if res, body := send(t, c, "GET", host+"/docs/a", "what the box knows"); res.StatusCode != http.StatusUnauthorized || len(b.arrived()) != 1 {
		t.Errorf("a read with a body: %d %s", res.StatusCode, body)
	}
	refused("another path", "GET", host+"/v1/charges")
	refused("another method", "POST", host+"/docs/a")
	refused("another host", "GET", strings.Replace(host, "api.", "www.", 1)+"/docs/a")
	refused("two paths in one", "GET", host+"/docs/..%2fv1")
	refused("a credential in the query", "GET", host+"/docs/a?access_token=mine")
	refused("a placeholder of nothing", "GET", host+"/docs/a", "Authorization", "Bearer "+egress.Prefix)
	refused("another's placeholder", "GET", host+"/docs/a", "Authorization", "Bearer "+stripe)
	refused("a stray placeholder", "GET", host+"/docs/a?x="+tok.Token.Reveal())
	if _, err := b.Broker.RevokeLease(t.Context(), b.Principals[brokertest.Operator], tok.LeaseID, "over"); err != nil {
		t.Fatal(err)
	}
	refused("when it is over", "GET", host+"/docs/a")
}

// A lease of one sandbox does not cover requests of another.
//
//ebb:invariant I6 A request without a placeholder is sent only under a credential-less lease of the same task that covers the request
func TestBareIsOfOneTask(t *testing.T) {
	t.Parallel()
	b, x, host := public(t)
	if _, err := x.s.Ask(t, "web:api.example.com/docs/**:read"); err != nil {
		t.Fatal(err)
	}
	other := b.sandbox(t)
	if res, body := send(t, other.client(t, false), "GET", host+"/docs/a", ""); res.StatusCode != http.StatusUnauthorized || len(b.arrived()) != 0 {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}
