package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/web/console/proof"
)

// TestNarrowerNeedsTheName: a narrowed approval of a high-risk request needs
// the typed name, as the whole approval does. Before, fewer minutes granted the
// whole scope without the name.
//
//ebb:invariant I7 Approving a high-risk request requires the name of its target, also when the approval narrows the request
func TestNarrowerNeedsTheName(t *testing.T) {
	t.Parallel()
	h, rs := ofEach(t, proof.Friction{})
	b := h.as(brokertest.Approver)
	for level, r := range rs {
		page := b.get("/requests/" + r.ID)
		if got := strings.Contains(page.body, `id="narrow-target"`); got != (level == risk.High) {
			t.Errorf("%s: the narrower form asks for the name: %v", level, got)
		}
		if level == risk.High {
			for _, typed := range []string{"", "eu/2", "EU/1", " eu/1", "eu/1:write"} {
				page = b.choose(page, r.ID, "narrow", url.Values{"scope": {r.Scopes.String()}, "minutes": {"1"}, "target": {typed}})
				page.is(t, http.StatusUnprocessableEntity, `id="narrow-target-problem"`, "Type the name exactly")
				if h.again(r.ID).State != broker.RequestPending {
					t.Fatalf("%q: approved without the name", typed)
				}
			}
		}
		b.choose(page, r.ID, "narrow", url.Values{"scope": {r.Scopes.String()}, "minutes": {"1"}}).is(t, http.StatusSeeOther)
	}
}
