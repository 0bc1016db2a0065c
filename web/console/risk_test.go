package console_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

var (
	heading = regexp.MustCompile(`(?s)<h1>(.*?)</h1>`)
	tagged  = regexp.MustCompile(`<p class="row"><span class="tag[^"]*">(.*?)</span>`)
	reasons = regexp.MustCompile(`(?s)<ul class="reasons">(.*?)</ul>`)
)

func text(s string) string { return html.UnescapeString(anyTag.ReplaceAllString(s, " ")) }

// Acceptance check 3: the decisive facts can be read in 10 seconds.
func TestTenSeconds(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	b := h.as(brokertest.Approver)
	for i, labels := range []map[string]string{nil, {"environment": "production"}} {
		for j, taint := range [][]string{nil, {"public-issue-comments", "web"}} {
			spec := brokertest.Spec()
			spec.Labels = labels
			s := h.Open(t, spec)
			if taint != nil {
				if _, err := h.Broker.TaintTask(t.Context(), h.Principals[brokertest.Runner], s.Task.ID, taint); err != nil {
					t.Fatal(err)
				}
			}
			_, _ = s.AskDeferred(t, "orders:eu/*:write orders:eu/*:delete")
			rs, err := h.Broker.Requests(t.Context(), h.Principals[brokertest.Approver], broker.RequestFilter{TaskID: s.Task.ID})
			if err != nil || len(rs) != 1 {
				t.Fatal(len(rs), err)
			}
			body := b.get("/requests/" + rs[0].ID).body
			risk := reasons.FindStringSubmatch(body)
			if risk == nil || tagged.FindString(body) == "" {
				t.Fatalf("no level or no reason: %s", body)
			}
			words := strings.Fields(text(heading.FindString(body)) + " " + text(tagged.FindString(body)) + " " + text(risk[1]))
			// The limit includes 4 words for a wildcard, such as "everything under".
			if len(words) > 44 || strings.Count(risk[1], "<li>") > 3 || strings.Count(body, "role=\"rowheader\"") > 5 {
				t.Errorf("%d %d: %d words: %q, %d reasons", i, j, len(words), words, strings.Count(risk[1], "<li>"))
			}
			if taint != nil && !strings.Contains(risk[1], taint[0]) {
				t.Errorf("the untrusted source that the task has read is not among the reasons: %s", risk[1])
			}
			for _, tt := range taint {
				if !strings.Contains(body, tt) {
					t.Errorf("the page does not say that it has read %s", tt)
				}
			}
		}
	}
}

// mute is a driver that does not describe its scopes.
type mute struct{ provider.Driver }

// Acceptance check 6: a request that ebb does not understand can only be
// denied.
func TestNotUnderstood(t *testing.T) {
	t.Parallel()
	up := brokertest.NewUpstream(t, nil)
	h := newFixture(t, brokertest.Config{Providers: map[string]broker.Provider{
		"odd": {Driver: mute{brokertest.Party{URL: up.URL}.Driver()}, Kind: "odd", Resource: "https://odd.test/"},
	}})
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("odd:**:*")
	r, _ := h.asks("odd:a/b:frobnicate", "x", spec)
	b := h.as(brokertest.Approver)
	b.get("/queue").is(t, http.StatusOK, "not understood", "High risk")
	page := b.get("/requests/" + r.ID)
	page.is(t, http.StatusOK, "Not understood.", "Approving is off")
	for _, choice := range []string{"approve", "narrow"} {
		if strings.Contains(page.body, `value="`+choice+`"`) {
			t.Errorf("there is a form to %s", choice)
		}
		form := b.form(b.get("/requests/"+r.ID), "deny", url.Values{"target": {"a/b"}, "scope": {"odd:a/b:frobnicate"}, "minutes": {"3"}})
		form.Set("choice", choice)
		b.do(http.MethodPost, "/requests/"+r.ID+"/decide", form, nil).is(t, http.StatusUnprocessableEntity)
	}
	b.choose(page, r.ID, "deny", no).is(t, http.StatusSeeOther)
}

