package console_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/scopes"
)

// TestHugeRequest: an approver can read and answer the page of a sandbox with
// the largest allowed attributes, scope and reason (I12).
func TestHugeRequest(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	s := h.Open(t, brokertest.Spec())
	random := rand.New(rand.NewPCG(1, 2))
	huge := func(action string) string {
		var all []string
		for range scopes.MaxScopes {
			var path []string
			for range 7 {
				path = append(path, fmt.Sprintf("%016x%016x%016x%016x", random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64()))
			}
			all = append(all, "orders:eu/"+strings.Join(path, "/")+":"+action)
		}
		return strings.Join(all, " ")
	}
	for range 20 {
		if _, err := s.Ask(t, huge("read")); err != nil {
			t.Fatal(err)
		}
	}
	words := make([]rune, 4000)
	for i := range words {
		words[i] = rune(0xe000 + random.IntN(0x1900)) // private use: each is shown as its code point
	}
	q := s.Request(t, huge("write"))
	q.Deferred, q.Reason = true, agenttext.From(string(words))
	_, err := h.Broker.Token(t.Context(), q)
	e := broker.AsError(err)
	if e == nil || e.Kind != broker.Pending {
		t.Fatal(err)
	}
	r := h.again(e.Pending.RequestID)
	if n := len(r.Facts); n > 128<<10 {
		t.Errorf("the facts have %d bytes", n)
	}
	b := h.as(brokertest.Approver)
	b.get("/queue").is(t, http.StatusOK, r.Match)
	page := b.get("/requests/" + r.ID)
	page.is(t, http.StatusOK, "and 1272 more")
	if n := len(page.body); n > 512<<10 {
		t.Errorf("the page has %d bytes", n)
	}
	b.choose(page, r.ID, "deny", url.Values{"code": no["code"], "note": no["note"]}).is(t, http.StatusSeeOther)
	if r = h.again(r.ID); r.State != broker.RequestDenied {
		t.Errorf("it is %s", r.State)
	}
}
