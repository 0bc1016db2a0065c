package api_test

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest"
)

// A82: a client that sends the first request twice creates one approval
// request.
func TestRFC_A82_Idempotent(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	first := b.pend(t, mustAsk)
	second := b.ask(t, mustAsk, "completion_mode", "deferred", "reason", "other words")
	second.want(t, "again", 400, "authorization_pending")
	if first.text("deferral_code") != second.text("deferral_code") {
		t.Error("two codes for one request")
	}
	if p := r.pendingRequest(t); p["asked"] != 2.0 {
		t.Errorf("asked %v times, want 2", p["asked"])
	}
	// x/oauth2 sends a Basic header first, then the form alone.
	f := b.exchange(mustAsk, "completion_mode", "deferred", "code", "")
	r.post(t, tokenURL, f, b.prove(t), header("Authorization", "Basic c2J4Og==")).want(t, "its first try", 401, "invalid_client")
	if a := r.post(t, tokenURL, f, b.prove(t)); a.text("deferral_code") != first.text("deferral_code") {
		t.Errorf("its second try: %s", a.body)
	}
}

//ebb:invariant I12 Early polls lengthen the polling interval of a client to one minute at most, unless the configured interval is longer
//ebb:invariant I12 Simultaneous early polls lengthen the polling interval only once
func TestRFC_A83_A84_H53_Polling(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	a := b.pend(t, mustAsk)
	if a.number("expires_in") <= 0 || a.number("interval") <= 0 || len(a.text("deferral_code")) < 22 {
		t.Errorf("A83: %s", a.body)
	}
	code, interval := a.text("deferral_code"), a.number("interval")
	b.poll(t, code).want(t, "the first poll", 400, "authorization_pending")
	for i := range 15 {
		want := min(interval+5*float64(i+1), 60) // the longest interval after any number of early polls
		var wg sync.WaitGroup
		for range 10 { // at once, and so once
			wg.Go(func() {
				slow := b.poll(t, code)
				slow.want(t, "A84 too fast", 400, "slow_down")
				if slow.number("interval") != want {
					t.Errorf("A84 interval %v, want %v", slow.number("interval"), want)
				}
			})
		}
		wg.Wait()
		r.env.Clock.Add(minute)
		if a := b.poll(t, code); a.text("error") != "authorization_pending" || a.number("interval") != want {
			t.Errorf("after waiting: %s, want interval %v", a.body, want)
		}
	}
}

func TestRFC_A85_H51_Terminal(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	code := b.pend(t, mustAsk).text("deferral_code")
	p := r.pendingRequest(t)
	path := "/v1/requests/" + p["id"].(string)
	denied := r.v1(t, brokertest.Approver, http.MethodPost, path+"/deny", map[string]any{"code": "too_broad", "note": "One order is enough."})
	if denied.status != 200 || denied.text("state") != "denied" {
		t.Fatalf("denying: %d %s", denied.status, denied.body)
	}
	a := b.poll(t, code)
	a.want(t, "denied", 400, "access_denied")
	advice, _ := a.json["advice"].(map[string]any)
	if advice["code"] != "too_broad" || advice["note"] != "One order is enough." || advice["do_not_retry_same"] != true {
		t.Errorf("advice %v", advice)
	}
	r.env.Clock.Add(minute)
	b.poll(t, code).want(t, "H51 once told, the code is gone", 400, "invalid_grant")
	cool := b.ask(t, mustAsk, "completion_mode", "deferred")
	if cool.text("error") != "access_denied" || cool.header.Get("Retry-After") == "" {
		t.Errorf("cool-down: %d %v %s", cool.status, cool.header, cool.body)
	}

	late := r.sandbox(t)
	code = late.pend(t, mustAsk).text("deferral_code")
	r.env.Clock.Add(31 * minute)
	late.poll(t, code).want(t, "nobody decided", 400, "expired_token")
	r.env.Clock.Add(minute)
	late.poll(t, code).want(t, "H51 afterwards", 400, "invalid_grant")
}

