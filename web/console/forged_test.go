package console_test

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// reseal changes one member of a signed form field, and keeps the rest,
// including the MAC.
func reseal(t *testing.T, field, name string, value any) string {
	t.Helper()
	text, mac, _ := strings.Cut(field, ".")
	packed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := io.Copy(&b, flate.NewReader(bytes.NewReader(packed))); err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(b.Bytes(), &all); err != nil || all[name] == nil {
		t.Fatalf("%s: %v %s", name, err, b.String())
	}
	all[name] = value
	raw, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	b.Reset()
	z, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(b.Bytes()) + "." + mac
}

// TestForgedSeen: only a page shown to this person, of this request and of the
// approved facts, is stored as evidence.
func TestForgedSeen(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r, other := h.asked("orders:eu/1:write"), h.asked("orders:eu/2:write")
	b := h.as(brokertest.Approver)
	page := b.get("/requests/" + r.ID)
	good := b.form(page, "approve", nil).Get("seen")
	theirs := h.as(brokertest.Second)
	for name, seen := range map[string]string{
		"another level":     reseal(t, good, "level", "low"),
		"other words":       reseal(t, good, "agent", map[string]any{"text": "harmless"}),
		"another request's": b.form(b.get("/requests/"+other.ID), "approve", nil).Get("seen"),
		"another person's":  theirs.form(theirs.get("/requests/"+r.ID), "approve", nil).Get("seen"),
		"none":              "", "no seal": strings.Split(good, ".")[0], "damaged": "x." + good,
	} {
		fields := url.Values{"seen": {seen}, "target": typedTarget["target"]}
		b.choose(b.get("/requests/"+r.ID), r.ID, "approve", fields).is(t, http.StatusUnprocessableEntity, "cannot be read any more")
		if h.again(r.ID).State != broker.RequestPending {
			t.Fatalf("%s: decided", name)
		}
	}
	// A denial is accepted, without storing a forged page.
	b.choose(b.get("/requests/"+r.ID), r.ID, "deny", url.Values{"code": no["code"], "note": no["note"], "seen": {reseal(t, good, "level", "low")}}).is(t, http.StatusSeeOther)
	got, err := h.Store.Requests(t.Context(), broker.RequestFilter{IDs: []string{r.ID}, Snapshots: true})
	if err != nil || len(got) != 1 || len(got[0].Votes) != 1 || got[0].Votes[0].Snapshot != "" {
		t.Errorf("kept: %+v (%v)", got, err)
	}
}

// TestForgedChallenge: ebb sets the lifetime of a challenge, and a form cannot
// extend it.
func TestForgedChallenge(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r := h.asked("orders:eu/1:write")
	b, a := h.as(brokertest.Approver), newAuthenticator(t)
	a.register(b).is(t, http.StatusSeeOther)
	h.Clock.Add(11 * time.Minute)
	challenge, state := a.options(b, "/requests/"+r.ID+"/challenge?"+url.Values{"choice": {"narrow"}, "digest": {r.Digest}, "scope": {"orders:eu/1:write"}, "minutes": {"3"}}.Encode())
	assertion := a.get(challenge)
	text, mac, _ := strings.Cut(state, ".")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	var all map[string]any
	if err == nil {
		err = json.Unmarshal(raw, &all)
	}
	if err != nil || all["u"] == nil {
		t.Fatalf("%v %s", err, raw)
	}
	h.Clock.Add(3 * time.Minute)
	all["u"] = h.Clock.Now().Add(time.Minute)
	if raw, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{state, base64.RawURLEncoding.EncodeToString(raw) + "." + mac, base64.RawURLEncoding.EncodeToString(raw)} {
		fields := url.Values{"scope": {"orders:eu/1:write"}, "minutes": {"3"}, "assertion": {assertion}, "state": {bad}}
		b.choose(b.get("/requests/"+r.ID), r.ID, "narrow", fields).is(t, http.StatusForbidden)
	}
}

