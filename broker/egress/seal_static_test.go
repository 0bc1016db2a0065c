package egress_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provider/static"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

const clientScopes = "web:token:create web:data:read"

// newClients returns a bed with a token endpoint that authenticates clients by their secret (RFC
// 6749 section 2.3.1), which the provider of kind static adds. Its only host is that endpoint.
func newClients(t *testing.T) *tokens {
	t.Helper()
	k := newTokensOf(t, "static", func(k *tokens) (provider.Driver, error) {
		return static.New("web", static.Config{
			Secret: "stripe", Hosts: []string{k.host}, Inject: static.Place{Basic: &static.Basic{User: "client-1"}},
			Grants: provider.Grants[static.Rule]{
				"token": {"create": {Rule: stricturl.Rule{Methods: []string{"POST"}, Paths: []string{"/oauth/**"}}}},
				"data":  {"read": {Rule: stricturl.Rule{Methods: []string{"GET"}, Paths: []string{"/v1/**"}}}},
				"more":  {"read": {Rule: stricturl.Rule{Methods: []string{"GET"}, Paths: []string{"/v2/**"}}}},
			},
			SealResponse: []provider.SealRoute{{Method: "POST", Host: k.host, Path: "/oauth/token", Members: []string{"access_token"}, Use: []string{"data:read"}}},
		}, k.secrets, nil)
	})
	k.does(func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user != "client-1" || password != canary {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"access_token":"`+made+`","token_type":"Bearer","expires_in":3600,"refresh_token":"rt_canary_x","client":"`+canary+`"}`)
	})
	return k
}

// asked returns a lease for the login, and the Basic header in which a tool has put its placeholder
// as the client secret.
func (k *tokens) asked(t *testing.T, x *sandbox) (tok broker.Token, header string) {
	t.Helper()
	tok, err := x.s.Ask(t, clientScopes)
	if err != nil {
		t.Fatal(err)
	}
	return tok, "Basic " + base64.StdEncoding.EncodeToString([]byte("my-client:"+tok.Token.Reveal()))
}

// TestSealedOfAClient (E89): a client logs in with a secret that ebb adds, and continues with the
// resulting token, which no sandbox sees. The secret is sent only to the token endpoint, and the
// token only to the hosts of its configuration.
//
//ebb:invariant I6 The secret that logs in at a token endpoint is added to no request that is meant for the resulting token
func TestSealedOfAClient(t *testing.T) {
	t.Parallel()
	k := newClients(t)
	parent, basic := k.asked(t, k.x)
	for _, header := range []string{basic, "Bearer " + parent.Token.Reveal()} {
		res, body := k.login(t, k.x, "Authorization", header)
		if res.StatusCode != http.StatusOK || strings.Contains(body, "canary") || !strings.Contains(body, egress.Prefix) {
			t.Fatalf("%d %s", res.StatusCode, body)
		}
	}
	token := k.token(t, k.x, "Authorization", basic)
	if !k.works(t, k.x, token, "/v1/a") {
		t.Error("it does not work")
	}
	for _, l := range k.sealedLeases(t, k.x.s.Task.ID) {
		if l.ParentID != parent.LeaseID || l.Scopes.String() != "web:data:read" || l.Provider != "web" || strings.Contains(l.Upstream.Handle, "canary") || l.Class != provider.ClassTTLOnly {
			t.Errorf("%+v", l)
		}
	}
	k.recorded(t, strings.TrimPrefix(token, egress.Prefix), parent.LeaseID)
	before := len(k.arrived())
	for what, try := range map[string][3]string{
		"the secret, at what it gives a token for": {"GET", "/v1/a", "Bearer " + parent.Token.Reveal()},
		"the secret, at a scope of no lease":       {"GET", "/v2/a", "Bearer " + parent.Token.Reveal()},
		"the token, at the token endpoint":         {"POST", "/oauth/token", "Bearer " + token},
		"the token, at a scope of no use":          {"GET", "/v2/a", "Bearer " + token},
		"no placeholder":                           {"POST", "/oauth/token", "Basic " + base64.StdEncoding.EncodeToString([]byte("client-1:guess"))},
	} {
		if res, body := send(t, k.x.client(t, false), try[0], k.url+try[1], "", "Authorization", try[2]); res.StatusCode < 400 || strings.Contains(body, "canary") {
			t.Errorf("%s: %d %s", what, res.StatusCode, body)
		}
	}
	if n := len(k.arrived()) - before; n != 0 {
		t.Errorf("%d have left", n)
	}
}

// TestSealedOfAClientElsewhere (E77): the token is not valid for other hosts, other tasks or other
// tools than those of its lease, nor after the end of the lease.
func TestSealedOfAClientElsewhere(t *testing.T) {
	t.Parallel()
	k := newClients(t)
	x := k.another(t)
	r := x.s.Request(t, clientScopes)
	r.Tool = "curl"
	parent, err := k.Broker.Token(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	token := k.token(t, x, "Authorization", "Bearer "+parent.Token.Reveal())
	if !k.works(t, x, token, "/v1/a") {
		t.Error("it does not work")
	}
	_, port, _ := strings.Cut(k.host, ":")
	for _, host := range []string{"www.example.com:" + port, "api.example.com", "api.example.com.:" + port} {
		if k.worksAt(t, x, token, "https://"+host+"/v1/a") {
			t.Errorf("it works at %s", host)
		}
	}
	if k.works(t, k.another(t), token, "/v1/a") {
		t.Error("another task has it, too")
	}
	git := k.boxOfTool(t, x.s, "git")
	if k.works(t, git, token, "/v1/a") {
		t.Error("another tool has it, too")
	}
	if _, body := k.login(t, git, "Authorization", "Bearer "+parent.Token.Reveal()); strings.Contains(body, egress.Prefix) {
		t.Error("another tool logs in by it")
	}
	if !k.works(t, k.boxOfTool(t, x.s, "curl"), token, "/v1/a") {
		t.Error("its tool has it not")
	}
	if _, err := k.Broker.RevokeLease(t.Context(), k.Principals[brokertest.Operator], parent.LeaseID, "over"); err != nil {
		t.Fatal(err)
	}
	if k.works(t, x, token, "/v1/a") {
		t.Error("it works after its lease has ended")
	}
	if _, err := k.Broker.CompleteTask(t.Context(), k.Principals[brokertest.Runner], x.s.Task.ID, 0); err != nil {
		t.Fatal(err)
	}
	for _, l := range k.sealedLeases(t, x.s.Task.ID) {
		if l.State == broker.LeaseLive || l.State == broker.LeaseIntent {
			t.Errorf("the record says %s", l.State)
		}
	}
}
