package console_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// TestLinkOutlivesNoToken: a session started by a link ends with the access
// token that made the link, and the link is no proof of presence.
//
//ebb:invariant I4 A console session started by a sign-in link ends with the access token that made the link, and the link does not prove presence
func TestLinkOutlivesNoToken(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{Limits: broker.Limits{PrincipalTTL: 30 * time.Minute}})
	key := h.Keys[brokertest.Approver]
	token, err := h.Broker.PrincipalToken(t.Context(), h.Assertion(t, brokertest.Approver, key), h.Prove(t, key), "")
	if err != nil {
		t.Fatal(err)
	}
	h.Clock.Add(30*time.Minute - 20*time.Second)
	who, err := h.Broker.AuthenticateToken(t.Context(), token.Token.Reveal(), h.Prove(t, key))
	if err != nil {
		t.Fatal(err)
	}
	l, until, err := h.links.Make(t.Context(), who)
	if err != nil {
		t.Fatal(err)
	}
	if left := until.Sub(h.Clock.Now()); left > 20*time.Second {
		t.Errorf("the link lives for %s, the token for 20s", left)
	}
	r := h.asked("orders:eu/1:write")
	b := h.browser()
	b.send(b.get(strings.TrimPrefix(l.Reveal(), h.at)), "/signin/link", nil).is(t, http.StatusSeeOther)
	page := b.get("/requests/" + r.ID)
	page.is(t, http.StatusOK, r.Match)
	b.choose(page, r.ID, "approve", typedTarget).is(t, http.StatusForbidden, "within the last 10 minutes")
	h.Clock.Add(21 * time.Second)
	b.get("/queue").is(t, http.StatusSeeOther)

	// An expired link starts no session.
	h.browser().get(strings.TrimPrefix(l.Reveal(), h.at)).is(t, http.StatusUnauthorized)
}