// TestPasskeyOfOldGroups: a passkey does not let a person who has left a group
// decide for it.
func TestPasskeyOfOldGroups(t *testing.T) {
	t.Parallel()
	o := newOP(t)
	h := o.fixture(t, nil)
	r := h.asked("orders:eu/1:write")
	b, a := h.browser(), newAuthenticator(t)
	o.signIn(t, b, nil).is(t, http.StatusSeeOther)
	a.register(b).is(t, http.StatusSeeOther)
	decide := func() answer {
		c, state := a.options(b, "/requests/"+r.ID+"/challenge?"+url.Values{"choice": {"narrow"}, "digest": {r.Digest}, "scope": {"orders:eu/1:write"}, "minutes": {"3"}}.Encode())
		return b.choose(b.get("/requests/"+r.ID), r.ID, "narrow", url.Values{"scope": {"orders:eu/1:write"}, "minutes": {"3"}, "assertion": {a.get(c)}, "state": {state}})
	}
	h.Clock.Add(15*time.Minute + time.Second)
	decide().is(t, http.StatusForbidden, "Your groups were read more than 15 minutes ago")
	o.at.Set(h.Clock.Now())
	o.signIn(t, b, attesttest.Claims{"auth_time": h.Clock.Now().Add(-time.Hour).Unix()}).is(t, http.StatusSeeOther)
	decide().is(t, http.StatusSeeOther)
}

// TestOIDCCookieForged: the browser cannot change the start time of a sign-in.
func TestOIDCCookieForged(t *testing.T) {
	t.Parallel()
	o := newOP(t)
	h := o.fixture(t, nil)
	b := h.browser()
	o.out(t, b, "/signin/oidc")
	o.token = func() string { return o.issuer.Token(o.claims(nil)) }
	good := b.cookies["__Host-ebb-oidc"]
	part := strings.Split(good, ".")
	for name, bad := range map[string]string{
		"another time": part[0] + "." + "1" + part[1] + "." + part[2] + "." + part[3], "for a decision": strings.Replace(good, ".false.", ".true.", 1), "no seal": strings.Join(part[:3], ".") + ".",
	} {
		b.cookies["__Host-ebb-oidc"] = bad
		if a := o.back(b, nil); a.StatusCode != http.StatusUnauthorized || !strings.Contains(a.body, "did not start in this browser") {
			t.Errorf("%s: %d %s", name, a.StatusCode, a.body)
		}
	}
	b.cookies["__Host-ebb-oidc"] = good
	h.Clock.Add(10*time.Minute + time.Second)
	o.at.Set(h.Clock.Now())
	o.back(b, nil).is(t, http.StatusUnauthorized, "more than 10 minutes ago")
	b.cookies["__Host-ebb-oidc"] = good
	h.Clock.Add(-2 * time.Second)
	o.at.Set(h.Clock.Now())
	o.back(b, nil).is(t, http.StatusSeeOther)
}

// TestLinkOfNobody: a link for a person whom the configuration no longer names
// is refused.
func TestLinkOfNobody(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	l, _, err := h.links.Make(t.Context(), broker.Principal{ID: "gone", Roles: []broker.Role{broker.RoleApprover}})
	if err != nil {
		t.Fatal(err)
	}
	b := h.browser()
	b.send(b.get(strings.TrimPrefix(l.Reveal(), h.at)), "/signin/link", nil).is(t, http.StatusUnauthorized)
	// The session gets those roles of the link that the person still has.
	who := h.Principals[brokertest.Approver]
	who.Roles = []broker.Role{broker.RoleAuditor}
	if l, _, err = h.links.Make(t.Context(), who); err != nil {
		t.Fatal(err)
	}
	b.send(b.get(strings.TrimPrefix(l.Reveal(), h.at)), "/signin/link", nil).is(t, http.StatusForbidden, "no role")
}
