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
	"unicode"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/scopes"
)

// TestListsRefuse: an invalid query is refused with a page, and never guessed.
func TestListsRefuse(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	s := h.Open(t, brokertest.Spec())
	h.issued(s.Task, 60, nil)
	b := h.as(brokertest.Auditor)
	next := linkTo(nextLink, b.get("/credentials?provider=orders"))
	cursor := next[strings.Index(next, "after=")+6:]
	for _, path := range []string{
		"/credentials?state=alive", "/credentials?sort=random", "/credentials?state=live&state=revoked", "/credentials?nonsense=1",
		"/credentials?scope=%ff", "/credentials?scope=a%0ab", "/credentials?owner=" + url.QueryEscape("<script>\u202e"), "/credentials?owner=" + strings.Repeat("x", 513), "/credentials?state=revoked&sort=ending", "/credentials?%zz",
		"/credentials?after=AAAA", "/credentials?after=%00", "/credentials?after=" + cursor, "/credentials?provider=mail&after=" + cursor, "/credentials?provider=orders&after=" + cursor + "A",
		"/credentials?provider=orders&after=" + strings.ToUpper(cursor), "/credentials?provider=orders&after=" + cursor + "&before=" + cursor, "/audit?after=" + cursor, "/tasks?after=" + cursor,
		"/credentials.csv?state=alive", "/credentials.jsonl?after=" + cursor, "/audit?kind=made.up", "/audit?sort=ending", "/audit.jsonl?kind=x", "/tasks?state=gone", "/tasks?limit=9", "/tasks/" + s.Task.ID + "?decisions=maybe",
	} {
		a, list := b.get(path), regexp.MustCompile(`^/(credentials|audit|tasks)\?`).MatchString(path)
		if !list {
			a.is(t, http.StatusBadRequest, "<h1>Invalid request</h1>")
			continue
		}
		a.is(t, http.StatusUnprocessableEntity, `<form class="filter`)
		if strings.Contains(a.body, "<script>\u202e") || strings.Contains(a.body, "<tbody") {
			t.Errorf("%s shows a list: %s", path, a.body)
		}
	}
	for _, path := range []string{"/credentials/lse_1", "/credentials/" + strings.Repeat("x", 300), "/tasks/tsk_1", "/sandboxes/sbx_1", "/sandboxes/tsk_1", "/sandboxes/" + s.Task.ID[4:], "/audit/nobody/1", "/audit/x/-1", "/audit/x/y", "/tasks/" + s.Task.ID + "x"} {
		b.get(path).is(t, http.StatusNotFound)
	}
	b.get(next).is(t, http.StatusOK)
	b.get("/credentials?state=&provider=&from=2026-01-01&to=&sort=newest").is(t, http.StatusOK)
}

// TestListsShowOnlyTheirs: a runner sees its own tasks and nothing of others.
// An approver sees tasks but no audit entries.
func TestListsShowOnlyTheirs(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	s := h.Open(t, brokertest.Spec())
	lease := h.issued(s.Task, 1, nil)[0]
	e := h.lastEntry(t, audit.TaskOpened)
	entry := fmt.Sprintf("/audit/%s/%d", e.Writer, e.Seq)
	theirs := []string{"/tasks/" + s.Task.ID, "/credentials/" + lease, "/sandboxes/sbx_" + s.Task.ID[4:], "/credentials?task=" + s.Task.ID, "/audit?task=" + s.Task.ID, "/credentials.csv?task=" + s.Task.ID, "/audit.jsonl?task=" + s.Task.ID, entry}
	mine, other, approver, auditor := h.as(brokertest.Runner), h.as(brokertest.Runner2), h.as(brokertest.Approver), h.as(brokertest.Auditor)
	for _, path := range theirs {
		mine.get(path).is(t, http.StatusOK)
		auditor.get(path).is(t, http.StatusOK)
		a := other.get(path)
		body := strings.ReplaceAll(a.body, path[strings.LastIndexByte(path, '/')+1:], "") // the id in the address may be repeated
		if a.is(t, http.StatusNotFound); strings.Contains(body, lease) || strings.Contains(body, s.Task.Owner) {
			t.Errorf("%s tells another runner something: %s", path, a.body)
		}
	}
	for _, path := range []string{"/credentials", "/audit"} {
		mine.get(path).is(t, http.StatusOK, "your own tasks")
		approver.get(path).is(t, http.StatusForbidden)
	}
	for _, path := range []string{"/credentials.csv", "/audit.jsonl", "/audit/chains", "/audit/check"} {
		mine.get(path).is(t, http.StatusForbidden)
	}
	if a := other.get("/tasks"); a.StatusCode != http.StatusOK || strings.Contains(a.body, s.Task.ID) {
		t.Errorf("another runner's list: %d %s", a.StatusCode, a.body)
	}
	approver.get("/tasks/"+s.Task.ID).is(t, http.StatusOK, "Only auditors, operators and its runner")
	// People can end only what their role allows.
	page := auditor.get("/credentials/" + lease)
	if strings.Contains(page.body, "Revoke now") || strings.Contains(auditor.get("/tasks/"+s.Task.ID).body, "Stop and revoke") {
		t.Error("an auditor is offered to end something")
	}
	form := url.Values{"nonce": {auditor.fill(auditor.get("/credentials"), "/signout", nil).Get("nonce")}, "reason": {"x"}}
	auditor.do(http.MethodPost, "/credentials/"+lease+"/revoke", form, nil).is(t, http.StatusConflict)
}

