package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/memstore"
	"github.com/ebb-broker/ebb/broker/people"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/web/console"
)

// torn is a client that disconnects after so many bytes.
type torn struct {
	header http.Header
	left   int
}

func (w *torn) Header() http.Header { return w.header }
func (w *torn) WriteHeader(int)     {}
func (w *torn) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errors.New("write: broken pipe")
	}
	return len(p), nil
}

// An export that is cut off is in the audit log as cut off, with the number of
// rows written.
func TestExportCutOff(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	h.issued(h.Open(t, brokertest.Spec()).Task, 600, nil)
	b := h.as(brokertest.Auditor)
	for _, path := range []string{"/credentials.csv", "/credentials.jsonl"} {
		func() {
			defer func() {
				if got := recover(); got != http.ErrAbortHandler {
					t.Errorf("%s: ended with %v, as if it was whole", path, got)
				}
			}()
			b.stream(path, &torn{header: http.Header{}, left: 40_000})
		}()
		var x report.Export
		e := h.lastEntry(t, audit.RecordExported)
		if err := json.Unmarshal(e.Data, &x); err != nil || x.Whole || x.Rows < 1 || x.Rows >= 600 || !strings.HasPrefix(path, "/"+x.List) || e.Actor != brokertest.Auditor {
			t.Errorf("%s: the record says %s (%v)", path, e.Data, err)
		}
	}
}

// silent is a LiveStore that does not answer while on.
type silent struct {
	broker.LiveStore
	on *atomic.Bool
}

var errSilent = errors.New("dial tcp 10.0.0.5:6379: connection refused")

func (s silent) err() error {
	if s.on.Load() {
		return errSilent
	}
	return nil
}

func (s silent) Admit(ctx context.Context, a broker.Admission) (broker.Live, error) {
	if err := s.err(); err != nil {
		return broker.Live{}, err
	}
	return s.LiveStore.Admit(ctx, a)
}

func (s silent) SetState(ctx context.Context, id string, st broker.TaskState, at, keep time.Time) (broker.Counts, bool, error) {
	if err := s.err(); err != nil {
		return broker.Counts{}, false, err
	}
	return s.LiveStore.SetState(ctx, id, st, at, keep)
}

func (s silent) EndLease(ctx context.Context, l broker.LiveLease, at time.Time) (bool, error) {
	if err := s.err(); err != nil {
		return false, err
	}
	return s.LiveStore.EndLease(ctx, l, at)
}

// The console can deny, stop and revoke while the LiveStore is down (I6).
func TestEndsWithoutLiveStore(t *testing.T) {
	t.Parallel()
	var off atomic.Bool
	h := newFixture(t, brokertest.Config{LiveStore: silent{memstore.New(memstore.Config{}), &off}})
	s, other := h.Open(t, brokertest.Spec()), h.Open(t, brokertest.Spec())
	tok, err := s.Ask(t, "orders:eu/1:read")
	if err != nil {
		t.Fatal(err)
	}
	b := h.as(brokertest.Operator)
	lease, task := b.get("/credentials/"+tok.LeaseID), b.get("/tasks/"+other.Task.ID)
	off.Store(true)
	// The end takes effect, and the page says that the LiveStore has not
	// recorded it yet.
	for path, page := range map[string]answer{"/credentials/" + tok.LeaseID + "/revoke": lease, "/tasks/" + other.Task.ID + "/stop": task} {
		a := b.send(page, path, url.Values{"reason": {"enough"}})
		if a.is(t, http.StatusServiceUnavailable, "keeps trying"); strings.Contains(a.body, "10.0.0.5") {
			t.Errorf("%s tells what is broken", path)
		}
	}
	who := h.Principals[brokertest.Auditor]
	if l, err := h.Broker.Lease(t.Context(), who, tok.LeaseID); err != nil || l.State == broker.LeaseLive {
		t.Errorf("%s, %v", l.State, err)
	}
	if k, err := h.Broker.Task(t.Context(), who, other.Task.ID); err != nil || k.State != broker.TaskClosed || k.Reason != "enough" {
		t.Errorf("%s %q, %v", k.State, k.Reason, err)
	}
}

// frozen is a database whose sessions do not answer while on.
type frozen struct {
	people.Store
	on *atomic.Bool
}

func (f frozen) Session(ctx context.Context, id string) (people.Session, error) {
	if f.on.Load() {
		<-ctx.Done()
		return people.Session{}, ctx.Err()
	}
	return f.Store.Session(ctx, id)
}

