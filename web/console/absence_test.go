package console_test

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/people"
)

// TestAbsence: an approver names a delegate of their groups until a day of their
// zone, and ends it by one click. Both are on the audit log.
func TestAbsence(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{People: []broker.Principal{{ID: "out", Roles: []broker.Role{broker.RoleApprover}, Groups: []string{"others"}}}})
	b := h.as(brokertest.Approver)
	b.get("/settings").is(t, http.StatusOK, "ebb knows no other approver of your groups")
	for _, id := range []string{brokertest.Second, brokertest.Auditor, "out"} {
		h.as(id)
	}
	b.cookies["ebb-zone"] = "Asia/Tokyo"
	page := b.get("/settings")
	page.is(t, http.StatusOK, "I am away up to and including", `<option value="`+brokertest.Second+`">`)
	for _, id := range []string{brokertest.Approver, brokertest.Auditor, "out"} {
		if strings.Contains(page.body, `<option value="`+id+`"`) {
			t.Errorf("%s can be chosen", id)
		}
	}
	zone, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	today := h.Clock.Now().In(zone)
	day := func(days int) string { return today.AddDate(0, 0, days).Format(time.DateOnly) }
	send := func(f url.Values) answer { return b.send(b.get("/settings"), "/settings/absence", f) }
	for name, f := range map[string]url.Values{
		"oneself": {"last": {day(3)}, "delegate": {brokertest.Approver}}, "without the role": {"last": {day(3)}, "delegate": {brokertest.Auditor}}, "of another group": {"last": {day(3)}, "delegate": {"out"}},
		"no such name": {"last": {day(3)}, "delegate": {"zed"}}, "nobody": {"last": {day(3)}, "delegate": {""}}, "markup": {"last": {day(3)}, "delegate": {`"><script>alert(1)</script>`}},
		"yesterday": {"last": {day(-1)}, "delegate": {brokertest.Second}}, "too late": {"last": {day(91)}, "delegate": {brokertest.Second}}, "no day": {"last": {""}, "delegate": {brokertest.Second}}, "no date": {"last": {"2026-02-30"}, "delegate": {brokertest.Second}},
		"a time": {"last": {day(3) + "T00:00"}, "delegate": {brokertest.Second}}, "far away": {"last": {"99999-01-01"}, "delegate": {brokertest.Second}},
	} {
		a := send(f)
		a.is(t, http.StatusUnprocessableEntity, `aria-describedby="absence-problem"`)
		if strings.Contains(a.body, "<script>alert") || strings.Contains(a.body, "Choose a person from the list.") != (f.Get("last") == day(3)) {
			t.Errorf("%s: %s", name, a.body)
		}
	}
	send(url.Values{"last": {day(3), day(3)}, "delegate": {brokertest.Second}}).is(t, http.StatusBadRequest)
	b.do(http.MethodPost, "/settings/absence", url.Values{"last": {day(3)}, "delegate": {brokertest.Second}}, nil).is(t, http.StatusConflict) // without the form's nonce
	if r, err := h.Store.Reach(t.Context(), brokertest.Approver); err != nil || r.Preferences.Away != (people.Absence{}) {
		t.Fatalf("%+v, %v", r.Preferences, err)
	}
	send(url.Values{"last": {day(90)}, "delegate": {brokertest.Second}}).is(t, http.StatusSeeOther)
	until := time.Date(today.Year(), today.Month(), today.Day()+91, 0, 0, 0, 0, zone)
	if r, err := h.Store.Reach(t.Context(), brokertest.Approver); err != nil || !r.Preferences.Away.Until.Equal(until) || r.Preferences.Away.Delegate != brokertest.Second {
		t.Errorf("%+v, %v", r.Preferences, err)
	}
	b.get("/settings").is(t, http.StatusOK, "You are away until", "I am back")
	again := url.Values{"nonce": {h.console.NonceFor(b.cookies["__Host-ebb-sess"], "/settings/absence")}, "last": {day(3)}, "delegate": {brokertest.Second}}
	b.do(http.MethodPost, "/settings/absence", again, nil).is(t, http.StatusConflict, "End that absence first")
	// Notification preferences keep it.
	b.send(b.get("/settings"), "/settings/notifications", url.Values{"high": {"now"}, "medium": {"off"}, "low": {"off"}, "quiet_from": {""}, "quiet_to": {""}, "quiet_zone": {""}}).is(t, http.StatusSeeOther)
	send(url.Values{"end": {"yes"}}).is(t, http.StatusSeeOther)
	b.get("/settings").is(t, http.StatusOK, "I am away up to and including")
	send(url.Values{"end": {"yes"}}).is(t, http.StatusSeeOther) // it has ended already
	// It ends by itself.
	send(url.Values{"last": {day(0)}, "delegate": {brokertest.Second}}).is(t, http.StatusSeeOther)
	h.Clock.Add(24 * time.Hour)
	b = h.as(brokertest.Approver)
	b.get("/settings").is(t, http.StatusOK, "I am away up to and including")
	for kind, want := range map[string]int{"absence.begun": 2, "absence.ended": 1} {
		entries, err := h.Broker.Entries(t.Context(), h.Principals[brokertest.Auditor], broker.EntryFilter{Kind: kind, Actor: brokertest.Approver})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range entries {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != want {
			t.Errorf("%d entries of kind %s, want %d", n, kind, want)
		}
	}
	// People who decide nothing have no delegate.
	auditor := h.as(brokertest.Auditor)
	if a := auditor.get("/settings"); strings.Contains(a.body, "/settings/absence") {
		t.Error("an auditor can be away")
	}
	form := url.Values{"nonce": {h.console.NonceFor(auditor.cookies["__Host-ebb-sess"], "/settings/absence")}, "last": {day(3)}, "delegate": {brokertest.Second}}
	auditor.do(http.MethodPost, "/settings/absence", form, nil).is(t, http.StatusForbidden)
}

// TestAbsenceFromTwoWindows: of several windows that begin an absence at once, one does. The audit
// log has the end of each other.
func TestAbsenceFromTwoWindows(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	b := h.as(brokertest.Approver)
	h.as(brokertest.Second)
	last := h.Clock.Now().AddDate(0, 0, 3).Format(time.DateOnly)
	codes := make(chan int, 8)
	var all sync.WaitGroup
	for range cap(codes) {
		window := *b
		window.cookies = maps.Clone(b.cookies)
		form := url.Values{"nonce": {h.console.NonceFor(b.cookies["__Host-ebb-sess"], "/settings/absence")}, "last": {last}, "delegate": {brokertest.Second}}
		all.Go(func() { codes <- window.do(http.MethodPost, "/settings/absence", form, nil).StatusCode })
	}
	all.Wait()
	close(codes)
	begun := 0
	for code := range codes {
		if code == http.StatusSeeOther {
			begun++
		} else if code != http.StatusConflict {
			t.Errorf("status %d", code)
		}
	}
	open := 0
	for kind, n := range map[string]int{"absence.begun": 1, "absence.ended": -1} {
		entries, err := h.Broker.Entries(t.Context(), h.Principals[brokertest.Auditor], broker.EntryFilter{Kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range entries {
			if err != nil {
				t.Fatal(err)
			}
			open += n
		}
	}
	if begun != 1 || open != 1 {
		t.Errorf("%d windows began an absence, and %d are open on the audit log, want 1 and 1", begun, open)
	}
}