// TestNamesHideNothing: names are shown whole and escaped, so that they can
// neither hide text nor inject markup.
func TestNamesHideNothing(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	s := h.Open(t, brokertest.Spec())
	const evil = "<script>alert(1)</script><img src=x onerror=alert(1)>\u202e\u2066\u200b\U000e0041\ufeff\u05d0\u05d1\u2705 \"'`&amp;{{.}}"
	long := strings.Repeat("l", 300)
	ids := h.issued(s.Task, 2, func(i int, l *broker.Lease) {
		l.Owner, l.Provider, l.Resource, l.Rule, l.Tool, l.Txn, l.Binding.JKT = []string{evil, long}[i], []string{evil, long}[i], evil, evil, evil, evil, evil
	})
	task := broker.Task{ID: "tsk_" + strings.Repeat("a", 32), Name: evil, Kind: evil, Owner: long, Runner: evil, Ceiling: scopes.MustParseSet("orders:eu/1:read"), Expect: broker.Expect{Attestor: evil, Selectors: map[string]string{evil: evil, "same": "x", "gone": "y"}},
		OpenedAt: h.Clock.Now(), Deadline: h.Clock.Now().Add(time.Hour), State: broker.TaskOpen,
		Sandbox: &broker.Sandbox{ID: "sbx_" + strings.Repeat("a", 32), Attestor: evil, Subject: evil, Class: "bearer", JKT: evil, Selectors: map[string]string{evil: long, "same": "x"}, At: h.Clock.Now()}}
	e := audit.Entry{At: h.Clock.Now(), Kind: audit.TaskOpened, Actor: evil, TaskID: task.ID, Data: []byte(`{"a":"\u003cscript\u003e\u202e"}`)}
	if err := h.Store.Append(t.Context(), broker.Record{OpenTask: &task, Entries: []audit.Entry{e}}); err != nil {
		t.Fatal(err)
	}
	e = h.lastEntry(t, audit.TaskOpened)
	b := h.as(brokertest.Operator)
	for _, path := range []string{"/credentials", "/credentials/" + ids[0], "/credentials/" + ids[1], "/tasks", "/tasks/" + task.ID, "/sandboxes/" + task.Sandbox.ID, "/audit", fmt.Sprintf("/audit/%s/%d", e.Writer, e.Seq),
		"/credentials?owner=" + url.QueryEscape(evil[:40]), "/tasks?kind=" + url.QueryEscape(evil[:40])} {
		a := b.get(path)
		a.is(t, http.StatusOK)
		for _, bad := range []string{"<script>alert", "<img src=x", "onerror=alert(1)>"} {
			if strings.Contains(a.body, bad) {
				t.Errorf("%s draws %s", path, bad)
			}
		}
		for _, r := range a.body {
			if r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) {
				t.Errorf("%s has U+%04X in it", path, r)
				break
			}
		}
	}
	b.get("/credentials").is(t, http.StatusOK, long, "[U&#43;202E]", "&lt;script&gt;")
	b.get("/sandboxes/"+task.Sandbox.ID).is(t, http.StatusOK, "DIFFERENT", "missing", "same", long)
}

