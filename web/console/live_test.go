package console_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
)

// listen opens the stream of a browser and returns its events line by line.
func (b *browser) listen(t *testing.T, srv *httptest.Server, site, event string) (*http.Response, <-chan string, func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, srv.URL+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	if site != "" {
		r.Header.Set("Sec-Fetch-Site", site)
	}
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		kind := ""
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			if k, is := strings.CutPrefix(s.Text(), "event: "); is {
				kind = k
			}
			if data, is := strings.CutPrefix(s.Text(), "data: "); is && kind == event {
				lines <- data
			}
		}
	}()
	return resp, lines, func() { stop(); _ = resp.Body.Close() }
}

func next(t *testing.T, lines <-chan string) string {
	t.Helper()
	select {
	case l := <-lines:
		return l
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing was told")
		return ""
	}
}

func TestLive(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	srv := httptest.NewServer(h.mux)
	defer srv.Close()
	ann := h.as(brokertest.Approver)
	_, told, stop := ann.listen(t, srv, "same-origin", "waiting")
	defer stop()
	if got := next(t, told); got != `{"count":0,"ids":[]}` {
		t.Errorf("first %s", got)
	}
	_, auditor, stopAuditor := h.as(brokertest.Auditor).listen(t, srv, "same-origin", "waiting")
	defer stopAuditor()
	if got := next(t, auditor); got != `{"count":0,"ids":[]}` {
		t.Errorf("the auditor was told %s", got)
	}
	r := h.asked("orders:eu/1:write")
	if got := next(t, told); got != `{"count":1,"ids":["`+r.ID+`"]}` {
		t.Errorf("then %s", got)
	}
	if _, err := h.Broker.Decide(t.Context(), h.Principals[brokertest.Second], r.ID, broker.Verdict{Code: broker.NotNeeded, Note: "no"}); err != nil {
		t.Fatal(err)
	}
	if got := next(t, told); got != `{"count":0,"ids":[]}` {
		t.Errorf("at last %s", got)
	}
	select {
	case got := <-auditor:
		t.Errorf("who decides nothing was told %s", got)
	default:
	}
}

// A request that needs two approvals waits no longer for the person who has given the first.
func TestLiveAfterAVote(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{
		Policies:  map[string][]byte{"p.cedar": []byte(`@id("ask") @ask("approvers") @quorum("2") permit (principal, action, resource);`)},
		Providers: map[string]broker.Provider{"plain": {Driver: plainDriver{}, Kind: "plain", Resource: "https://plain.test/"}},
	})
	srv := httptest.NewServer(h.mux)
	defer srv.Close()
	ann := h.as(brokertest.Approver)
	_, told, stop := ann.listen(t, srv, "same-origin", "waiting")
	defer stop()
	r := h.like("plain:t/a:read", "x", nil)
	waits := `{"count":1,"ids":["` + r.ID + `"]}`
	for next(t, told) != waits {
	}
	if _, err := h.Broker.Decide(t.Context(), h.Principals[brokertest.Approver], r.ID, broker.Verdict{Approve: true, Digest: r.Digest}); err != nil {
		t.Fatal(err)
	}
	if got := next(t, told); got != `{"count":0,"ids":[]}` {
		t.Errorf("after the vote %s", got)
	}
	_, second, stopSecond := h.as(brokertest.Second).listen(t, srv, "same-origin", "waiting")
	defer stopSecond()
	if got := next(t, second); got != waits {
		t.Errorf("the second approver is told %s", got)
	}
}

// TestLiveStrangers: events are refused without a session, from another site,
// beyond the limit per session, and after the end of the session.
//
//ebb:invariant I12 The number of event streams of one console session is limited
func TestLiveStrangers(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	srv := httptest.NewServer(h.mux)
	defer srv.Close()
	ann := h.as(brokertest.Approver)
	for _, try := range []struct {
		b    *browser
		site string
		want int
	}{
		{h.browser(), "same-origin", http.StatusUnauthorized}, {ann, "cross-site", http.StatusForbidden}, {ann, "same-site", http.StatusForbidden},
		{ann, "none", http.StatusForbidden}, {ann, "", http.StatusForbidden},
	} {
		resp, _, stop := try.b.listen(t, srv, try.site, "waiting")
		if resp.StatusCode != try.want {
			t.Errorf("%q: %d", try.site, resp.StatusCode)
		}
		stop()
	}
	var stops []func()
	for range 3 {
		resp, lines, stop := ann.listen(t, srv, "same-origin", "waiting")
		if resp.StatusCode != http.StatusOK {
			t.Fatal(resp.StatusCode)
		}
		next(t, lines)
		stops = append(stops, stop)
	}
	resp, _, stop := ann.listen(t, srv, "same-origin", "waiting")
	if stop(); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a fourth: %d", resp.StatusCode)
	}
	for _, stop := range stops {
		stop()
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		resp, _, stop := ann.listen(t, srv, "same-origin", "waiting")
		if stop(); resp.StatusCode == http.StatusOK {
			break
		}
		if time.Now().After(end) {
			t.Fatal("who has left is still counted")
		}
	}
}
