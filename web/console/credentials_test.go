package console_test

import (
	"encoding/csv"
	"encoding/json"
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
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/scopes"
)

var (
	rowLink  = regexp.MustCompile(`href="/credentials/(lse_[0-9a-f]{32})"`)
	nextLink = regexp.MustCompile(`href="([^"]*)" rel="next"`)
	prevLink = regexp.MustCompile(`href="([^"]*)" rel="prev"`)
	taskLink = regexp.MustCompile(`href="/tasks/(tsk_[0-9a-f]{32})" title=`)
	fileLink = regexp.MustCompile(`href="(/[a-z]+\.(?:csv|jsonl)[^"]*)"`)
)

// rowsOf returns the credentials that a page lists, in its order.
func rowsOf(a answer) []string {
	var out []string
	for _, m := range rowLink.FindAllStringSubmatch(a.body, -1) {
		out = append(out, m[1])
	}
	return out
}

func linkTo(re *regexp.Regexp, a answer) string {
	m := re.FindStringSubmatch(a.body)
	if m == nil {
		return ""
	}
	return strings.ReplaceAll(m[1], "&amp;", "&")
}

// issued adds n credentials of a task to the store.
func (h *fixture) issued(task broker.Task, n int, change func(i int, l *broker.Lease)) []string {
	h.t.Helper()
	now := h.Clock.Now()
	var out []string
	for i := range n {
		h.serial++
		l := broker.Lease{ID: fmt.Sprintf("lse_%032x", h.serial), TaskID: task.ID, Sandbox: "sbx_" + task.ID[4:], Owner: task.Owner, Provider: "orders",
			Scopes: scopes.MustParseSet(fmt.Sprintf("orders:eu/%d:read", i)), Resource: brokertest.Orders, Class: provider.ClassInstant, Rule: "policy0", Txn: "t",
			IssuedAt: now.Add(time.Duration(h.serial) * time.Second), ExpiresAt: now.Add(time.Hour + time.Duration(h.serial)*time.Second), State: broker.LeaseLive}
		if change != nil {
			change(i, &l)
		}
		if err := h.Store.Append(h.t.Context(), broker.Record{IssueLease: &l}); err != nil {
			h.t.Fatal(err)
		}
		out = append(out, l.ID)
	}
	return out
}

// walk follows the links to the next page to the end.
func (b *browser) walk(t *testing.T, path string, each func(answer)) []string {
	t.Helper()
	var out []string
	for range 200 {
		a := b.get(path)
		a.is(t, http.StatusOK)
		out = append(out, rowsOf(a)...)
		if each != nil {
			each(a)
		}
		if path = linkTo(nextLink, a); path == "" {
			return out
		}
	}
	t.Fatal("the pages do not end")
	return nil
}

// Filtering, sorting and paging use links only. The same address in another
// person's browser shows the same rows in the same order.
func TestListsAreTheirAddress(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	s := h.Open(t, brokertest.Spec())
	h.issued(s.Task, 180, func(i int, l *broker.Lease) { l.Provider = []string{"orders", "mail"}[i%2] })
	b, other := h.as(brokertest.Auditor), h.as(brokertest.Operator)
	for _, query := range []string{"", "?provider=mail", "?state=live&sort=ending", "?sort=oldest&scope=eu%2F1&provider=orders", "?task=" + s.Task.ID + "&state=live", "?owner=" + url.QueryEscape(s.Task.Owner)} {
		var pages []answer
		all := b.walk(t, "/credentials"+query, func(a answer) {
			pages = append(pages, a)
			path := a.Request.URL.RequestURI()
			if got := rowsOf(other.get(path)); !slices.Equal(got, rowsOf(a)) {
				t.Errorf("%s: another browser sees %v, this one %v", path, got, rowsOf(a))
			}
		})
		if len(all) == 0 || len(slices.Compact(slices.Sorted(slices.Values(all)))) != len(all) {
			t.Errorf("%s: %d rows, some twice or none", query, len(all))
		}
		// Back by links.
		for i := len(pages) - 1; i > 0; i-- {
			if back := b.get(linkTo(prevLink, pages[i])); !slices.Equal(rowsOf(back), rowsOf(pages[i-1])) {
				t.Errorf("%s: page %d, and back to it: %v, %v", query, i, rowsOf(pages[i-1]), rowsOf(back))
			}
		}
	}
}

