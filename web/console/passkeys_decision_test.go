package console_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/web/console/passkey"
)

func TestPasskeyDecision(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r := h.asked("orders:eu/1:write")
	b, a := h.as(brokertest.Approver), newAuthenticator(t)
	a.register(b).is(t, http.StatusSeeOther)
	h.Clock.Add(11 * time.Minute) // the session alone is not enough
	page := b.get("/requests/" + r.ID)
	page.is(t, http.StatusOK, "data-passkey")
	narrow := url.Values{"scope": {"orders:eu/1:write"}, "minutes": {"3"}}
	at := func(choice, digest string) string {
		return "/requests/" + r.ID + "/challenge?" + url.Values{"choice": {choice}, "digest": {digest}, "scope": narrow["scope"], "minutes": narrow["minutes"]}.Encode()
	}
	choose := func(b *browser, assertion, state string) answer {
		f := url.Values{"assertion": {assertion}, "state": {state}}
		for k, v := range narrow {
			f[k] = v
		}
		return b.choose(b.get("/requests/"+r.ID), r.ID, "narrow", f)
	}
	refused := func(name string, got answer) {
		t.Helper()
		if got.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d", name, got.StatusCode)
		}
	}
	refused("none", b.choose(page, r.ID, "narrow", narrow))
	for _, bad := range []string{"x", "{}", "[]", `{"id":"","type":"public-key"}`} {
		_, state := a.options(b, at("narrow", r.Digest))
		refused(bad, choose(b, bad, state))
	}
	c, state := a.options(b, at("approve", r.Digest))
	refused("for another answer", choose(b, a.get(c), state))
	c, state = a.options(b, at("narrow", strings.Repeat("A", len(r.Digest))))
	refused("of other facts", choose(b, a.get(c), state))
	c, _ = a.options(b, at("narrow", r.Digest))
	_, state = a.options(b, at("narrow", r.Digest))
	refused("of another form", choose(b, a.get(c), state))
	c, state = a.options(b, at("narrow", r.Digest))
	refused("no state", choose(b, a.get(c), ""))
	a.flags = 0x01
	refused("person not verified", choose(b, a.get(c), state))
	a.flags = 0x05
	a.origin = "https://evil.test"
	refused("another origin", choose(b, a.get(c), state))
	a.origin = brokertest.Issuer
	refused("another passkey", choose(b, newAuthenticator(t).get(c), state))
	late := a.get(c)
	h.Clock.Add(2*time.Minute + time.Second)
	refused("late", choose(b, late, state))
	// The same assertion by another person, who has a passkey too.
	second := h.as(brokertest.Second)
	newAuthenticator(t).register(second).is(t, http.StatusSeeOther)
	h.Clock.Add(11 * time.Minute)
	b.get("/queue").is(t, http.StatusOK)
	c, state = a.options(b, at("narrow", r.Digest))
	good := a.get(c)
	refused("another person", choose(second, good, state))
	choose(b, good, state).is(t, http.StatusSeeOther)
	got, err := h.Store.Requests(t.Context(), broker.RequestFilter{IDs: []string{r.ID}, Snapshots: true})
	if err != nil || len(got) != 1 || len(got[0].Votes) != 1 {
		t.Fatal(got, err)
	}
	provesJust(t, h, got[0].Votes[0].Proof, passkey.Decision{Request: r.ID, Choice: "narrow", Digest: r.Digest, Scope: "orders:eu/1:write", TTL: 180})
	// An assertion is accepted once, and a copied passkey is detected by its
	// lower counter.
	r = h.asked("orders:eu/2:write")
	narrow.Set("scope", "orders:eu/2:write")
	refused("again", choose(b, good, state))
	a.count = 0
	c, state = a.options(b, at("narrow", r.Digest))
	refused("a copy", choose(b, a.get(c), state))
}

// provesJust fails unless a stored proof shows independently that the
// approver's passkey signed this answer and no other.
func provesJust(t *testing.T, h *fixture, proof string, d passkey.Decision) {
	t.Helper()
	var p passkey.Proof
	if err := json.Unmarshal([]byte(proof), &p); err != nil {
		t.Fatal(err)
	}
	if err := p.Verify(d); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*passkey.Decision){
		func(d *passkey.Decision) { d.Choice = "approve" }, func(d *passkey.Decision) { d.Request = "req_x" }, func(d *passkey.Decision) { d.Digest = "" },
		func(d *passkey.Decision) { d.TTL = 181 }, func(d *passkey.Decision) { d.Scope = "orders:eu/*:write" }, func(d *passkey.Decision) { d.Scope, d.TTL = "", 0 },
	} {
		wrong := d
		change(&wrong)
		if p.Verify(wrong) == nil {
			t.Errorf("it proves %+v, too", wrong)
		}
	}
	// The audit log names the owner: a key replaced in the database is not in
	// it.
	var added struct {
		Passkey string `json:"passkey"`
		Key     string `json:"public_key_sha256"`
	}
	for e, err := range h.Store.Entries(t.Context(), broker.EntryFilter{Kind: audit.PasskeyAdded, Actor: brokertest.Approver}) {
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(e.Data, &added); err != nil {
			t.Fatal(err)
		}
	}
	if sum := sha256.Sum256(p.PublicKey); added.Passkey != hex.EncodeToString(p.Key) || added.Key != hex.EncodeToString(sum[:]) {
		t.Errorf("on the record: %+v", added)
	}
}