// TestTaskPage: the timeline of a task as a chart and a list, and stopping it.
func TestTaskPage(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	s := h.Open(t, brokertest.Spec())
	tok, err := s.Ask(t, "orders:eu/1:read")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.AskDeferred(t, "orders:eu/1:delete"); err == nil {
		t.Fatal("nobody was asked")
	}
	path := "/tasks/" + s.Task.ID
	b := h.as(brokertest.Operator)
	page := b.get(path)
	page.is(t, http.StatusOK, "<svg", "class=\"bar good\"", "task.opened", "sandbox.enrolled", "request.created", "lease.issued", tok.LeaseID, "Stop and revoke", s.Task.Owner)
	if a := b.get(path + "?decisions=on"); strings.Contains(a.body, `match faint">task.opened<`) || !strings.Contains(a.body, `match faint">request.created<`) {
		t.Errorf("only decisions: %s", a.body)
	}
	b.get("/sandboxes/sbx_"+s.Task.ID[4:]).is(t, http.StatusOK, "attested", "enroll", "class <strong>ticket", tok.LeaseID, "sandbox.enrolled")
	b.send(page, path+"/stop", url.Values{"reason": {" "}}).is(t, http.StatusBadRequest, "A reason is required")
	b.send(b.get(path), path+"/stop", url.Values{"reason": {"it went astray"}}).is(t, http.StatusSeeOther)
	b.get(path).is(t, http.StatusOK, "closed", "stopped", "it went astray", "signed receipt", "task.closed")
	if h.Active(t, tok.Token.Reveal()) {
		t.Error("its credential lives")
	}
	b.get("/credentials/"+tok.LeaseID).is(t, http.StatusOK, "revoked", "its task was stopped")
	b.get(path+"/receipt").is(t, http.StatusOK)
	if a := b.get("/tasks?state=open"); strings.Contains(a.body, s.Task.ID) {
		t.Error("it is listed as open")
	}
	b.get("/tasks?state=closed&owner="+url.QueryEscape(s.Task.Owner)).is(t, http.StatusOK, s.Task.ID)
	b.get("/tasks?kind=bugfix").is(t, http.StatusOK, s.Task.ID)
	b.get("/tasks?kind=none").is(t, http.StatusOK, "No task matches the filter")
}

// TestTaskPages: the list of tasks is paged like that of credentials.
func TestTaskPages(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	var want []string
	for i := range 120 {
		task := broker.Task{ID: fmt.Sprintf("tsk_%032x", i+1), Kind: []string{"even", "odd"}[i%2], Owner: "o", Runner: brokertest.Runner, OpenedAt: h.Clock.Now(), Deadline: h.Clock.Now().Add(time.Hour), State: broker.TaskOpen}
		if err := h.Store.Append(t.Context(), broker.Record{OpenTask: &task}); err != nil {
			t.Fatal(err)
		}
		want = append(want, task.ID)
	}
	slices.Reverse(want)
	b := h.as(brokertest.Runner)
	for _, query := range []string{"", "?state=open", "?kind=odd"} {
		var got []string
		var pages []answer
		for path := "/tasks" + query; path != ""; {
			a := b.get(path)
			a.is(t, http.StatusOK)
			pages, got, path = append(pages, a), append(got, tasksOf(a)...), linkTo(nextLink, a)
		}
		expect := want
		if query == "?kind=odd" {
			expect = slices.DeleteFunc(slices.Clone(want), func(id string) bool {
				return (id[35]-'0')%2 == 1 && id[35] < 'a' || id[35] > '9' && (id[35]-'a')%2 == 1
			})
		}
		if !slices.Equal(got, expect) {
			t.Errorf("%q: %d rows, want %d", query, len(got), len(expect))
		}
		for i := len(pages) - 1; i > 0; i-- {
			if back := tasksOf(b.get(linkTo(prevLink, pages[i]))); !slices.Equal(back, tasksOf(pages[i-1])) {
				t.Errorf("%q: back from page %d: %d rows", query, i, len(back))
			}
		}
	}
}

