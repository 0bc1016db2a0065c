package console_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/console"
	"github.com/ebb-broker/ebb/web/console/proof"
)

// plainDriver is a driver whose scopes can be undone, and write or read.
type plainDriver struct{ provider.Driver }

func (plainDriver) Describe(s scopes.Scope) (provider.Effect, error) {
	if s.Action() == "read" {
		return provider.Reading(), nil
	}
	return provider.Effect{Writes: provider.Yes, Reversible: provider.Yes}, nil
}

func (plainDriver) Traits() provider.Traits {
	return provider.Traits{Revocability: provider.Revocability{Class: provider.ClassInstant}}
}

func (plainDriver) Check(scopes.Set) error { return nil }

// ofEach is a fixture with a waiting request of low, medium and high risk.
func ofEach(t *testing.T, f proof.Friction) (*fixture, map[risk.Level]broker.Request) {
	t.Helper()
	h := newFixtureWith(t, brokertest.Config{
		Policies:  map[string][]byte{"p.cedar": []byte(`@id("ask") @ask("approvers") @max_ttl("15m") permit (principal, action, resource);`)},
		Providers: map[string]broker.Provider{"plain": {Driver: plainDriver{}, Kind: "plain", Resource: "https://plain.test/"}},
	}, func(c *console.Config) { c.Friction = f })
	out := map[risk.Level]broker.Request{}
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("plain:**:* orders:**:*")
	for want, scope := range map[risk.Level]string{risk.Low: "plain:a:read", risk.Medium: "plain:b:write", risk.High: "orders:eu/1:write"} {
		r, _ := h.asks(scope, "x", spec)
		sheet, err := r.Sheet()
		if err != nil || sheet.Risk.Level != want {
			t.Fatalf("%s is %v (%v), want %s", scope, sheet.Risk, err, want)
		}
		out[want] = r
	}
	return h, out
}

func typedFor(r broker.Request) url.Values {
	return url.Values{"target": {strings.SplitN(r.Scopes.String(), ":", 3)[1]}}
}

// F10: the required proof grows with the risk, and the page shows it before.
//
//ebb:invariant I7 Approving a high-risk request requires the name of its target, also when the approval narrows the request
func TestFrictionByRisk(t *testing.T) {
	t.Parallel()
	h, rs := ofEach(t, proof.Friction{Low: "odd"}) // an unknown value counts as the weakest proof
	b, a := h.as(brokertest.Approver), newAuthenticator(t)
	a.register(b).is(t, http.StatusSeeOther)
	for level, says := range map[risk.Level]string{
		risk.Low: "Low risk: one click", risk.Medium: "Medium risk: confirm with your passkey", risk.High: "High risk: type the name of the target, then confirm with your passkey",
	} {
		page := b.get("/requests/" + rs[level].ID)
		page.is(t, http.StatusOK, says)
		if got := strings.Contains(page.body, "data-passkey"); got != (level != risk.Low) {
			t.Errorf("%s: the passkey is asked: %v", level, got)
		}
	}
	// For a person with a passkey, a recent sign-in alone suffices at low risk
	// only.
	for _, level := range []risk.Level{risk.Medium, risk.High} {
		a := b.choose(b.get("/requests/"+rs[level].ID), rs[level].ID, "approve", typedFor(rs[level]))
		a.is(t, http.StatusForbidden, "at this risk need it")
		if h.again(rs[level].ID).State != broker.RequestPending {
			t.Errorf("%s: approved without the passkey", level)
		}
	}
	b.choose(b.get("/requests/"+rs[risk.Low].ID), rs[risk.Low].ID, "approve", nil).is(t, http.StatusSeeOther)
	// With the passkey they are accepted, at high risk only with the typed
	// name.
	sign := func(level risk.Level, fields url.Values) answer {
		r := rs[level]
		c, state := a.options(b, "/requests/"+r.ID+"/challenge?"+url.Values{"choice": {"approve"}, "digest": {r.Digest}}.Encode())
		out := url.Values{"assertion": {a.get(c)}, "state": {state}}
		for k, v := range fields {
			out[k] = v
		}
		return b.choose(b.get("/requests/"+r.ID), r.ID, "approve", out)
	}
	sign(risk.Medium, nil).is(t, http.StatusSeeOther)
	sign(risk.High, nil).is(t, http.StatusUnprocessableEntity)
	sign(risk.High, typedFor(rs[risk.High])).is(t, http.StatusSeeOther)
}