// I6: a person who has opened a task before can stop it from the console while
// the database is down or hangs, but can do nothing else. A person who signed
// out before cannot.
//
//ebb:invariant I6 A person with a cached console session can stop tasks, revoke and deny, but do nothing else, while the database is unavailable or frozen
func TestEndsWithoutDatabase(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*fixture, *atomic.Bool){
		"gone":   func(h *fixture, _ *atomic.Bool) { _ = h.Store.Close() },
		"frozen": func(_ *fixture, hangs *atomic.Bool) { hangs.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var hangs atomic.Bool
			h := newFixtureWith(t, brokertest.Config{}, func(c *console.Config) { c.Sessions = frozen{c.Sessions, &hangs} })
			s := h.Open(t, brokertest.Spec())
			tok, err := s.Ask(t, "orders:eu/1:read")
			if err != nil {
				t.Fatal(err)
			}
			b, gone := h.as(brokertest.Operator), h.as(brokertest.Operator)
			page, old := b.get("/tasks/"+s.Task.ID), gone.get("/tasks/"+s.Task.ID)
			gone.send(gone.get("/queue"), "/signout", nil)
			fault(h, &hangs)
			if a := gone.send(old, "/tasks/"+s.Task.ID+"/stop", url.Values{"reason": {"enough"}}); a.StatusCode == http.StatusSeeOther || !h.Active(t, tok.Token.Reveal()) {
				t.Errorf("somebody who signed out: %d", a.StatusCode)
			}
			if name == "gone" {
				b.get("/tasks/"+s.Task.ID).is(t, http.StatusServiceUnavailable)
			}
			a := b.send(page, "/tasks/"+s.Task.ID+"/stop", url.Values{"reason": {"enough"}})
			if name == "gone" {
				a.is(t, http.StatusServiceUnavailable, "refused here", "Live store: done. Database: pending.")
			} else {
				a.is(t, http.StatusSeeOther)
			}
			if h.Active(t, tok.Token.Reveal()) {
				t.Error("active after the stop")
			}
		})
	}
}

// Closing a pending revocation needs the typed provider name and a reason. No
// page claims afterwards that the credential is dead at the provider.
func TestForceForm(t *testing.T) {
	t.Parallel()
	h, up, s := thirdParty(t, true)
	tok, err := s.Ask(t, "up:a:read")
	if err != nil {
		t.Fatal(err)
	}
	path := "/credentials/" + tok.LeaseID
	up.On(brokertest.OpRevoke, brokertest.Hang)
	b := h.as(brokertest.Operator)
	b.send(b.get(path), path+"/revoke", url.Values{"reason": {"it leaked"}}).is(t, http.StatusSeeOther)
	until(t, func() (answer, bool) {
		a := b.get(path)
		return a, strings.Contains(a.body, "UNSURE")
	})
	if page := h.as(brokertest.Auditor).get(path); strings.Contains(page.body, path+"/force") {
		t.Error("an auditor may give up on it")
	}
	b.send(b.get(path), path+"/force", url.Values{"provider": {"UP"}, "reason": {"seen in its console"}}).is(t, http.StatusBadRequest, "Nothing was changed")
	if a := b.send(b.get(path), path+"/force", url.Values{"provider": {"up"}, "reason": {" "}}); a.StatusCode != http.StatusBadRequest {
		t.Errorf("without a reason: %d", a.StatusCode)
	}
	b.send(b.get(path), path+"/force", url.Values{"provider": {"up"}, "reason": {"seen in its console"}}).is(t, http.StatusSeeOther)
	b.get(path).is(t, http.StatusOK, "not proved: an operator closed the pending revocation")
	if e := h.lastEntry(t, audit.LeaseForced); e.Actor != brokertest.Operator || e.LeaseID != tok.LeaseID || !strings.Contains(string(e.Data), "seen in its console") {
		t.Errorf("the record says %s: %s", e.Actor, e.Data)
	}
}

// altered is a store in which an actor's name was changed.
type altered struct {
	broker.Store
	kind string
}

func (a altered) EntryList(ctx context.Context, q broker.EntryQuery) (broker.EntrySlice, error) {
	s, err := a.Store.EntryList(ctx, q)
	for i := range s.Entries {
		if s.Entries[i].Kind == a.kind {
			s.Entries[i].Actor = "somebody else"
		}
	}
	return s, err
}