func tasksOf(a answer) []string {
	var out []string
	for _, m := range taskLink.FindAllStringSubmatch(a.body, -1) {
		out = append(out, m[1])
	}
	return out
}

// TestRecordPages: the audit log is listed, shown byte for byte, verified, and
// exported as a file that can be verified.
func TestRecordPages(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	s := h.Open(t, brokertest.Spec())
	for i := range 70 {
		if _, err := s.Ask(t, fmt.Sprintf("orders:eu/%d:read", i%5)); err != nil {
			t.Fatal(err)
		}
		h.Clock.Add(10 * time.Second)
	}
	if err := h.Broker.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := h.as(brokertest.Auditor)
	b.get("/audit").is(t, http.StatusOK, "session.began", "lease.issued", `rel="next"`)
	b.get("/audit?kind=task.&actor="+brokertest.Runner).is(t, http.StatusOK, ">task.opened<")
	b.get("/audit?kind=task.opened&actor=nobody").is(t, http.StatusOK, "No entry matches the filter.")
	e := h.lastEntry(t, audit.TaskOpened)
	b.get(fmt.Sprintf("/audit/%s/%d", e.Writer, e.Seq)).is(t, http.StatusOK, "hash is valid", e.Hash, e.Prev)
	b.get("/audit/chains").is(t, http.StatusOK, e.Writer, "ebb audit verify", "1 signed so far")
	b.get("/audit/check").is(t, http.StatusOK, "Verification succeeded", "1 signed checkpoint agree")
	a := b.get("/audit.jsonl")
	a.is(t, http.StatusOK)
	keys, err := jose.ParseJWKS(h.Ring.JWKS(h.Clock.Now()))
	if err != nil {
		t.Fatal(err)
	}
	report, err := audit.Verify(strings.NewReader(a.body), keys)
	if err != nil || !report.Whole() || report.Entries < 70 {
		t.Errorf("the file: %+v (%v)", report, err)
	}
	x := h.lastEntry(t, audit.RecordExported)
	if !strings.Contains(string(x.Data), `"whole":true`) || !strings.Contains(string(x.Data), fmt.Sprintf(`"rows":%d`, report.Entries)) {
		t.Errorf("the record of it: %s", x.Data)
	}
	part := b.get("/audit.jsonl?kind=task.&actor=" + brokertest.Runner)
	if _, err := audit.Verify(strings.NewReader(part.body), keys); !strings.Contains(fmt.Sprint(err), "filtered (kind=task. actor="+brokertest.Runner+")") {
		t.Errorf("a part: %v, want that it was filtered", err)
	}
	proof, err := audit.Verify(strings.NewReader(b.get("/audit.proof.jsonl?kind=task.&actor="+brokertest.Runner).body), keys)
	if err != nil || proof.Entries == 0 || proof.Proof.Filter["kind"] != "task." {
		t.Errorf("the proof of the part: %+v, %v", proof, err)
	}
	proof, err = audit.Verify(strings.NewReader(b.get("/credentials.proof.jsonl?resource=eu").body), keys)
	if err != nil || proof.Entries == 0 || proof.Proof.List != "credentials" {
		t.Errorf("the proof of credentials: %+v, %v", proof, err)
	}
	if a := b.get("/audit.csv?task=" + s.Task.ID); !strings.HasPrefix(a.body, "writer,seq,at,") {
		t.Errorf("as a table: %.200s", a.body)
	}
}

// TestLongProof: ebb refuses a proof whose first line the verifier would not read.
func TestLongProof(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	h.asked("orders:eu/1:write")
	if err := h.Broker.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	keys, err := jose.ParseJWKS(h.Ring.JWKS(h.Clock.Now()))
	if err != nil {
		t.Fatal(err)
	}
	b, path := h.as(brokertest.Auditor), "/credentials.proof.jsonl?sort=newest"
	escaped := strings.Repeat("<", 512) // one byte each in the address, six in the proof
	for _, field := range []string{"provider", "owner", "sandbox", "scope"} {
		path += "&" + field + "=" + escaped
	}
	proof, err := audit.Verify(strings.NewReader(b.get(path).body), keys)
	if err != nil || proof.Proof.Filter["owner"] != escaped {
		t.Errorf("%+v, %v", proof, err)
	}
	b.get(path+"&task="+escaped+"&resource="+escaped).is(t, http.StatusBadRequest, "at most 16384 bytes")
}

