package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web/console"
)

// subscription is what a browser sends. The keys are those of RFC 8291, appendix A.
func subscription(endpoint string) url.Values {
	return url.Values{"subscription": {fmt.Sprintf(`{"endpoint":%q,"keys":{"p256dh":"BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4","auth":"BTBZMqHH6r4Tts7J_aSIgg"}}`, endpoint)}}
}

// A person turns on notifications in a browser and off again. Addresses, the number of browsers
// and other people's browsers are checked, and both changes are audit entries.
func TestPush(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	b := h.as(brokertest.Approver)
	b.get("/settings").is(t, http.StatusOK, "You get no notifications in a browser yet.")
	page := b.get("/settings/push")
	page.is(t, http.StatusOK, `data-push="B`, `data-worker="/worker.js"`)
	if csp := page.Header.Get("Content-Security-Policy"); !strings.HasSuffix(csp, "require-trusted-types-for 'script'; trusted-types ebb-push") {
		t.Errorf("the policy is %q", csp)
	}
	send := func(f url.Values) answer { return b.send(b.get("/settings/push"), "/settings/push", f) }
	const good = "https://updates.push.services.mozilla.com/wpush/v2/gAAAAA"
	send(subscription(good)).is(t, http.StatusSeeOther)
	send(subscription(good)).is(t, http.StatusSeeOther) // the same browser
	page = b.get("/settings/push")
	page.is(t, http.StatusOK, "Unknown browser", "/settings/push/remove")
	b.get("/settings").is(t, http.StatusOK, "You get notifications in 1 browser.")
	if strings.Contains(page.body, "gAAAAA") {
		t.Error("the page shows the address")
	}
	for _, bad := range []string{"", "http://updates.push.services.mozilla.com/x", "https://127.0.0.1/x", "https://169.254.169.254/latest", "https://evil.example/x", "https://u:p@fcm.googleapis.com/x", "https://fcm.googleapis.com:8443/x"} {
		send(subscription(bad)).is(t, http.StatusBadRequest, "Notifications were not turned on")
	}
	send(nil).is(t, http.StatusBadRequest, "needs JavaScript")
	id := b.fill(page, "/settings/push/remove", nil).Get("id")
	other := h.as(brokertest.Auditor)
	other.send(other.get("/settings/push"), "/settings/push", subscription(good+"2")).is(t, http.StatusSeeOther)
	other.send(other.get("/settings/push"), "/settings/push/remove", url.Values{"id": {id}}).is(t, http.StatusNotFound)
	for i := range people.MaxPushes - 1 {
		send(subscription(fmt.Sprint(good, "/", i))).is(t, http.StatusSeeOther)
	}
	send(subscription(good+"/last")).is(t, http.StatusBadRequest, "Remove one first")
	b.send(page, "/settings/push/remove", nil).is(t, http.StatusSeeOther)
	b.do(http.MethodPost, "/settings/push", subscription(good), nil).is(t, http.StatusConflict) // without the form's nonce
	for kind, want := range map[string]int{"push.added": people.MaxPushes + 2, "push.removed": 1} {
		got := 0
		for _, err := range h.Store.Entries(t.Context(), broker.EntryFilter{Kind: kind}) {
			if got++; err != nil {
				t.Fatal(err)
			}
		}
		if got != want {
			t.Errorf("%d entries of %s", got, kind)
		}
	}
	b.get("/worker.js").is(t, http.StatusOK, "showNotification")
	without := newFixtureWith(t, brokertest.Config{}, func(c *console.Config) { c.Push = nil })
	without.as(brokertest.Approver).get("/settings/push").is(t, http.StatusNotFound, "webpush")
}
