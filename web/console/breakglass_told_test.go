package console_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/web/console"
	"github.com/ebb-broker/ebb/web/console/passkey"
)

// periods creates n ended periods of n people, none of them reviewed.
func (h *fixture) periods(n int) {
	h.t.Helper()
	ctx, now := context.WithoutCancel(h.t.Context()), h.Clock.Now()
	for i := range n {
		who := fmt.Sprint("person ", i)
		s := people.Session{ID: who, Act: "act", Person: who, CreatedAt: now, SeenAt: now, ExpiresAt: now.Add(time.Hour)}
		g := broker.BreakGlass{BreakGlassPlan: broker.BreakGlassPlan{ID: fmt.Sprintf("brk_f%031x", i), Person: who, Incident: "OLD-1", Reason: glassWhy, TTL: 60, Most: 1, AskedAt: now}, Session: who, BegunAt: now, EndsAt: now.Add(time.Minute)}
		entry := audit.Entry{At: now, Kind: audit.BreakGlassBegun, Actor: who}
		err := h.Store.AddSession(ctx, s)
		if err == nil {
			err = h.Store.BeginBreakGlass(ctx, g, now.Add(-time.Hour), 1, entry)
		}
		if err == nil {
			_, err = h.Store.EndBreakGlass(ctx, g.ID, who, now, func(broker.BreakGlass) audit.Entry { return entry })
		}
		if err != nil {
			h.t.Fatal(err)
		}
	}
}

// TestBannerLosesNoOpenOne: an open period is on every page, however many newer
// ones wait for review.
//
//ebb:invariant I6 Every console page shows each open break-glass period, however many newer periods await review
func TestBannerLosesNoOpenOne(t *testing.T) {
	t.Parallel()
	h := breakGlassFixture(t)
	b, a := h.as("out"), newAuthenticator(t)
	a.register(b).is(t, http.StatusSeeOther)
	at := a.breaks(h.signedInAnew("out"))
	h.periods(25)
	page := h.as(brokertest.Viewer).get("/queue")
	page.is(t, http.StatusOK, "Break-glass is open", at, "OLD-1", "All break-glass periods")
	if n := strings.Count(page.body, "is not reviewed yet"); n != 2 {
		t.Errorf("and %d that are over", n)
	}
	// A page of the list is full also for people who see only a part of the
	// periods.
	h.review("brk_f" + fmt.Sprintf("%031x", 24))
	list := h.as(brokertest.Viewer).get("/break-glass")
	if n := strings.Count(list.body, `<tr role="row">`) - 1; n != 25 {
		t.Errorf("%d are listed, of 24 and the one that is open", n)
	}
}

func (h *fixture) review(id string) {
	h.t.Helper()
	if _, err := h.Broker.ReviewBreakGlass(h.t.Context(), h.Principals[brokertest.Auditor], id, "fine"); err != nil {
		h.t.Fatal(err)
	}
}

// blindApprovalStore is an approval store whose periods cannot be read.
type blindApprovalStore struct {
	broker.ApprovalStore
	off *atomic.Bool
}

func (d blindApprovalStore) BreakGlasses(ctx context.Context, f broker.BreakGlassFilter) ([]broker.BreakGlass, error) {
	if d.off.Load() {
		return nil, errors.New("dial tcp 10.0.0.7:5432: connection refused")
	}
	return d.ApprovalStore.BreakGlasses(ctx, f)
}

// TestBannerUnread: if the break-glass state cannot be read, every page says so
// and is still shown.
//
//ebb:invariant I6 If the break-glass state cannot be read, every console page says so
func TestBannerUnread(t *testing.T) {
	t.Parallel()
	var off atomic.Bool
	c := brokertest.Config{BreakGlass: approval.BreakGlassConfig{People: []string{"gil"}, Check: passkey.Check}}
	clock := time.Now()
	store := brokertest.OpenStore(t, filepath.Join(t.TempDir(), "ebb.db"), func() time.Time { return clock })
	c.Store, c.ApprovalStore = store, blindApprovalStore{store, &off}
	h := newFixtureWith(t, c, func(cc *console.Config) {
		cc.Sessions, cc.Passkeys, cc.Names, cc.Reach, cc.Outbox = store, store, store, store, store
	})
	b := h.as(brokertest.Viewer)
	if page := b.get("/queue"); strings.Contains(page.body, "could not be read") {
		t.Error("it could be read")
	}
	off.Store(true)
	for _, path := range []string{"/queue", "/settings"} {
		page := b.get(path)
		page.is(t, http.StatusOK, "The break-glass state could not be read")
		if strings.Contains(page.body, "10.0.0.7") {
			t.Errorf("%s tells what is broken", path)
		}
	}
	off.Store(false)
	if page := b.get("/queue"); strings.Contains(page.body, "could not be read") {
		t.Error("it can be read again")
	}
}

// TestBreakGlassPlanIsKept: the browser keeps any typed text until the plan is
// proved.
func TestBreakGlassPlanIsKept(t *testing.T) {
	t.Parallel()
	h := breakGlassFixture(t)
	b := h.as("out")
	for _, letter := range []string{"<", "&", `"`, "\U0001f30a"} {
		form := b.fill(b.get("/break-glass"), "/break-glass/plan", url.Values{"incident": {strings.Repeat("I", 64)}, "reason": {strings.Repeat(letter, 500)}})
		got := b.do(http.MethodPost, "/break-glass/plan", form, nil)
		got.is(t, http.StatusSeeOther)
		for _, line := range got.Header.Values("Set-Cookie") {
			if len(line) > 4096 {
				t.Errorf("a cookie of %d bytes for 500 times %q", len(line), letter)
			}
		}
		b.get("/break-glass/plan").is(t, http.StatusOK, "<h1>Start break-glass")
	}
}

// TestBreakGlassAgainstSignOut: a period started while its person signs out is
// not open after the sign-out.
func TestBreakGlassAgainstSignOut(t *testing.T) {
	t.Parallel()
	h := breakGlassFixture(t)
	a := newAuthenticator(t)
	a.register(h.as("out")).is(t, http.StatusSeeOther)
	for range 3 {
		b := h.signedInAnew("out")
		form, out := a.signs(b, b.planned()), b.fill(b.get("/queue"), "/signout", nil)
		var wg sync.WaitGroup
		for _, post := range []func(*browser){
			func(b *browser) { b.do(http.MethodPost, "/break-glass", form, nil) },
			func(b *browser) { b.do(http.MethodPost, "/signout", out, nil).is(t, http.StatusSeeOther) },
		} {
			same := &browser{h: h, cookies: map[string]string{}}
			for k, v := range b.cookies {
				same.cookies[k] = v
			}
			wg.Go(func() { post(same) })
		}
		wg.Wait()
		if g, open, err := h.Broker.OpenBreakGlass(t.Context(), h.Principals["out"]); open || err != nil {
			t.Errorf("%s is open: %v", g.ID, err)
		}
	}
}
