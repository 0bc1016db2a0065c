package egress_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/egress"
)

// TestSealedEnds: a credential of a response ends with its task, with the lease of the request that
// created it, and when it is revoked.
//
//ebb:invariant I2 A credential created by an upstream response ends with its task and with the lease of the request that created it
func TestSealedEnds(t *testing.T) {
	t.Parallel()
	k := newTokens(t)
	operator := k.Principals[brokertest.Operator]
	for name, end := range map[string]func(x *sandbox, parent, id string) error{
		"its own end": func(_ *sandbox, _, id string) error {
			_, err := k.Broker.RevokeLease(t.Context(), operator, id, "over")
			return err
		},
		"that of its parent": func(_ *sandbox, parent, _ string) error {
			_, err := k.Broker.RevokeLease(t.Context(), operator, parent, "over")
			return err
		},
		"that of its task": func(x *sandbox, _, _ string) error {
			_, err := k.Broker.CompleteTask(t.Context(), k.Principals[brokertest.Runner], x.s.Task.ID, 0)
			return err
		},
	} {
		x := k.another(t)
		parent, err := x.s.Ask(t, tokenScopes)
		if err != nil {
			t.Fatal(err)
		}
		token := k.token(t, x)
		if !k.works(t, x, token, "/v1/a") {
			t.Errorf("%s: it does not work before", name)
		}
		if err := end(x, parent.LeaseID, strings.TrimPrefix(token, egress.Prefix)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if k.works(t, x, token, "/v1/a") {
			t.Errorf("%s: it works afterwards", name)
		}
		for _, l := range k.sealedLeases(t, x.s.Task.ID) {
			if l.State == broker.LeaseLive || l.State == broker.LeaseIntent {
				t.Errorf("%s: the record says %s", name, l.State)
			}
		}
	}
}

// TestNothingIsHandedOnUnrecorded: while the database does not store a new credential, the sandbox
// gets no response and no working placeholder, not even after the database is back.
//
//ebb:invariant I1 A response that creates a credential is forwarded to the sandbox only after the database has recorded the outcome
func TestNothingIsHandedOnUnrecorded(t *testing.T) {
	t.Parallel()
	k := newTokens(t)
	if _, err := k.x.s.Ask(t, tokenScopes); err != nil {
		t.Fatal(err)
	}
	k.does(func(w http.ResponseWriter, _ *http.Request) {
		k.store.down.Store(true)
		_, _ = io.WriteString(w, `{"access_token":"`+made+`"}`)
	})
	res, body := k.login(t, k.x)
	if res.StatusCode != http.StatusServiceUnavailable || strings.Contains(body, egress.Prefix) {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	k.store.down.Store(false)
	for _, l := range k.sealedLeases(t, k.x.s.Task.ID) {
		if l.State == broker.LeaseLive || k.works(t, k.x, egress.Prefix+l.ID, "/v1/a") {
			t.Errorf("it is %s", l.State)
		}
	}
}

// TestSealingAgainstTheEnd (E101): sixteen logins race the end of their task. Credentials of the
// logins that succeeded before end with it.
//
//ebb:invariant I2 A credential created by an upstream response ends with its task and with the lease of the request that created it
func TestSealingAgainstTheEnd(t *testing.T) {
	t.Parallel()
	k := newTokens(t)
	if _, err := k.x.s.Ask(t, tokenScopes); err != nil {
		t.Fatal(err)
	}
	c := k.x.client(t, false)
	var all sync.WaitGroup
	begun := make(chan struct{}, 16)
	k.does(func(w http.ResponseWriter, _ *http.Request) {
		begun <- struct{}{}
		_, _ = io.WriteString(w, `{"access_token":"`+made+`"}`)
	})
	for range 16 {
		all.Go(func() {
			if _, body, _ := try(t, c, "POST", k.url+"/oauth/token", "x"); strings.Contains(body, made) {
				t.Error("a sandbox has the token")
			}
		})
	}
	select {
	case <-begun:
	case <-time.After(patience):
		t.Fatal("no request has come")
	}
	if _, err := k.Broker.CompleteTask(t.Context(), k.Principals[brokertest.Runner], k.x.s.Task.ID, 0); err != nil {
		t.Fatal(err)
	}
	for _, l := range k.sealedLeases(t, k.x.s.Task.ID) { // from the acknowledgement of the end on
		if _, err := k.Broker.Use(t.Context(), broker.Caller{TaskID: l.TaskID}, l.ID); err == nil {
			t.Errorf("%s can be used", l.ID)
		}
	}
	all.Wait()
	for _, l := range k.sealedLeases(t, k.x.s.Task.ID) {
		if l.State == broker.LeaseLive || l.State == broker.LeaseIntent {
			t.Errorf("%s is %s", l.ID, l.State)
		}
	}
}

// TestSealedWithinItsLease: if the lease does not cover the use of the new credential, the request
// is refused.
//
//ebb:invariant I5 A credential created by an upstream response has only scopes that its lease also has
//ebb:invariant I5 A request whose response creates a credential is not sent if the lease has no scope for any use of that credential
func TestSealedWithinItsLease(t *testing.T) {
	t.Parallel()
	k := newTokens(t)
	if _, err := k.x.s.Ask(t, "web:api.example.com/oauth/**:write"); err != nil {
		t.Fatal(err)
	}
	if res, body := k.login(t, k.x); res.StatusCode != http.StatusForbidden || len(k.arrived()) != 0 {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	x := k.another(t)
	if _, err := x.s.Ask(t, "web:api.example.com/oauth/**:write web:api.example.com/v1/mine/*:read"); err != nil {
		t.Fatal(err)
	}
	token := k.token(t, x)
	if !k.works(t, x, token, "/v1/mine/a") || k.works(t, x, token, "/v1/a") {
		t.Error("it is for more, or for less, than its lease")
	}
	k.with(t, func(p *egress.Config) { p.Leases, p.Record, p.Answers = k.Broker, k.Broker, nil })
	x = k.another(t)
	if _, err := x.s.Ask(t, tokenScopes); err != nil {
		t.Fatal(err)
	}
	before := len(k.arrived())
	if res, body := k.login(t, x); res.StatusCode != http.StatusForbidden || len(k.arrived()) != before {
		t.Errorf("without a store for credentials: %d %s", res.StatusCode, body)
	}
}

// TestSealedIsNamedOrNotUsed: a credential of a response is not added to a request that does not
// name it, even if its lease is the newest that covers the request.
//
//ebb:invariant I5 A stored credential from an upstream response is added to no request that does not carry its placeholder
func TestSealedIsNamedOrNotUsed(t *testing.T) {
	t.Parallel()
	k := newTokens(t)
	if _, err := k.x.s.Ask(t, tokenScopes); err != nil {
		t.Fatal(err)
	}
	made := strings.TrimPrefix(k.token(t, k.x), egress.Prefix)
	all, err := k.Broker.Credentialless(t.Context(), broker.Caller{TaskID: k.x.s.Task.ID})
	if err != nil || len(all) != 1 || all[0].Target.LeaseID == made {
		t.Errorf("%d leases are for requests without a placeholder: %v", len(all), err)
	}
}

// Older leases are found however many leases a task has, also by another sandbox of the task.
//
//ebb:invariant I2 The egress proxy finds older live leases of a task, however many newer leases the task receives
func TestNewLeasesPushNothingOut(t *testing.T) {
	t.Parallel()
	k := newTokens(t)
	if _, err := k.x.s.Ask(t, tokenScopes); err != nil {
		t.Fatal(err)
	}
	for range 205 { // more than one query reads
		if _, err := k.x.s.Ask(t, "stripe:charges:read"); err != nil {
			t.Fatal(err)
		}
	}
	if res, body := send(t, k.boxOf(t, k.x.s).client(t, false), "GET", k.url+"/v1/a", ""); res.StatusCode != http.StatusOK {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}
