package console_test

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/people"
)

// Notification preferences are stored for the person, and only valid ones.
func TestPreferences(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	b := h.as(brokertest.Approver)
	b.get("/settings").is(t, http.StatusOK, "Notifications", `name="high" value="now" checked`, `name="low" value="digest" checked`, "You get no mail")
	send := func(f url.Values) answer { return b.send(b.get("/settings"), "/settings/notifications", f) }
	form := func(change url.Values) url.Values {
		out := url.Values{"high": {"digest"}, "medium": {"off"}, "low": {"off"}, "quiet_from": {"22:00"}, "quiet_to": {"06:30"}, "quiet_zone": {" Europe/Berlin "}, "breaks": {"yes"}, "shortcuts": {"yes"}}
		for name, v := range change {
			out[name] = v
		}
		return out
	}
	send(form(nil)).is(t, http.StatusSeeOther)
	want := people.Preferences{High: people.InDigest, Medium: people.Never, Low: people.Never, QuietFrom: 22 * 60, QuietTo: 6*60 + 30, Zone: "Europe/Berlin", HighBreaks: true}
	got, err := h.Store.Reach(t.Context(), brokertest.Approver)
	if err != nil || !reflect.DeepEqual(got.Preferences, want) || got.Mail != "" {
		t.Errorf("got %+v, %v", got, err)
	}
	h.as(brokertest.Approver).get("/settings").is(t, http.StatusOK, `name="high" value="digest" checked`, `value="22:00"`, `value="06:30"`, `value="Europe/Berlin"`, `name="breaks" value="yes" checked`)
	for name, bad := range map[string]url.Values{
		"quiet_from": {"quiet_from": {""}}, "quiet_to": {"quiet_to": {"6:30"}}, "a later hour": {"quiet_to": {"24:00"}}, "no hour": {"quiet_from": {"22:60"}}, "quiet_zone": {"quiet_zone": {"Mars/Phobos"}},
		"a path": {"quiet_zone": {"../../etc/passwd"}}, "markup": {"quiet_zone": {`"><script>alert(1)</script>`}},
	} {
		a := send(form(bad))
		a.is(t, http.StatusUnprocessableEntity, `aria-invalid="true"`, `aria-describedby="quiet-problem"`, `id="quiet-problem"`)
		if strings.Contains(a.body, "<script>alert") {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	for _, bad := range []string{"", "NOW", "now;off", "\x00"} {
		send(form(url.Values{"high": {bad}})).is(t, http.StatusBadRequest)
	}
	if got, err := h.Store.Reach(t.Context(), brokertest.Approver); err != nil || !reflect.DeepEqual(got.Preferences, want) {
		t.Errorf("changed: %+v, %v", got, err)
	}
	send(form(url.Values{"quiet_from": {""}, "quiet_to": {""}, "quiet_zone": {""}, "breaks": nil})).is(t, http.StatusSeeOther)
	if got, err := h.Store.Reach(t.Context(), brokertest.Approver); err != nil || got.Preferences.QuietFrom != got.Preferences.QuietTo || got.Preferences.HighBreaks {
		t.Errorf("got %+v, %v", got, err)
	}
	b.do(http.MethodPost, "/settings/notifications", form(nil), nil).is(t, http.StatusConflict) // without the form's nonce
}

// The one-key shortcuts are on until the person turns them off, for this person alone. No other
// value of the field turns them on.
func TestShortcutsAreOptional(t *testing.T) {
	t.Parallel()
	h, rs := few(t, 1)
	id := rs[0].ID
	ann, bob := h.as(brokertest.Approver), h.as(brokertest.Second)
	has := func(b *browser, want bool) {
		t.Helper()
		for _, path := range []string{"/queue", "/requests/" + id, "/batch?id=" + id} {
			if got := strings.Contains(b.get(path).body, "<dialog"); got != want {
				t.Errorf("%s has shortcuts: %t, want %t", path, got, want)
			}
		}
	}
	has(ann, true)
	ann.get("/settings").is(t, http.StatusOK, `name="shortcuts" value="yes" checked`)
	form := url.Values{"high": {"now"}, "medium": {"now"}, "low": {"off"}}
	for _, v := range [][]string{nil, {""}, {"no"}, {"YES"}, {"yes "}, {"<b>"}} {
		form["shortcuts"] = v
		ann.send(ann.get("/settings"), "/settings/notifications", form).is(t, http.StatusSeeOther)
		has(ann, false)
	}
	has(bob, true)
	form["shortcuts"] = []string{"yes", "yes"}
	ann.send(ann.get("/settings"), "/settings/notifications", form).is(t, http.StatusBadRequest)
	form["shortcuts"] = []string{"yes"}
	ann.send(ann.get("/settings"), "/settings/notifications", form).is(t, http.StatusSeeOther)
	has(ann, true)
}