// The check names an entry that was changed after it was written. The entry's
// page shows that its content does not match its hash.
func TestAlteredEntryIsSeen(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	h.Open(t, brokertest.Spec())
	e := h.lastEntry(t, audit.TaskOpened)
	h.Config.Store, h.Config.Registerer = altered{h.Config.Store, audit.TaskOpened}, nil
	var err error
	if h.Broker, err = core.New(t.Context(), h.Config); err != nil {
		t.Fatal(err)
	}
	h.open(t)
	b := h.as(brokertest.Auditor)
	page := b.get("/audit/check")
	page.is(t, http.StatusOK, e.Writer, fmt.Sprint(e.Seq))
	if strings.Contains(page.body, "Verification succeeded") {
		t.Error("the check sees nothing")
	}
	page = b.get(fmt.Sprintf("/audit/%s/%d", e.Writer, e.Seq))
	if page.is(t, http.StatusOK, "somebody else"); strings.Contains(page.body, "hash is valid") {
		t.Error("the page of the entry sees nothing")
	}
}

// A request that ends after a daylight saving change is shown with the zone
// name of that hour, and its duration is correct.
func TestClocksChange(t *testing.T) {
	t.Parallel()
	for zone, c := range map[string]struct {
		now           time.Time
		before, after string
	}{
		"Europe/Berlin":    {time.Date(2026, 3, 29, 0, 45, 0, 0, time.UTC), "01:45:00 CET", "03:14:00 CEST"},
		"America/New_York": {time.Date(2026, 11, 1, 5, 45, 0, 0, time.UTC), "01:45:00 EDT", "01:14:00 EST"},
		"Pacific/Apia":     {time.Date(2026, 3, 29, 0, 45, 0, 0, time.UTC), "13:45:00 &#43;13", "14:14:00 &#43;13"},
	} {
		h := newFixture(t, brokertest.Config{Start: c.now})
		r := h.asked("orders:eu/1:write")
		b := h.as(brokertest.Approver)
		b.cookies["ebb-zone"] = zone
		b.get("/requests/"+r.ID).is(t, http.StatusOK, "30 min left")
		b.get("/queue").is(t, http.StatusOK, "30 min left")
		h.Clock.Add(29 * time.Minute)
		aud := h.as(brokertest.Auditor) // which is in the audit log, at an hour with the other zone name
		aud.cookies["ebb-zone"] = zone
		aud.get("/audit").is(t, http.StatusOK, c.before, c.after)
		b.get("/queue").is(t, http.StatusOK, "1 min left")
	}
}

// With more than 1,000 waiting requests the page says so and shows the first
// 50. A filter without an index searches 1,000 requests, and the page says so.
func TestMoreThanCounted(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	now := h.Clock.Now()
	h.wait(broker.WaitingCap+100, func(i int, r *broker.Request) {
		r.Rank, r.ExpiresAt = 3-i%2, // the request made by the sandbox is high, too
			now.Add(time.Duration(i)*time.Second+time.Hour)
		if i == broker.WaitingCap+99 { // the last but one of those with the lowest level
			r.Owner = "needle"
		}
	})
	ann := h.as(brokertest.Approver)
	a := ann.get("/queue")
	a.is(t, http.StatusOK, "Waiting for you (1000&#43;)", "551 high", "449&#43; medium")
	if n := len(reviews.FindAllString(a.body, -1)); n != 50 || strings.Contains(a.body, "The search read") {
		t.Errorf("%d rows", n)
	}
	for _, query := range []string{"q=NEEDLE", "provider=mail"} {
		a = ann.get("/queue?" + query)
		a.is(t, http.StatusOK, "Waiting for you (0&#43;)", "None of the requests searched matches the filter.", "The search read 1000 waiting requests, highest risk first; there may be more.")
		next := regexp.MustCompile(`href="(/queue\?[^"]*)">Continue the search`).FindStringSubmatch(a.body)
		if next == nil {
			t.Fatalf("%s leads nowhere: %s", query, a.body)
		}
		a = ann.get(strings.ReplaceAll(next[1], "&amp;", "&"))
		a.is(t, http.StatusOK, "The search read 101 waiting requests, highest risk first.")
		if found := reviews.MatchString(a.body); found != (query == "q=NEEDLE") {
			t.Errorf("%s: %s", query, a.body)
		}
	}
}
