package console_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/memstore"
)

// If a session ends while a person writes, the typed text is kept.
func TestExpiredWhileWriting(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{Limits: broker.Limits{RequestTTL: 2 * time.Hour, MaxTaskTTL: 8 * time.Hour}})
	spec := brokertest.Spec()
	spec.TTL = 4 * 3600
	r, _ := h.asks("orders:eu/1:write", "x", spec)
	b := h.as(brokertest.Approver)
	form := b.form(b.get("/requests/"+r.ID), "narrow", url.Values{"scope": {"orders:eu/1:write"}, "minutes": {"7"}, "note": {"kept \"<b>"}, "keep[]": {"0", "1"}, "within-0": {"eu/1"}})
	h.Clock.Add(31 * time.Minute)
	path := "/requests/" + r.ID + "/decide"
	a := b.do(http.MethodPost, path, form, nil)
	a.is(t, http.StatusUnauthorized, "your input is kept", `value="7"`, `name="keep[]" value="0"`, `name="keep[]" value="1"`, `name="within-0" value="eu/1"`, `value="orders:eu/1:write"`, "kept &#34;&lt;b&gt;", "/signin")
	// After a new sign-in in another tab the same form is shown with all input.
	fresh := h.as(brokertest.Approver)
	a = fresh.send(a, path, nil)
	a.is(t, http.StatusConflict, "older session", `value="7"`, "orders:eu/1:write</textarea>")
	fresh.choose(a, r.ID, "narrow", url.Values{"scope": {"orders:eu/1:write"}, "minutes": {"7"}}).is(t, http.StatusSeeOther)
	if got := h.again(r.ID); got.GrantedTTL != 7*60 {
		t.Error(got.GrantedTTL)
	}
}

// An approval needs a recent sign-in; a denial does not.
func TestFreshSignIn(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r := h.asked("orders:eu/1:write")
	b := h.as(brokertest.Approver)
	h.Clock.Add(10*time.Minute + time.Second)
	page := b.get("/requests/" + r.ID)
	page.is(t, http.StatusOK, "sign in again")
	a := b.choose(page, r.ID, "narrow", url.Values{"scope": {"orders:eu/1:write"}, "minutes": {"3"}})
	a.is(t, http.StatusForbidden, "Sign in again", `value="3"`)
	b.choose(a, r.ID, "deny", no).is(t, http.StatusSeeOther)
}

// gone is a LiveStore that stops answering.
type gone struct {
	broker.LiveStore
	on *atomic.Bool
}

func (g gone) Admit(ctx context.Context, a broker.Admission) (broker.Live, error) {
	if g.on.Load() {
		return broker.Live{}, errors.New("dial tcp 10.0.0.5:6379: connection refused")
	}
	return g.LiveStore.Admit(ctx, a)
}

// off fails unless a page says why nothing can be approved, offers no approval,
// and does not reveal the internal error.
func (a answer) off(t *testing.T, why, broken string) {
	t.Helper()
	a.is(t, http.StatusOK, "Approving is off", why)
	for _, not := range []string{`value="approve"`, "Approve all", broken} {
		if strings.Contains(a.body, not) {
			t.Errorf("%s: the page has %s", a.Request.URL.Path, not)
		}
	}
}

// Acceptance check 28, of the LiveStore: approving is off with the reason;
// reading and denying work.
func TestLiveStoreGone(t *testing.T) {
	t.Parallel()
	var off atomic.Bool
	h := newFixture(t, brokertest.Config{LiveStore: gone{memstore.New(memstore.Config{}), &off}})
	r := h.asked("orders:eu/1:write")
	b := h.as(brokertest.Approver)
	before := b.get("/requests/" + r.ID)
	off.Store(true)
	b.get("/queue").is(t, http.StatusOK, r.Match)
	page := b.get("/requests/" + r.ID)
	page.off(t, "does not answer", "10.0.0.5")
	page.is(t, http.StatusOK, "Write to")
	b.choose(before, r.ID, "approve", typedTarget).is(t, http.StatusServiceUnavailable)
	if got := h.again(r.ID); got.State != broker.RequestPending {
		t.Fatal(got.State)
	}
	b.choose(page, r.ID, "deny", no).is(t, http.StatusSeeOther)
	if got := h.again(r.ID); got.State != broker.RequestDenied {
		t.Error(got.State)
	}
}

// While the database is down no session is known; typed input is still shown.
func TestDatabaseGone(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r := h.asked("orders:eu/1:write")
	b := h.as(brokertest.Approver)
	form := b.form(b.get("/requests/"+r.ID), "deny", url.Values{"code": {"too_broad"}, "note": {"typed with care"}})
	if err := h.Store.Close(); err != nil {
		t.Fatal(err)
	}
	a := b.do(http.MethodPost, "/requests/"+r.ID+"/decide", form, nil)
	a.is(t, http.StatusServiceUnavailable, "typed with care", `value="too_broad"`, "your input is kept")
}

// The page that an approver saw is stored unchanged for auditors.
func TestSeen(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r, _ := h.asks("orders:eu/1:write", canary+" \u202e because", brokertest.Spec())
	ann, aud := h.as(brokertest.Approver), h.as(brokertest.Auditor)
	aud.get("/requests/"+r.ID+"/snapshot/ann").is(t, http.StatusNotFound)
	page := ann.get("/requests/" + r.ID)
	h.Clock.Add(14 * time.Second)
	ann.choose(page, r.ID, "approve", typedTarget).is(t, http.StatusSeeOther)
	h.Clock.Add(3 * 24 * time.Hour)
	aud = h.as(brokertest.Auditor)
	bob := h.as(brokertest.Second)
	seen := aud.get("/requests/" + r.ID + "/snapshot/ann")
	_, vote, err := h.Broker.EvidenceSnapshot(t.Context(), h.Principals[brokertest.Auditor], r.ID, "ann")
	if err != nil || vote.Snapshot == "" {
		t.Fatal(err)
	}
	seen.is(t, http.StatusOK, "What", "ann", "14 s after the page was rendered", canary, "[U&#43;202E]", broker.TextHash(vote.Snapshot), r.Digest, r.Match)
	if agentBox.FindString(seen.body) != agentBox.FindString(page.body) {
		t.Error("the agent's text is drawn differently")
	}
	bob.get("/requests/"+r.ID+"/snapshot/ann").is(t, http.StatusNotFound)
	h.as(brokertest.Approver).get("/requests/"+r.ID+"/snapshot/ann").is(t, http.StatusOK)
	aud.get("/requests/"+r.ID+"/snapshot/"+url.PathEscape("../ann")).is(t, http.StatusNotFound)
	entries, err := h.Broker.Entries(t.Context(), h.Principals[brokertest.Auditor], broker.EntryFilter{RequestID: r.ID, Kind: "request.voted"})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for e, err := range entries {
		if err != nil {
			t.Fatal(err)
		}
		if n++; !strings.Contains(string(e.Data), broker.TextHash(vote.Snapshot)) || strings.Contains(string(e.Data), canary) {
			t.Errorf("the record says %s", e.Data)
		}
	}
	if n != 1 {
		t.Errorf("%d entries", n)
	}
}
