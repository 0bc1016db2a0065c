package console_test

import (
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/brokertest"
)

var svgTag = regexp.MustCompile(`(?s)<svg.*?</svg>`)

// drawings fails unless every drawing of the page is well-formed, and returns how many there are.
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

// TestInsightsOfNothing: a page without anything to say, in every window.
func TestInsightsOfNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, brokertest.Config{})
	b := h.as(brokertest.Auditor)
	for _, q := range []string{"", "?window=24h", "?window=7d", "?window=30d"} {
		a := b.get("/insights" + q)
		a.is(t, http.StatusOK, "of 0 answers", "nobody decided", "Nothing was issued.", "No task ended.", "never fetched")
		if drawings(t, a) == 0 || strings.Contains(a.body, "NaN") {
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

// TestInsightsOfOne: one request that was approved in two seconds and never fetched.
func TestInsightsOfOne(t *testing.T) {
	t.Parallel()
	h := newHouse(t, brokertest.Config{Start: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)})
	r := h.asked("orders:eu/1:write")
	h.Clock.Add(2 * time.Second)
	if _, err := h.Broker.Decide(t.Context(), h.Principals[brokertest.Approver], r.ID, broker.Verdict{Approve: true, Digest: r.Digest}); err != nil {
		t.Fatal(err)
	}
	h.Clock.Add(time.Second) // the window ends before now
	b := h.as(brokertest.Auditor)
	a := b.get("/insights")
	a.is(t, http.StatusOK, "100 %", "of 1 answers", "2.0 s", `<span class="tag warn">1</span>`, "Granted 1, taken 0, 1 can still be taken.",
		`<tr><th scope="row">4 Mar 05:00</th><td>0</td><td>1</td>`, ">ann</bdi>", ">approvers</bdi>", "From the end here to dead at the provider")
	drawings(t, a)
	h.Clock.Add(time.Hour) // the grant is over
	b = h.as(brokertest.Auditor)
	b.get("/insights").is(t, http.StatusOK, "Granted 1, taken 0. Taken means", `<tr><th scope="row">4 Mar 05:00</th><td>0</td><td>0</td><td>1</td>`)
	h.Clock.Add(48 * time.Hour)
	b = h.as(brokertest.Auditor)
	b.get("/insights").is(t, http.StatusOK, "of 0 answers")
	b.get("/insights?window=7d").is(t, http.StatusOK, "of 1 answers", `<tr><th scope="row">4 Mar</th><td>0</td><td>0</td><td>1</td>`)
}
