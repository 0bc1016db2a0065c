package console_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/broker/storetest"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

var svgTag = regexp.MustCompile(`(?s)<svg.*?</svg>`)

// drawings fails unless every chart of the page is well-formed, and returns
// their number.
func drawings(t *testing.T, a answer) int {
	t.Helper()
	found := svgTag.FindAllString(a.body, -1)
	for _, text := range found {
		d := xml.NewDecoder(strings.NewReader(text))
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			if e, is := token.(xml.StartElement); is {
				for _, attr := range e.Attr {
					if attr.Name.Local == "style" || strings.Contains(attr.Value, "NaN") || strings.Contains(attr.Value, "Inf") || strings.HasPrefix(attr.Value, "-") {
						t.Errorf("%s=%q: %s", attr.Name.Local, attr.Value, text)
					}
				}
			}
		}
	}
	return len(found)
}

// notANumber finds a formatted NaN. The random nonces of forms may contain the three letters.
var notANumber = regexp.MustCompile(`\bNaN(%|<| (ms|s|min|h|d)\b)`)

// TestInsightsOfNothing: a page without data, in every window.
func TestInsightsOfNothing(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	b := h.as(brokertest.Auditor)
	for _, q := range []string{"", "?window=24h", "?window=7d", "?window=30d"} {
		a := b.get("/insights" + q)
		a.is(t, http.StatusOK, "of 0 answers", "no answers", "Nothing was issued.", "No task ended.", "never fetched", "No credential with egress delivery was issued.", "0 more credentials were returned")
		if drawings(t, a) == 0 || notANumber.MatchString(a.body) {
			t.Errorf("%s: %s", q, a.body)
		}
	}
	for _, q := range []string{"?window=1y", "?window=%22%3E%3Cscript%3E", "?window=24H"} {
		a := b.get("/insights" + q)
		a.is(t, http.StatusBadRequest)
		if strings.Contains(a.body, "<script>") {
			t.Error(a.body)
		}
	}
	for _, who := range []string{brokertest.Approver, brokertest.Runner} {
		b := h.as(who)
		b.get("/insights").is(t, http.StatusForbidden)
		if strings.Contains(b.get("/queue").body, `href="/insights"`) {
			t.Errorf("%s sees the entry of a page that is not theirs", who)
		}
	}
	if a := h.browser().get("/insights"); a.StatusCode != http.StatusSeeOther {
		t.Errorf("nobody: %d", a.StatusCode)
	}
}

// TestInsightsOfOne: one request that was approved 2 s after its page was shown, and never
// fetched.
func TestInsightsOfOne(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{Start: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)})
	r := h.asked("orders:eu/1:write")
	h.Clock.Add(20 * time.Minute)
	if _, err := h.Broker.Decide(t.Context(), h.Principals[brokertest.Approver], r.ID, broker.Verdict{Approve: true, Snapshot: "{}", ShownAt: h.Clock.Now().Add(-2 * time.Second), Digest: r.Digest, Target: r.Target(), Present: true}); err != nil {
		t.Fatal(err)
	}
	h.Clock.Add(time.Second) // the window ends before now
	b := h.as(brokertest.Auditor)
	a := b.get("/insights")
	a.is(t, http.StatusOK, "100 %", "of 1 answers", "2.0 s", `<span class="tag warn">1</span>`, "Approved 1, fetched 0, 1 can still be fetched.",
		`<tr><th scope="row">4 Mar 05:00</th><td>0</td><td>1</td>`, ">ann</bdi>", ">approvers</bdi>", "From revocation to dead at the provider")
	drawings(t, a)
	// Each column links to its rows, with its numbers as text.
	link := regexp.MustCompile(`<a href="([^"]*)" title="4 Mar 05:00: 1 approved, can be fetched" aria-label="1, 4 Mar 05:00: 1 approved, can be fetched">`).FindStringSubmatch(a.body)
	if link == nil {
		t.Fatalf("the column of the request has no link: %s", a.body)
	}
	b.get(html.UnescapeString(link[1])).is(t, http.StatusOK, r.ID, "request.created")
	b.cookies["ebb-zone"] = "Asia/Kolkata"
	b.get("/insights").is(t, http.StatusOK, "From (IST)", `<tr><th scope="row">4 Mar 10:30</th><td>0</td><td>1</td>`)
	b.get("/insights?window=7d").is(t, http.StatusOK, `<tr><th scope="row">4 Mar 05:30</th><td>0</td><td>1</td>`, "days begin at midnight UTC")
	h.Clock.Add(time.Hour) // the grant has ended
	b = h.as(brokertest.Auditor)
	b.get("/insights").is(t, http.StatusOK, "Approved 1, fetched 0. Fetched means", `<tr><th scope="row">4 Mar 05:00</th><td>0</td><td>0</td><td>1</td>`)
	h.Clock.Add(48 * time.Hour)
	b = h.as(brokertest.Auditor)
	b.get("/insights").is(t, http.StatusOK, "of 0 answers")
	b.get("/insights?window=7d").is(t, http.StatusOK, "of 1 answers", `<tr><th scope="row">4 Mar</th><td>0</td><td>0</td><td>1</td>`)
}

