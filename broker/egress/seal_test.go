package egress_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/provider"
	web "github.com/ebb-broker/ebb/broker/provider/http"
	"github.com/ebb-broker/ebb/scopes"
)

// made is the token that the upstream returns, and that no sandbox may see.
const made = "at_canary_made_0123456789"

// tokens is a bed with a provider whose token endpoint returns a set response. Requests to /v1/ get
// their credential back.
type tokens struct {
	*bed
	x      *sandbox
	url    string
	answer atomic.Pointer[http.HandlerFunc]
	store  downStore
}

// downStore is a database that stores no result of an intent while it is down.
type downStore struct {
	broker.Store
	down atomic.Bool
}

func (j *downStore) Append(ctx context.Context, r broker.Record) error {
	if j.down.Load() && r.SettleLease != nil {
		return errors.New("down")
	}
	return j.Store.Append(ctx, r)
}

const tokenScopes = "web:api.example.com/oauth/**:write web:api.example.com/v1/**:read"

func newTokens(t *testing.T) *tokens {
	t.Helper()
	return newTokensOf(t, "http", func(k *tokens) (provider.Driver, error) {
		_, port, _ := strings.Cut(k.host, ":")
		n, _ := strconv.Atoi(port)
		return web.New("web", web.Config{
			Allow: []string{"api.example.com/oauth/**:write", "api.example.com/oauth/**:read", "api.example.com/v1/**:read", "api.example.com/v2/**:read"}, Port: uint16(n),
			SealResponse: []provider.SealRoute{{Method: "POST", Host: "api.example.com", Path: "/oauth/token", Members: []string{"access_token", "id_token"}, Use: []string{"api.example.com/v1/**:read"}}},
		})
	})
}

// newTokensOf is the same with a provider "web" of another kind.
func newTokensOf(t *testing.T, kind string, of func(*tokens) (provider.Driver, error)) *tokens {
	t.Helper()
	k := &tokens{}
	k.bed = newBed(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if strings.HasPrefix(strings.ToLower(r.URL.Path), "/oauth") {
			(*k.answer.Load())(w, r)
			return
		}
		_, _ = io.WriteString(w, r.Header.Get("Authorization")+" "+r.Header.Get("X-Api-Key"))
	})
	d, err := of(k)
	if err != nil {
		t.Fatal(err)
	}
	c := k.Config
	k.store.Store = c.Store
	c.Store, c.Registerer, c.Providers = &k.store, nil, map[string]broker.Provider{"stripe": c.Providers["stripe"], "web": {Driver: d, Kind: kind, Resource: "https://web.test/"}}
	if k.Broker, err = core.New(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	k.with(t, func(p *egress.Config) { p.Leases, p.Record, p.Answers = k.Broker, k.Broker, k.Broker })
	k.x, k.url = k.another(t), "https://"+k.host
	k.says(`{"access_token":"` + made + `","token_type":"Bearer","expires_in":3600}`)
	return k
}

// another returns the sandbox of another task.
func (k *tokens) another(t *testing.T) *sandbox {
	t.Helper()
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("stripe:**:* web:**:*")
	return k.boxOf(t, k.Open(t, spec))
}

func (k *tokens) says(body string) {
	k.does(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
}

func (k *tokens) does(h http.HandlerFunc) { k.answer.Store(&h) }

// login sends a request to the token endpoint, and returns the response.
func (k *tokens) login(t *testing.T, x *sandbox, headers ...string) (*http.Response, string) {
	t.Helper()
	return send(t, x.client(t, false), "POST", k.url+"/oauth/token", "grant_type=x", headers...)
}

// token returns the placeholder that a login has returned.
func (k *tokens) token(t *testing.T, x *sandbox, headers ...string) string {
	t.Helper()
	res, body := k.login(t, x, headers...)
	var a struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(body), &a); res.StatusCode != http.StatusOK || err != nil || !strings.HasPrefix(a.Token, egress.Prefix) {
		t.Fatalf("%d %s (%v)", res.StatusCode, body, err)
	}
	return a.Token
}

// works reports whether a sandbox can use a placeholder for a request.
func (k *tokens) works(t *testing.T, x *sandbox, token, path string) bool {
	t.Helper()
	return k.worksAt(t, x, token, k.url+path)
}

// worksAt is works for another URL than the bed's.
func (k *tokens) worksAt(t *testing.T, x *sandbox, token, url string) bool {
	t.Helper()
	before := len(k.arrived())
	res, body, err := try(t, x.client(t, false), "GET", url, "", "Authorization", "Bearer "+token)
	if strings.Contains(body, made) {
		t.Errorf("the sandbox sees the token: %s", body)
	}
	seen := k.arrived()[before:]
	good := err == nil && res.StatusCode == http.StatusOK
	if got := len(seen) == 1 && seen[0].Header.Get("Authorization") == "Bearer "+made; got != good || len(seen) > 1 {
		t.Errorf("%v, and the upstream has got %v", res, seen)
	}
	return good
}