func TestRFC_A86_H51_ForeignCode(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b, thief := r.sandbox(t), r.sandbox(t)
	code := b.pend(t, mustAsk).text("deferral_code")
	r.approve(t, nil)
	r.env.Clock.Add(minute)
	for name, c := range map[string]string{"another key": code, "guessed": "ebb_dfr_" + b.task[4:] + "_AAAA", "garbage": "x", "changed": code[:len(code)-1] + "!"} {
		thief.poll(t, c).want(t, name, 400, "invalid_grant")
	}
	poll := url.Values{"grant_type": {grantDeferred}, "deferral_code": {code}}
	r.post(t, tokenURL, poll).want(t, "no key", 400, "invalid_grant")
	r.post(t, tokenURL, with(poll, thief.assertion(t)...), thief.prove(t)).want(t, "another client", 400, "invalid_grant")
	if a := b.poll(t, code); a.status != 200 {
		t.Errorf("its owner: %d %s", a.status, a.body)
	}
	r.env.Clock.Add(minute)
	b.poll(t, code).want(t, "A87 twice", 400, "invalid_grant")
}

// A poll must not repeat parameters of the first request: the approved request
// is minted.
func TestPollRepeatsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	code := b.pend(t, mustAsk).text("deferral_code")
	poll := url.Values{"grant_type": {grantDeferred}, "deferral_code": {code}}
	for _, p := range []string{"scope", "resource", "audience", "authorization_details", "reason", "requested_expiry", "subject_token", "subject_token_type", "completion_mode", "task_id", "tool", "auth_req_id"} {
		r.post(t, tokenURL, with(poll, p, "x"), b.prove(t)).want(t, p, 400, "invalid_request")
	}
	r.post(t, tokenURL, url.Values{"grant_type": {grantDeferred}}, b.prove(t)).want(t, "no code", 400, "invalid_request")
	if a := r.post(t, tokenURL, with(poll, b.assertion(t)...), b.prove(t)); a.text("error") != "authorization_pending" {
		t.Errorf("with an assertion of the same client: %d %s", a.status, a.body)
	}
}