// TestInsightsInAdvance: no window of the page is computed while a person waits,
// once ebb has computed them in advance.
func TestInsightsInAdvance(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{Start: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)})
	b := h.as(brokertest.Auditor)
	h.Broker.KeepFigures(t.Context())
	at := "computed at <time datetime=\"" + h.Clock.Now().Format(time.RFC3339)
	h.Clock.Add(report.FiguresEvery + 30*time.Second) // the next ones may take a while
	for _, window := range []string{"24h", "7d", "30d"} {
		b.get("/insights?window="+window).is(t, http.StatusOK, at)
	}
	h.Clock.Add(time.Minute)
	if a := b.get("/insights"); strings.Contains(a.body, at) {
		t.Error("figures of more than 6 minutes were shown")
	}
	for name, end := range map[string]time.Time{"hour": time.Date(2026, 3, 4, 6, 0, 0, 0, time.UTC), "day": time.Date(2026, 3, 5, 0, 0, 0, 0, time.UTC)} {
		h := newFixture(t, brokertest.Config{Start: end.Add(-time.Minute)})
		b := h.as(brokertest.Auditor)
		h.Broker.KeepFigures(t.Context())
		at := "computed at <time datetime=\"" + h.Clock.Now().Format(time.RFC3339)
		h.Clock.Add(2 * time.Minute)
		for _, window := range []string{"24h", "7d", "30d"} {
			if !strings.Contains(b.get("/insights?window="+window).body, at) {
				t.Errorf("after the end of the %s, figures of %s were computed while a person waited", name, window)
			}
		}
	}
}

// TestInsightsOfPages: the time of an answer begins when its page was shown, not when the
// request was made.
func TestInsightsOfPages(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{Start: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)})
	r := h.asked("orders:eu/1:write")
	h.Clock.Add(10 * time.Minute)
	b := h.as(brokertest.Approver)
	page := b.get("/requests/" + r.ID)
	h.Clock.Add(1500 * time.Millisecond)
	b.choose(page, r.ID, "deny", no).is(t, http.StatusSeeOther)
	h.Clock.Add(time.Second)
	h.as(brokertest.Auditor).get("/insights").is(t, http.StatusOK, "of 1 answers", "1.5 s", `<span class="tag warn">1</span>`)
}

// TestInsightsOfUses: issued credentials are compared with their uses in a
// window, and names are shown escaped.
func TestInsightsOfUses(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{Start: storetest.Epoch.Add(time.Hour)})
	task := storetest.Task()
	records := []broker.Record{{OpenTask: &task}}
	for i := range 13 {
		l := storetest.Lease(task.ID)
		l.Scopes, l.Tool = scopes.MustParseSet(fmt.Sprintf("orders:eu/%d:read", i%12)), "<b>git"
		if i == 11 {
			l.Delivery = policy.DeliveryToken
		}
		r := broker.Record{IssueLease: &l}
		if i == 0 {
			r.Entries = []audit.Entry{{At: l.IssuedAt.Add(time.Second), Kind: audit.EgressAllowed, Actor: l.Sandbox, TaskID: task.ID, LeaseID: l.ID}}
		}
		records = append(records, r)
	}
	for _, r := range records {
		if err := h.Store.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	a := h.as(brokertest.Auditor).get("/insights")
	a.is(t, http.StatusOK, `<bdi class="name">orders:eu/8:read</bdi></td><td data-column="Tool"><bdi class="name">&lt;b&gt;git</bdi>`, "0 (0 %)", `<span class="tag warn">1</span>`,
		"1 (50 %)", "the scopes with the most unused credentials", `<td data-column="Uses">1</td><td data-column="Last"><time datetime="2026-03-04T06:06:07Z">`, "1 more credentials were returned", "with 0 of them")
	if n := strings.Count(a.body, `data-column="Unused"`); n != 10 || strings.Contains(a.body, "<b>git") {
		t.Errorf("%d rows", n)
	}
	h.Clock.Add(30 * 24 * time.Hour)
	h.as(brokertest.Auditor).get("/insights?window=7d").is(t, http.StatusOK, "No credential with egress delivery was issued.")
}