// F10: at low risk a passkey counts for 10 minutes, in the session that used
// it.
func TestPasskeyServesForTenMinutesAtLowRisk(t *testing.T) {
	t.Parallel()
	h, rs := ofEach(t, proof.Friction{})
	b, a := h.as(brokertest.Approver), newAuthenticator(t)
	a.register(b).is(t, http.StatusSeeOther)
	h.Clock.Add(11 * time.Minute)
	low, medium := rs[risk.Low], rs[risk.Medium]
	page := b.get("/requests/" + low.ID)
	page.is(t, http.StatusOK, "confirm with your passkey once in 10 minutes", "data-passkey")
	b.choose(page, low.ID, "approve", nil).is(t, http.StatusForbidden)
	c, state := a.options(b, "/requests/"+medium.ID+"/challenge?"+url.Values{"choice": {"approve"}, "digest": {medium.Digest}}.Encode())
	b.choose(b.get("/requests/"+medium.ID), medium.ID, "approve", url.Values{"assertion": {a.get(c)}, "state": {state}}).is(t, http.StatusSeeOther)
	proved := b.cookies["__Host-ebb-proved"]
	if proved == "" {
		t.Fatal("nothing is kept of it")
	}
	for name, value := range map[string]string{"none": "", "garbage": "1.x", "another time": "9" + proved, "of no session": strings.Replace(proved, ".", ".A", 1)} {
		b.cookies["__Host-ebb-proved"] = value
		b.choose(b.get("/requests/"+low.ID), low.ID, "approve", nil).is(t, http.StatusForbidden)
		_ = name
	}
	other := h.as(brokertest.Approver) // the same person in another browser
	h.Clock.Add(9 * time.Minute)
	b.get("/queue").is(t, http.StatusOK)
	b.cookies["__Host-ebb-proved"] = proved
	b.get("/requests/"+low.ID).is(t, http.StatusOK, "one click")
	h.Clock.Add(2 * time.Minute)
	other.cookies["__Host-ebb-proved"] = proved
	for _, who := range []*browser{b, other} {
		who.choose(who.get("/requests/"+low.ID), low.ID, "approve", nil).is(t, http.StatusForbidden)
	}
}

// F10: the configuration can require more proof, never less.
func TestFrictionIsConfiguredStricterOnly(t *testing.T) {
	t.Parallel()
	h, rs := ofEach(t, proof.Friction{Low: proof.ProofPasskey, Medium: proof.ProofRecent, High: proof.ProofRecent})
	b, a := h.as(brokertest.Approver), newAuthenticator(t)
	low := rs[risk.Low]
	page := b.get("/requests/" + low.ID)
	page.is(t, http.StatusOK, "Add one in the settings")
	b.choose(page, low.ID, "approve", nil).is(t, http.StatusForbidden, "approval needs a passkey")
	b.choose(page, low.ID, "deny", no).is(t, http.StatusSeeOther) // a denial needs no proof
	a.register(b).is(t, http.StatusSeeOther)
	for _, level := range []risk.Level{risk.Medium, risk.High} {
		b.choose(b.get("/requests/"+rs[level].ID), rs[level].ID, "approve", typedFor(rs[level])).is(t, http.StatusForbidden)
	}
}

// F6: the narrowed approval comes before the whole one. With two suggestions
// the person chooses, and none is preselected.
func TestPartsToChooseFrom(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{
		Policies: map[string][]byte{"p.cedar": []byte(`@id("read") permit (principal, action, resource) when { context.action == "read" };
@id("ask") @ask("approvers") permit (principal, action, resource) unless { context.action == "read" };`)},
		Providers: map[string]broker.Provider{"plain": {Driver: dropDriver{}, Kind: "plain", Resource: "https://plain.test/"}},
	})
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("plain:**:*")
	r, _ := h.asks("plain:a:read plain:a:write plain:a:drop", "x", spec)
	b := h.as(brokertest.Approver)
	page := b.get("/requests/" + r.ID)
	page.is(t, http.StatusOK, "the part that policy grants without approval", "the part whose effects can be undone", `value="plain:a:read plain:a:write"`)
	if regexp.MustCompile(`type="radio" name="part" value="[^"]+" checked`).MatchString(page.body) || strings.Index(page.body, `value="narrow"`) > strings.Index(page.body, `value="approve"`) {
		t.Error("something is chosen already, or the whole comes first")
	}
	b.choose(page, r.ID, "narrow", url.Values{"part": {"plain:**:read"}, "scope": {"x"}, "minutes": {"5"}}).is(t, http.StatusUnprocessableEntity)
	b.choose(page, r.ID, "narrow", url.Values{"part": {"plain:a:read plain:a:write"}, "scope": {"plain:a:read"}, "minutes": {"5"}}).is(t, http.StatusConflict) // already sent
	b.choose(b.get("/requests/"+r.ID), r.ID, "narrow", url.Values{"part": {"plain:a:read plain:a:write"}, "scope": {"plain:a:read"}, "minutes": {"5"}}).is(t, http.StatusSeeOther)
	if got := h.again(r.ID); got.Granted.String() != "plain:a:read plain:a:write" {
		t.Errorf("granted %s", got.Granted)
	}
}

// dropDriver is a plainDriver with one action that cannot be undone.
type dropDriver struct{ plainDriver }

func (d dropDriver) Describe(s scopes.Scope) (provider.Effect, error) {
	if s.Action() == "drop" {
		return provider.Effect{Writes: provider.Yes, Reversible: provider.No}, nil
	}
	return d.plainDriver.Describe(s)
}