// Rows added while a person pages cause no duplicate and no missing row.
func TestRowsThatComeWhilePaging(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	s := h.Open(t, brokertest.Spec())
	before := h.issued(s.Task, 1000, nil)
	n := 0
	got := h.as(brokertest.Auditor).walk(t, "/credentials", func(answer) {
		n++
		h.issued(s.Task, 5, nil)
	})
	slices.Reverse(before)
	if n != 20 || !slices.Equal(got, before) {
		t.Errorf("%d pages, %d rows of %d", n, len(got), len(before))
	}
}

// An export equals the filtered list row for row, and is written to the audit
// log. BenchmarkExport measures 100,000 rows.
func TestExportIsTheFilteredList(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	s := h.Open(t, brokertest.Spec())
	h.issued(s.Task, 130, func(i int, l *broker.Lease) {
		if i%2 == 0 {
			l.Owner = "=HYPERLINK(\"http://evil.test\")\u202e,\r\n@SUM(1)"
		}
	})
	b := h.as(brokertest.Auditor)
	for _, query := range []string{"?provider=orders&sort=oldest", "?provider=orders&state=live&scope=eu%2F1", "?state=revoked"} {
		first := b.get("/credentials" + query)
		want := b.walk(t, "/credentials"+query, nil)
		for _, path := range fileLink.FindAllStringSubmatch(first.body, -1) {
			a := b.get(strings.ReplaceAll(path[1], "&amp;", "&"))
			a.is(t, http.StatusOK)
			format := "csv"
			var got []string
			if strings.Contains(path[1], ".jsonl") {
				format = "jsonl"
				got = jsonlIDs(t, a.body)
			} else {
				got = csvIDs(t, a.body)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %d rows, the pages have %d", path[1], len(got), len(want))
			}
			e := h.lastEntry(t, audit.RecordExported)
			var x report.Export
			if err := json.Unmarshal(e.Data, &x); err != nil || e.Actor != brokertest.Auditor || x.Rows != len(want) || !x.Whole || x.Format != format || x.List != "credentials" || x.Filter["provider"]+x.Filter["state"] == "" {
				t.Errorf("%s: the record says %s %+v (%v)", path[1], e.Actor, x, err)
			}
		}
	}
}

func csvIDs(t *testing.T, body string) []string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(body)).ReadAll()
	if err != nil || len(rows) == 0 || rows[0][0] != "id" {
		t.Fatal(err, len(rows))
	}
	var out []string
	for _, row := range rows[1:] {
		out = append(out, row[0])
		for _, cell := range row {
			if strings.ContainsAny(cell[:min(1, len(cell))], "=+-@\t\r") || strings.ContainsAny(cell, "\u202e\r\n") {
				t.Errorf("a cell is %q", cell)
			}
		}
	}
	return out
}

func jsonlIDs(t *testing.T, body string) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(body) {
		if strings.ContainsFunc(line, func(r rune) bool { return r > 0x7e || r < ' ' && r != '\n' }) {
			t.Errorf("not ASCII: %q", line)
		}
		var l broker.Lease
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.Owner != "bo@example.com" && l.Owner != "=HYPERLINK(\"http://evil.test\")\u202e,\r\n@SUM(1)" {
			t.Errorf("the owner reads back as %q", l.Owner)
		}
		out = append(out, l.ID)
	}
	return out
}

