package egress_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/brokertest"
	"ebb/broker/egress"
)

// TestSealedEnds: what an answer has made is over with its task, with the lease by which the request
// left, and when it is revoked.
func TestSealedEnds(t *testing.T) {
	t.Parallel()
	k := newTokens(t)
	operator := k.Principals[brokertest.Operator]
	for name, end := range map[string]func(x *box, parent, id string) error{
		"its own end": func(_ *box, _, id string) error {
			_, err := k.Broker.RevokeLease(t.Context(), operator, id, "over")
			return err
		},
		"that of its parent": func(_ *box, parent, _ string) error {
			_, err := k.Broker.RevokeLease(t.Context(), operator, parent, "over")
			return err
		},
		"that of its task": func(x *box, _, _ string) error {
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

// TestNothingIsHandedOnUnrecorded: while the journal does not take what was made, the box gets no answer and no
// placeholder that works, also when it is up again.
func TestNothingIsHandedOnUnrecorded(t *testing.T) {
	t.Parallel()
	k := newTokens(t)
	if _, err := k.x.s.Ask(t, tokenScopes); err != nil {
		t.Fatal(err)
	}
	k.does(func(w http.ResponseWriter, _ *http.Request) {
		k.journal.down.Store(true)
		_, _ = io.WriteString(w, `{"access_token":"`+made+`"}`)
	})
	res, body := k.login(t, k.x)
	if res.StatusCode != http.StatusServiceUnavailable || strings.Contains(body, egress.Prefix) {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	k.journal.down.Store(false)
	for _, l := range k.sealedLeases(t, k.x.s.Task.ID) {
		if l.State == broker.LeaseLive || k.works(t, k.x, egress.Prefix+l.ID, "/v1/a") {
			t.Errorf("it is %s", l.State)
		}
	}
}

// TestSealingAgainstTheEnd: (E101) sixteen logins race the end of their task. Whatever got through before is
// over with it.
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
				t.Error("a box has it")
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
	for _, l := range k.sealedLeases(t, k.x.s.Task.ID) { // from the moment at which its end was acknowledged
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

// TestSealedWithinItsLease: who may not use what would be made makes nothing: the request stays.
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
		t.Errorf("where nobody keeps it: %d %s", res.StatusCode, body)
	}
}

// TestSealedIsNamedOrNotUsed: what an answer has made is added to no request that does not name it, though
// its lease is the newest that is for one.
func TestSealedIsNamedOrNotUsed(t *testing.T) {
	t.Parallel()
	k := newTokens(t)
	if _, err := k.x.s.Ask(t, tokenScopes); err != nil {
		t.Fatal(err)
	}
	made := strings.TrimPrefix(k.token(t, k.x), egress.Prefix)
	all, err := k.Broker.Bare(t.Context(), broker.Caller{TaskID: k.x.s.Task.ID})
	if err != nil || len(all) != 1 || all[0].Target.LeaseID == made {
		t.Errorf("%d leases are for requests without a placeholder: %v", len(all), err)
	}
}

// However many leases a task gets, the older ones that requests leave by are found: also by another box.
func TestNewLeasesPushNothingOut(t *testing.T) {
	t.Parallel()
	k := newTokens(t)
	if _, err := k.x.s.Ask(t, tokenScopes); err != nil {
		t.Fatal(err)
	}
	for range 205 { // more than are looked at in one go
		if _, err := k.x.s.Ask(t, "stripe:charges:read"); err != nil {
			t.Fatal(err)
		}
	}
	if res, body := send(t, k.boxOf(t, k.x.s).client(t, false), "GET", k.url+"/v1/a", ""); res.StatusCode != http.StatusOK {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}