// sealedLeases returns the leases of a task that have a parent.
func (k *tokens) sealedLeases(t *testing.T, taskID string) (all []broker.Lease) {
	t.Helper()
	ls, err := k.Config.Store.Leases(t.Context(), broker.LeaseFilter{TaskID: taskID, Now: k.Config.Now(), Handles: true, Page: broker.Page{Limit: 100}})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range ls {
		if l.ParentID != "" {
			all = append(all, l)
		}
	}
	return all
}

// TestSealedAnswer (E89): the sandbox gets a placeholder, and can use it where the configuration
// allows. The token is visible nowhere. Its lease is in the audit log.
//
//ebb:invariant I8 A sandbox that gets a placeholder for a credential created in a response does not also get the credential
//ebb:invariant I8 Copies of a sealed credential in other members, headers and trailers of the same response are replaced by marks
func TestSealedAnswer(t *testing.T) {
	t.Parallel()
	k := newTokens(t)
	parent, err := k.x.s.Ask(t, tokenScopes)
	if err != nil {
		t.Fatal(err)
	}
	k.does(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Copy", "v="+made)
		w.Header().Set("Trailer", "X-Last")
		for _, c := range `{"token_type":"Bearer", "\u0061ccess_token" : "\u0061t_canary_made_0123456789","note":"` + made + `","other":"at\u005fcanary_made_0123456789","refresh_token":"rt_canary_x","expires_in":300}` {
			_, _ = fmt.Fprint(w, string(c))
			_ = http.NewResponseController(w).Flush()
		}
		w.Header().Set("X-Last", made)
	})
	res, body := k.login(t, k.x)
	var a map[string]any
	if err := json.Unmarshal([]byte(body), &a); err != nil || res.StatusCode != http.StatusOK || int64(len(body)) != res.ContentLength {
		t.Fatalf("%d %s: %v", res.StatusCode, body, err)
	}
	token, _ := a["access_token"].(string)
	if all := body + fmt.Sprint(res.Header, res.Trailer); strings.Contains(all, "canary") || a["note"] != "[redacted]" || a["other"] != "[redacted]" || a["refresh_token"] != "[redacted]" || a["token_type"] != "Bearer" || !strings.HasPrefix(token, egress.Prefix) {
		t.Fatalf("the sandbox got %s", all)
	}
	if !k.works(t, k.x, token, "/v1/a") {
		t.Error("it does not work")
	}
	for _, path := range []string{"/v2/a", "/oauth/x"} {
		if k.works(t, k.x, token, path) {
			t.Errorf("it works for %s", path)
		}
	}
	if res, _ := send(t, k.x.client(t, false), "GET", k.url+"/v1/a", ""); res.StatusCode != http.StatusOK || k.arrived()[len(k.arrived())-1].Header.Get("Authorization") != "" {
		t.Error("it is added to what does not name it")
	}
	if k.works(t, k.another(t), token, "/v1/a") {
		t.Error("another sandbox can use it, too")
	}
	ls := k.sealedLeases(t, k.x.s.Task.ID)
	live := 0
	for _, l := range ls {
		if l.ParentID != parent.LeaseID || l.Sandbox == "" || l.Delivery != "egress" || l.Scopes.String() != "web:api.example.com/v1/**:read" || strings.Contains(l.Upstream.Handle, "canary") {
			t.Errorf("%+v", l)
		}
		if l.State == broker.LeaseLive {
			live++
			if egress.Prefix+l.ID != token || l.Upstream.Handle == "" || l.ExpiresAt.Sub(l.IssuedAt) > 5*time.Minute+time.Minute {
				t.Errorf("%+v", l)
			}
		}
	}
	if live != 1 || len(ls) != 2 {
		t.Errorf("%d of %d live", live, len(ls))
	}
	k.recorded(t, strings.TrimPrefix(token, egress.Prefix), parent.LeaseID)
}

// recorded checks that the audit log has the creation of the credential, its parent, and its use.
func (k *tokens) recorded(t *testing.T, leaseID, parentID string) {
	t.Helper()
	es, err := k.Broker.Entries(t.Context(), k.Principals[brokertest.Auditor], broker.EntryFilter{TaskID: k.x.s.Task.ID})
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for e, err := range es {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(e.Data), "canary") {
			t.Errorf("in the audit log: %s", e.Data)
		}
		if e.LeaseID != leaseID {
			continue
		}
		kinds = append(kinds, e.Kind)
		if e.Kind == audit.LeaseIssued && !strings.Contains(string(e.Data), parentID) {
			t.Errorf("issued without its parent: %s", e.Data)
		}
	}
	if got := strings.Join(kinds, " "); !strings.HasPrefix(got, audit.LeaseIntended+" "+audit.LeaseIssued+" "+audit.EgressAllowed) {
		t.Errorf("in the audit log: %s", got)
	}
}