func (h *fixture) lastEntry(t *testing.T, kind string) audit.Entry {
	t.Helper()
	for e, err := range h.Store.Entries(t.Context(), broker.EntryFilter{Kind: kind, Desc: true, Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	t.Fatal("no entry " + kind)
	return audit.Entry{}
}

// thirdParty is a fixture whose provider "up" is a third party.
func thirdParty(t *testing.T, run bool) (*fixture, *brokertest.Upstream, *brokertest.Sandbox) {
	t.Helper()
	up := brokertest.NewUpstream(t, nil)
	h := newFixture(t, brokertest.Config{RealTime: true, Run: run, Providers: map[string]broker.Provider{
		"up": {Driver: brokertest.Party{URL: up.URL, Timeout: 5 * time.Second, Probes: true}.Driver(), Kind: "test", Resource: "https://up.test/"},
	}})
	spec := brokertest.Spec()
	spec.Ceiling = scopes.MustParseSet("up:**:* orders:**:*")
	return h, up, h.Open(t, spec)
}

// No page and no export contains an issued secret.
func TestNoPageOrFileHoldsAnIssuedSecret(t *testing.T) {
	t.Parallel()
	h, _, s := thirdParty(t, false)
	var secrets, leases []string
	for _, scope := range []string{"up:a:read", "orders:eu/1:read"} {
		tok, err := s.Ask(t, scope)
		if err != nil {
			t.Fatal(err)
		}
		secrets, leases = append(secrets, tok.Token.Reveal()), append(leases, tok.LeaseID)
	}
	secrets = append(secrets, s.TaskToken)
	b := h.as(brokertest.Operator)
	paths := []string{"/credentials", "/credentials.csv", "/credentials.jsonl"}
	for _, id := range leases {
		paths = append(paths, "/credentials/"+id)
	}
	for _, path := range paths {
		a := b.get(path)
		a.is(t, http.StatusOK)
		for _, secret := range secrets {
			if how := brokertest.Hides([]byte(a.body), secret); how != "" {
				t.Errorf("%s has a secret (%s)", path, how)
			}
		}
	}
}

// While the provider hangs, the page shows that the state is unknown and offers
// a retry. After it answers, the page shows both times.
func TestNobodyKnowsWhileTheProviderHangs(t *testing.T) {
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
	page := until(t, func() (answer, bool) {
		a := b.get(path)
		return a, strings.Contains(a.body, "UNSURE")
	})
	page.is(t, http.StatusOK, "Retry at the provider now", "attempts failed", "not confirmed", "Last error")
	b.get("/credentials?state=revoking").is(t, http.StatusOK, "UNSURE", "not confirmed dead by the provider")
	b.send(page, path+"/retry", nil).is(t, http.StatusSeeOther) // before the revocation queue's next attempt
	up.On(brokertest.OpRevoke, "")
	page = until(t, func() (answer, bool) {
		a := b.get(path)
		return a, !strings.Contains(a.body, "not confirmed") && !strings.Contains(a.body, "UNSURE")
	})
	page.is(t, http.StatusOK, "<dt>Refused by ebb</dt><dd>since <time", "<dt>Dead at provider</dt><dd>since <time", "refused", "revoked")
	if len(up.Alive()) != 0 {
		t.Error("it is alive at the provider")
	}
	b.get("/credentials?state=revoked").is(t, http.StatusOK, `data-column="Refused by ebb"><time`, `data-column="Dead at provider"><time`)
}

// until repeats f until it succeeds.
func until(t *testing.T, f func() (answer, bool)) answer {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		if a, ok := f(); ok {
			return a
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("it did not come")
	return answer{}
}

// Lists name a task; a task without a name has its short id.
func TestTaskNamesInLists(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	spec := brokertest.Spec()
	spec.Name = "fix <b>cart</b>"
	task := h.Open(t, spec).Task
	one := h.issued(task, 1, nil)[0]
	b := h.as(brokertest.Auditor)
	link := `href="/tasks/` + task.ID + `" title="` + task.ID + `"><span class="name">fix &lt;b&gt;cart&lt;/b&gt;</span></a>`
	for _, path := range []string{"/credentials", "/credentials/" + one, "/audit?task=" + task.ID} {
		page := b.get(path)
		if page.is(t, http.StatusOK, link); strings.Contains(page.body, "<b>cart") {
			t.Error(path, page.body)
		}
	}
	b.get("/credentials/tail").is(t, http.StatusOK, `"task":"fix \u003cb\u003ecart\u003c/b\u003e"`)
	nameless := h.Broker.NewEntry(audit.TaskTainted, "ci", nil)
	nameless.TaskID = "tsk_0123456789abcdef0123456789abcdef"
	if err := h.Store.Append(t.Context(), broker.Record{Entries: []audit.Entry{nameless}}); err != nil {
		t.Fatal(err)
	}
	b.get("/audit").is(t, http.StatusOK, link, `title="`+nameless.TaskID+`"><span class="name">tsk_0123…bcdef</span></a>`)
}