// TestWrongFilter: a wrong value is an error beside its field, with the nearest right
// one. The rest of the filter stays.
func TestWrongFilter(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	r := h.asked("orders:eu/1:write")
	b := h.as(brokertest.Auditor)
	for path, says := range map[string][]string{
		"/audit?actor=bo&kind=lease.isued":            {`name="actor" value="bo"`, `aria-describedby="kind-problem"`, "“lease.isued” is not a value of this field. Did you mean “lease.issued”?"},
		"/audit?actor=bo&kind=%3Cb%3E":                {`name="actor" value="bo"`, "“&lt;b&gt;” is not a value of this field."},
		"/audit?actor=bo&sort=newst":                  {`name="actor" value="bo"`, "Did you mean “newest”?"},
		"/credentials?owner=bo&state=revokd":          {`name="owner" value="bo"`, "Did you mean “revoked”?"},
		"/credentials?state=revoked&sort=ending":      {`value="revoked" selected`, `value="ending" selected`, "Only active credentials can be sorted by expiry"},
		"/credentials?owner=bo&scope=a%E2%80%AEb":     {`name="owner" value="bo"`, `id="scope-problem"`, `name="scope" value="a`},
		"/credentials?owner=bo&provider=a&provider=b": {`name="owner" value="bo"`, `id="provider-problem"`},
		"/credentials?owner=bo&token=ghp_secret":      {`name="owner" value="bo"`, "has a field that this page does not support"},
		"/requests?owner=bo&risk=hgh":                 {`name="owner" value="bo"`, "Did you mean “high”?"},
		"/tasks?owner=bo&state=opn":                   {`name="owner" value="bo"`, "Did you mean “open”?"},
		"/transcripts?lease=x&task=a&task=b":          {`name="lease" value="x"`, `id="task-problem"`},
		"/queue?q=bo&risk=hgh":                        {`name="q" value="bo"`, "Did you mean “high”?", "<details class=\"filters\" open>"},
		"/queue?q=bo&token=ghp_secret":                {`name="q" value="bo"`, "has a field that this page does not support"},
	} {
		a := b.get(path)
		a.is(t, http.StatusUnprocessableEntity, says...)
		for _, kept := range []string{"ghp_secret", "\u202e", r.Match, "request.created, "} {
			if strings.Contains(a.body, kept) {
				t.Errorf("%s: the page has %q", path, kept)
			}
		}
	}
	a := b.get("/audit.csv?kind=lease.isued")
	a.is(t, http.StatusBadRequest, "Filter field kind: “lease.isued” is not a value of this field. Did you mean “lease.issued”?")
}

// A time in a filter that cannot be read is an error beside its field. The rest of the
// filter stays, and no list and no file is sent.
func TestWrongPeriod(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	h.asked("orders:eu/1:write")
	b := h.as(brokertest.Auditor)
	for path, rest := range map[string]string{"/audit?actor=bo": `name="actor" value="bo"`, "/credentials?owner=bo": `name="owner" value="bo"`, "/requests?owner=bo": `name="owner" value="bo"`} {
		a := b.get(path + "&from=%3Cb%3Etuesday")
		a.is(t, http.StatusUnprocessableEntity, rest, "“&lt;b&gt;tuesday” is not a time", "The list is not shown", `(UTC)</label>`)
		b.get(path+"&when=yesterday").is(t, http.StatusOK, rest, `type="datetime-local"`)
	}
	for _, path := range []string{"/audit.csv", "/audit.jsonl", "/audit.proof.jsonl", "/credentials.csv", "/credentials.proof.jsonl", "/credentials/tail"} {
		b.get(path+"?from=tuesday").is(t, http.StatusBadRequest)
	}
}
