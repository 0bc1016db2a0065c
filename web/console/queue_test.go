package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// wait adds n waiting requests, copies of one. change sets rank and expiry.
func (h *fixture) wait(n int, change func(i int, r *broker.Request)) broker.Request {
	h.t.Helper()
	r := h.asked("orders:eu/1:write")
	for i := range n {
		one := r
		one.ID, one.Dedupe = fmt.Sprintf("req_%032x", i), fmt.Sprint("copy ", i)
		change(i, &one)
		e := audit.Entry{At: h.Clock.Now(), Kind: audit.RequestCreated, Actor: "test", TaskID: one.TaskID, RequestID: one.ID}
		if _, _, err := h.Store.Create(h.t.Context(), one, broker.Room{}, e); err != nil {
			h.t.Fatal(err)
		}
	}
	return r
}

var reviews = regexp.MustCompile(`href="/requests/(req_[0-9a-f]+)"`)

// A large queue: highest risk first, then earliest expiry; each request once,
// page by page, with the total on each page.
func TestQueueOfMany(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	now := h.Clock.Now()
	var want []string
	rank := func(i int) int { return 3 - i%3 }
	own := h.wait(130, func(i int, r *broker.Request) {
		r.Rank, r.ExpiresAt = rank(i), now.Add(time.Duration(130-i)*time.Minute)
	})
	for level := 3; level > 0; level-- {
		for i := 129; i >= 0; i-- {
			if rank(i) == level {
				want = append(want, fmt.Sprintf("req_%032x", i))
			}
		}
	}
	b := h.as(brokertest.Approver)
	var got []string
	path := "/queue"
	for range 10 {
		a := b.get(path)
		a.is(t, http.StatusOK, "Waiting for you (131)", "45 high", "43 medium", "43 low")
		for _, m := range reviews.FindAllStringSubmatch(a.body, -1) {
			got = append(got, m[1])
		}
		next := regexp.MustCompile(`href="(/queue\?[^"]*)">Next page`).FindStringSubmatch(a.body)
		if next == nil {
			break
		}
		path = strings.ReplaceAll(next[1], "&amp;", "&")
	}
	copies := slices.DeleteFunc(slices.Clone(got), func(id string) bool { return id == own.ID })
	if len(got) != 131 || !slices.Equal(copies, want) {
		t.Errorf("%d rows: %v", len(got), got)
	}
	b.get("/queue?risk=high").is(t, http.StatusOK, "Waiting for you (45)")
	b.get("/queue?risk=high&q=nothing-like-it").is(t, http.StatusOK, "None of 131 match this filter", "The filter hides every waiting request.", `href="/queue"`)
	b.get("/queue?after=%00").is(t, http.StatusUnprocessableEntity, `<form class="filter`)
	b.get("/queue?after="+strings.Repeat("A", 300)).is(t, http.StatusUnprocessableEntity, `<form class="filter`)
	b.get("/queue?q="+strings.Repeat("x", 201)).is(t, http.StatusUnprocessableEntity, `<form class="filter`)
	h.as(brokertest.Auditor).get("/queue").is(t, http.StatusOK, "Waiting (131)")
	h.as(brokertest.Runner2).get("/queue").is(t, http.StatusOK, "Waiting (0)", "No requests are waiting.")
}

// No row of the queue has a decide form or agent text.
func TestQueueDecidesNothing(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r, s := h.asks("orders:eu/1:write", canary, brokertest.Spec())
	for range 2 {
		if _, err := s.AskDeferred(t, "orders:eu/1:write"); broker.AsError(err).Kind != broker.Pending {
			t.Fatal(err)
		}
	}
	b := h.as(brokertest.Approver)
	a := b.get("/queue")
	a.is(t, http.StatusOK, "asked more than once", r.Match, "“fix login”")
	if strings.Contains(a.body, canary) || strings.Contains(a.body, "/decide") {
		t.Error("an agent's word, or a form that decides")
	}
	b.get("/requests/"+r.ID).is(t, http.StatusOK, "asked 3 times, counted as one request")
}

// BenchmarkQueue draws the first page of 10,000 requests.
func BenchmarkQueue(b *testing.B) {
	h := newFixture(b, brokertest.Config{})
	now := h.Clock.Now()
	h.wait(10_000, func(i int, r *broker.Request) {
		r.Rank, r.ExpiresAt = 1+i%3, now.Add(time.Duration(i)*time.Second+time.Hour)
	})
	who := h.as(brokertest.Approver)
	for b.Loop() {
		who.get("/queue").is(b, http.StatusOK, "(1000&#43;)")
	}
}

// F1: a request covered by a grant needs no approval, and the page of another
// request says so.
func TestCoveredByGrant(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r, s := h.asks("orders:eu/*:write", "x", brokertest.Spec())
	b := h.as(brokertest.Approver)
	b.choose(b.get("/requests/"+r.ID), r.ID, "approve", url.Values{"target": {"eu/*"}}).is(t, http.StatusSeeOther)
	if _, err := s.Ask(t, "orders:eu/1:write"); err != nil {
		t.Fatal(err)
	}
	b.get("/queue").is(t, http.StatusOK, "No requests are waiting for you")
	if _, err := s.AskDeferred(t, "orders:eu/1:delete"); broker.AsError(err).Kind != broker.Pending {
		t.Fatal(err)
	}
	rs, err := h.Broker.Requests(t.Context(), h.Principals[brokertest.Approver], broker.RequestFilter{State: broker.RequestPending})
	if err != nil || len(rs) != 1 {
		t.Fatal(len(rs), err)
	}
	b.get("/requests/"+rs[0].ID).is(t, http.StatusOK, "covered by that grant and need no new approval")
}

// The titles of tabs begin with names. A name that a runner wrote is quoted, so that it
// cannot pass for a page of ebb.
func TestTitlesBeginWithNames(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.Name = "Queue\u201d · <b>"
	s := h.Open(t, spec)
	token, err := s.Ask(t, "orders:eu/1:read")
	if err != nil {
		t.Fatal(err)
	}
	aud := h.as(brokertest.Auditor)
	for path, title := range map[string]string{
		"/tasks/" + s.Task.ID: "“Queue&#39; · &lt;b&gt;” · Task · ebb", "/sandboxes/sbx_" + strings.TrimPrefix(s.Task.ID, "tsk_"): "“Queue&#39; · &lt;b&gt;” · Sandbox · ebb",
		"/credentials/" + token.LeaseID: "Read eu/1 at orders · Credential · ebb",
	} {
		aud.get(path).is(t, http.StatusOK, "<title>"+title+"</title>")
	}
}