// Acceptance check 20, first half: high risk needs the exact name of the
// target, and two people.
//
//ebb:invariant I7 Approving a high-risk request requires the name of its target, also when the approval narrows the request
func TestHighRisk(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{Limits: broker.Limits{HighRiskQuorum: 2}})
	r := h.asked("orders:eu/1:write")
	ann, bob := h.as(brokertest.Approver), h.as(brokertest.Second)
	page := ann.get("/requests/" + r.ID)
	page.is(t, http.StatusOK, "High risk", "type the name", "2 people must approve")
	for _, wrong := range []string{"", "eu", "EU/1", " eu/1", "eu/1 ", "eu/1\n", "orders:eu/1:write", "\u0435u/1"} {
		page = ann.choose(page, r.ID, "approve", url.Values{"target": {wrong}})
		page.is(t, http.StatusUnprocessableEntity, `id="target-problem"`)
	}
	ann.choose(page, r.ID, "approve", typedTarget).is(t, http.StatusSeeOther)
	if got := h.again(r.ID); got.State != broker.RequestPending {
		t.Fatal(got.State)
	}
	bob.choose(bob.get("/requests/"+r.ID), r.ID, "approve", typedTarget).is(t, http.StatusSeeOther)
	if got := h.again(r.ID); got.State != broker.RequestApproved {
		t.Error(got.State)
	}
}

// Names of 300 characters are shown whole.
func TestLongNames(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	name := "eu/" + strings.Repeat("a-very-long-name-of-a-segment/", 9)
	spec := brokertest.Spec()
	spec.Owner = strings.Repeat("o", 150) + "@example.com"
	r, _ := h.asks(fmt.Sprintf("orders:%s1:write", name), "x", spec)
	b := h.as(brokertest.Approver)
	b.get("/queue").is(t, http.StatusOK, name+"1")
	b.get("/requests/"+r.ID).is(t, http.StatusOK, name+"1", spec.Owner)
}

// Acceptance check 3, in the worst case: for every request, the decisive facts
// have at most 40 words, three reasons and five rows. Unusual facts below
// are among the reasons, unless there are three worse ones.
func TestTenSecondsAtWorst(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	b := h.as(brokertest.Approver)
	long := strings.Repeat("a-very-long-name/", 8) + "end"
	var wide []string
	for i := range 12 {
		wide = append(wide, fmt.Sprintf("orders:eu/%s/%d:action-%d", long, i%4, i))
	}
	var sources []string
	for i := range 16 {
		sources = append(sources, fmt.Sprintf("%s-%d", strings.Repeat("source", 8), i))
	}
	for set := range 1 << 4 {
		spec := brokertest.Spec()
		spec.Name, spec.Owner = strings.Repeat("long ", 15), strings.Repeat("o", 100)+"@example.com"
		spec.Delegation = &broker.Delegation{Expect: broker.Expect{Attestor: "enroll"}, Depth: 1}
		if set&1 != 0 {
			spec.Labels = map[string]string{"environment": "production"}
		}
		s := h.Open(t, spec)
		if set&2 != 0 {
			if _, err := h.Broker.TaintTask(t.Context(), h.Principals[brokertest.Runner], s.Task.ID, sources); err != nil {
				t.Fatal(err)
			}
		}
		if set&4 != 0 {
			s = s.Delegate(t, broker.DelegationSpec{Ceiling: scopes.MustParseSet("orders:eu/**:*")})
		}
		if set&8 != 0 {
			replay := s.Request(t, "orders:eu/1:read")
			for range 2 {
				_, _ = h.Broker.Token(t.Context(), replay)
			}
		}
		if _, err := s.AskDeferred(t, strings.Join(wide, " ")); broker.AsError(err).Kind != broker.Pending {
			t.Fatal(err)
		}
		rs, err := h.Broker.Requests(t.Context(), h.Principals[brokertest.Approver], broker.RequestFilter{TaskID: s.Task.ID})
		if err != nil || len(rs) != 1 {
			t.Fatal(len(rs), err)
		}
		body := b.get("/requests/" + rs[0].ID).body
		why := reasons.FindStringSubmatch(body)
		if why == nil {
			t.Fatalf("no reason: %s", body)
		}
		n := strings.Count(why[1], "<li>")
		if words := strings.Fields(text(heading.FindString(body)) + " " + text(tagged.FindString(body)) + " " + text(why[1])); len(words) > 40 || n > 3 || strings.Count(body, "role=\"rowheader\"") > 5 {
			t.Errorf("%d: %d words, %d reasons, %d rows: %q", set, len(words), n, strings.Count(body, "role=\"rowheader\""), words)
		}
		for bit, word := range map[int]string{2: "read", 4: "delegated", 8: "violations by this task"} {
			if set&bit != 0 && n < 3 && !strings.Contains(strings.ToLower(why[1]), word) {
				t.Errorf("%d: %q is not among the reasons: %s", set, word, why[1])
			}
		}
	}
}