func TestRFC_A87_OneToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	code := b.pend(t, mustAsk).text("deferral_code")
	r.approve(t, nil)
	r.env.Clock.Add(minute)
	var wg sync.WaitGroup
	var mu sync.Mutex
	wins := 0
	for range 8 {
		wg.Go(func() {
			if a := b.poll(t, code); a.status == 200 {
				mu.Lock()
				wins++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if wins != 1 {
		t.Errorf("%d of 8 parallel polls got a token, want 1", wins)
	}
}

func TestRFC_A88_CannotWait(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	for _, mode := range []string{"", "immediate", "Deferred", "deferredx"} {
		b.ask(t, mustAsk, "completion_mode", mode).want(t, "mode "+mode, 400, "interaction_required")
	}
	a := r.v1(t, brokertest.Approver, http.MethodGet, "/v1/requests", nil)
	if items, _ := a.json["items"].([]any); len(items) != 0 {
		t.Errorf("people were asked all the same: %s", a.body)
	}
	b.ask(t, mustAsk, "completion_mode", "immediate deferred").want(t, "one of several modes", 400, "authorization_pending")
}

//ebb:invariant I7
func TestRFC_A89_H54_WhatWasShownIsMinted(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	both := "orders:eu/42:write orders:eu/43:write"
	code := b.pend(t, both).text("deferral_code")
	id := r.pendingRequest(t)["id"].(string)
	path := "/v1/requests/" + id + "/approve"
	digest := r.pendingRequest(t)["digest"]
	for name, c := range map[string]struct {
		body   map[string]any
		status int
		kind   string
	}{
		"wider":           {map[string]any{"digest": digest, "scope": "orders:eu/**:write"}, 400, "invalid_request"},
		"another scope":   {map[string]any{"digest": digest, "scope": "orders:eu/44:write"}, 400, "invalid_request"},
		"longer":          {map[string]any{"digest": digest, "ttl_seconds": 1 << 30}, 400, "invalid_request"},
		"H54 no digest":   {map[string]any{}, 400, "invalid_request"},
		"H54 other facts": {map[string]any{"digest": strings.Repeat("0", 64)}, 409, "conflict"},
		"a short digest":  {map[string]any{"digest": "0000"}, 400, "invalid_request"},
		"unknown member":  {map[string]any{"digest": digest, "scopes": both}, 400, "invalid_request"},
	} {
		r.v1(t, brokertest.Approver, http.MethodPost, path, c.body).problem(t, name, c.status, c.kind)
	}
	a := r.approve(t, map[string]any{"scope": "orders:eu/43:write", "ttl_seconds": 60})
	if a.status != 200 || a.text("granted_scope") != "orders:eu/43:write" {
		t.Fatalf("narrower: %d %s", a.status, a.body)
	}
	r.v1(t, brokertest.Second, http.MethodPost, path, map[string]any{"digest": digest}).problem(t, "twice", 409, "conflict")
	r.env.Clock.Add(20 * time.Second) // the approved lifetime has begun
	got := b.poll(t, code)
	if got.status != 200 || got.text("scope") != "orders:eu/43:write" || got.number("expires_in") > 40 {
		t.Errorf("minted: %d %s", got.status, got.body)
	}
}

func TestWhoMayApprove(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	b.pend(t, mustAsk)
	p := r.pendingRequest(t)
	path := "/v1/requests/" + p["id"].(string) + "/approve"
	body := map[string]any{"digest": p["digest"]}
	for _, who := range []string{brokertest.Runner, brokertest.Auditor, brokertest.Operator, brokertest.Server} {
		r.v1(t, who, http.MethodPost, path, body).problem(t, who, 403, "forbidden")
	}
	token := b.access(t, canRead)
	r.v1With(t, token, b.key, http.MethodPost, path, body).problem(t, "the sandbox", 401, "invalid_token")
	r.v1With(t, b.token, b.key, http.MethodPost, path, body).problem(t, "its task token", 401, "invalid_token")
	owned := spec()
	owned.Owner = brokertest.Approver
	own := r.sandboxFor(t, owned)
	own.pend(t, "orders:eu/1:write")
	mine := r.v1(t, brokertest.Second, http.MethodGet, "/v1/requests?task_id="+own.task, nil).json["items"].([]any)[0].(map[string]any)
	r.v1(t, brokertest.Approver, http.MethodPost, "/v1/requests/"+mine["id"].(string)+"/approve", map[string]any{"digest": mine["digest"]}).
		problem(t, "the owner", 403, "forbidden")
}

// The client withdraws its own request (RFC 7009 on a deferral code).
func TestWithdraw(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	code := b.pend(t, mustAsk).text("deferral_code")
	b.revoke(t, code).emptyOK(t, "withdrawing")
	b.poll(t, code).want(t, "afterwards", 400, "invalid_grant")
}

// TestHighRiskIsNotApprovedHere: the API accepts no approval at high risk, with
// or without the typed name, whole or narrowed, and lists the missing proofs.
//
//ebb:invariant I7 Every path to an approval requires the proofs that the risk of the request demands
func TestHighRiskIsNotApprovedHere(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{})
	b := r.sandbox(t)
	b.pend(t, "orders:eu/42:delete")
	for _, tt := range []struct {
		more map[string]any
		want []any
	}{
		{nil, []any{"target", "presence"}},
		{map[string]any{"ttl_seconds": 1}, []any{"target", "presence"}},
		{map[string]any{"target": "eu/42"}, []any{"presence"}},
		{map[string]any{"target": "eu/42", "ttl_seconds": 1}, []any{"presence"}},
	} {
		a := r.approve(t, tt.more)
		if a.status != 403 || !strings.HasSuffix(a.text("type"), "/problems/step_up_required") || !reflect.DeepEqual(a.json["missing"], tt.want) {
			t.Errorf("%v: %d %s", tt.more, a.status, a.body)
		}
	}
}
