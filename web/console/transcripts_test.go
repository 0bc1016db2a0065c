package console_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/issuance"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/broker/transcript"
)

// openTranscripts returns an empty transcript store.
func openTranscripts(t testing.TB, dir string) *transcript.Store {
	t.Helper()
	s, err := transcript.Open(transcript.Config{Dir: dir, Bytes: 64 << 20, Keep: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// transcribed records a request of a task with a credential. answer nil means
// that it is in progress.
func (h *fixture) transcribed(task, lease string, change func(*transcript.Transcript), answer *transcript.Message) string {
	h.t.Helper()
	x := transcript.Transcript{Head: transcript.Head{ID: transcript.NewID(), At: h.Clock.Now(), TaskID: task, LeaseID: lease, Rule: "charges", Tool: "stripe-cli", Host: "api.stripe.test:443", Method: "POST", Path: "/v1/charges"}}
	if change != nil {
		change(&x)
	}
	e, err := h.Config.Transcripts.Begin(x, task, int64(32<<10+12*len(x.Request.Body.Text)))
	if err == nil && answer != nil {
		err = e.End(x.Request.Body, *answer)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return x.ID
}

var transcriptLink = regexp.MustCompile(`href="/transcripts/(trn_[0-9a-f]{32})"`)

func transcriptsOn(a answer) []string {
	var out []string
	for _, m := range transcriptLink.FindAllStringSubmatch(a.body, -1) {
		out = append(out, m[1])
	}
	return out
}

// readings returns the transcripts that were read according to the audit log,
// newest first.
func (h *fixture) readings() (out []string) {
	h.t.Helper()
	for e, err := range h.Store.Entries(h.t.Context(), broker.EntryFilter{Kind: audit.TranscriptRead, Desc: true}) {
		if err != nil {
			h.t.Fatal(err)
		}
		out = append(out, issuance.TranscriptOf(e))
	}
	return out
}

// TestTranscriptPages: transcripts are listed without headers and bodies, and
// read one by one. Each reading is in the audit log before the page is shown.
func TestTranscriptPages(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{Transcripts: openTranscripts(t, filepath.Join(t.TempDir(), "transcripts"))})
	s := h.Open(t, brokertest.Spec())
	lease := h.issued(s.Task, 1, nil)[0]
	b := h.as(brokertest.Auditor)
	b.get("/transcripts").is(t, http.StatusOK, "No transcripts", "request_bytes: 4096", "only if a rule")
	b.get("/tasks/"+s.Task.ID).is(t, http.StatusOK, `href="/transcripts?task=`+s.Task.ID+`">0 of its requests<`)
	id := h.transcribed(s.Task.ID, lease, func(x *transcript.Transcript) {
		x.Query = "expand=1"
		x.Request = transcript.Message{Headers: map[string][]string{"Content-Type": {"application/json"}, "X-Note": {"a", "key [redacted]"}}, Body: transcript.Body{Type: "application/json", Bytes: 999, Text: "{\"card\": \"[redacted]\",\n\t\"amount\": 10000000}", LeftOut: 900}}
	}, &transcript.Message{Status: 402, Body: transcript.Body{Type: "image/png", Bytes: 1, Withheld: transcript.NotText}})
	b.get("/tasks/"+s.Task.ID).is(t, http.StatusOK, `>1 of its requests<`)
	b.get("/credentials/"+lease).is(t, http.StatusOK, `href="/transcripts?lease=`+lease+`">1 of its requests<`)
	list := b.get("/transcripts?task=" + s.Task.ID)
	list.is(t, http.StatusOK, id, "/v1/charges", "stripe-cli", lease)
	b.get("/transcripts?task="+s.Task.ID+"x").is(t, http.StatusOK, "no transcripts that match the filter")
	if strings.Contains(list.body, "amount") || strings.Contains(list.body, "expand") || len(h.readings()) != 0 {
		t.Errorf("the list says what was said, or reads: %v %s", h.readings(), list.body)
	}
	page := b.get("/transcripts/" + id)
	page.is(t, http.StatusOK, "POST /v1/charges?expand=1", "status 402", "999 bytes, application/json", "The last 900 bytes are not recorded", "1 byte, image/png", "it is not text",
		`{&#34;card&#34;: &#34;<span class="taken">[redacted]</span>&#34;,`+"\n\t"+`&#34;amount&#34;: 10000000}`, `key <span class="taken">[redacted]</span>`, "normally", "/tasks/"+s.Task.ID, "/credentials/"+lease)
	if got := h.readings(); !slices.Equal(got, []string{id}) {
		t.Errorf("readings on the record: %v", got)
	}
	e := h.lastEntry(t, audit.TranscriptRead)
	if e.Actor != brokertest.Auditor || e.TaskID != s.Task.ID || e.LeaseID != lease {
		t.Errorf("the record of it: %+v", e)
	}
	under := h.transcribed(s.Task.ID, lease, nil, nil)
	b.get("/transcripts/"+under).is(t, http.StatusOK, "warn\">in progress<", "recorded when the request is complete", "not yet, or ebb stopped before")
	for _, none := range []string{"trn_00000000000000000000000000000000", "none", strings.ToUpper(id), id + "x", "..%2f" + id} {
		b.get("/transcripts/"+none).is(t, http.StatusNotFound)
	}
	if n := len(h.readings()); n != 2 {
		t.Errorf("%d readings are on the record", n)
	}
	// The session exists already: first the audit log fails, then the
	// directory.
	if err := h.Config.Transcripts.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/transcripts", "/transcripts.csv", "/transcripts/" + id} {
		b.get(path).is(t, http.StatusServiceUnavailable, "Transcripts cannot be read at the moment")
	}
	b.get("/tasks/"+s.Task.ID).is(t, http.StatusOK, "number not available at the moment")
}

// TestTranscriptUnrecorded: a transcript is not shown if the reading cannot be
// recorded.
//
//ebb:invariant I11 Reading a transcript is recorded in the audit log before the transcript is returned
func TestTranscriptUnrecorded(t *testing.T) {
	t.Parallel()
	var off atomic.Bool
	clock := time.Now().UTC().Truncate(time.Second)
	store := brokertest.OpenStore(t, t.TempDir()+"/ebb.db", func() time.Time { return clock })
	h := newFixture(t, brokertest.Config{Start: clock, Store: mutedStore{store, &off}, ApprovalStore: store, Transcripts: openTranscripts(t, filepath.Join(t.TempDir(), "transcripts"))})
	s := h.Open(t, brokertest.Spec())
	id := h.transcribed(s.Task.ID, h.issued(s.Task, 1, nil)[0], nil, &transcript.Message{Status: 200, Body: transcript.Body{Bytes: 4, Text: "said"}})
	b := h.as(brokertest.Auditor)
	b.get("/transcripts/"+id).is(t, http.StatusOK, "said</pre>")
	off.Store(true)
	if a := b.get("/transcripts/" + id); a.StatusCode != http.StatusServiceUnavailable || strings.Contains(a.body, "said</pre>") {
		t.Errorf("unrecorded: %d %s", a.StatusCode, a.body)
	}
}

// TestTranscriptsAreForAuditors: other people can neither read transcripts nor
// learn that there are any.
//
//ebb:invariant I8 Only auditors can read transcripts
//ebb:invariant I8 The console shows the number of transcripts only to auditors
//ebb:invariant I8 The console links an audit log entry to its transcript only for auditors
func TestTranscriptsAreForAuditors(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{Transcripts: openTranscripts(t, filepath.Join(t.TempDir(), "transcripts"))})
	s := h.Open(t, brokertest.Spec())
	lease := h.issued(s.Task, 1, nil)[0]
	id := h.transcribed(s.Task.ID, lease, nil, &transcript.Message{Status: 200})
	x, err := json.Marshal(broker.Exchange{Host: "api.stripe.test:443", Transcript: id})
	if err != nil {
		t.Fatal(err)
	}
	entry := audit.Entry{At: h.Clock.Now(), Kind: audit.EgressCompleted, Actor: "sbx_" + s.Task.ID[4:], TaskID: s.Task.ID, LeaseID: lease, Data: x}
	if err := h.Store.Append(t.Context(), broker.Record{Entries: []audit.Entry{entry}}); err != nil {
		t.Fatal(err)
	}
	entry = h.lastEntry(t, audit.EgressCompleted)
	pages := []string{"/tasks/" + s.Task.ID, "/credentials/" + lease, "/audit?task=" + s.Task.ID, fmt.Sprintf("/audit/%s/%d", entry.Writer, entry.Seq)}
	auditor := h.as(brokertest.Auditor)
	for _, path := range pages {
		auditor.get(path).is(t, http.StatusOK, `href="/transcripts`)
	}
	if got := transcriptsOn(auditor.get(pages[2])); !slices.Equal(got, []string{id}) {
		t.Errorf("entries link to %v", got)
	}
	for _, who := range []string{brokertest.Viewer, brokertest.Approver, brokertest.Runner, brokertest.Operator2} {
		b := h.as(who)
		var refusals []string
		for _, path := range []string{"/transcripts", "/transcripts?task=" + s.Task.ID, "/transcripts.csv", "/transcripts.jsonl", "/transcripts/" + id, "/transcripts/trn_00000000000000000000000000000000"} {
			a := b.get(path)
			a.is(t, http.StatusForbidden)
			_, said, _ := strings.Cut(a.body, "<main")
			refusals = append(refusals, regexp.MustCompile(`<code>[^<]*</code>`).ReplaceAllString(said, "")) // the id of the request
		}
		if len(slices.Compact(refusals)) != 1 {
			t.Errorf("%s is told one from another: %v", who, refusals)
		}
		for _, path := range pages {
			if a := b.get(path); strings.Contains(a.body, "/transcripts") || strings.Contains(a.body, "<dt>Transcripts") {
				t.Errorf("%s: %s leads to them", who, path)
			}
		}
	}
	if got := h.readings(); len(got) != 0 {
		t.Errorf("somebody has read %v", got)
	}
}

// TestTranscriptHidesNothing: bodies, headers and paths are shown as escaped
// text.
//
//ebb:invariant I9 The console escapes each header and body of a transcript, so that no character can hide text
func TestTranscriptHidesNothing(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{Transcripts: openTranscripts(t, filepath.Join(t.TempDir(), "transcripts"))})
	s := h.Open(t, brokertest.Spec())
	const evil = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\u2066\u200b\U000e0041\ufeff\u05d0\u2705\x1b[2J\r\x00 \"'`&amp;{{.}}[[UNRENDERED]]"
	body := transcript.Body{Type: evil, Bytes: 64 << 10, Text: evil + "\r\n\t\u0301" + strings.Repeat("\u202e", 20<<10), LeftOut: 5}
	long := evil + strings.Repeat("p", 500)
	id := h.transcribed(s.Task.ID, h.issued(s.Task, 1, nil)[0], func(x *transcript.Transcript) {
		x.Rule, x.Tool, x.Host, x.Method, x.Path, x.Query = evil, evil, evil, evil, long, evil
		x.Request = transcript.Message{Headers: map[string][]string{evil: {evil}}, Body: body}
	}, &transcript.Message{Status: 200, Cut: true, Headers: map[string][]string{"X": {evil}}, Body: transcript.Body{Bytes: 9, Withheld: evil}})
	b := h.as(brokertest.Auditor)
	for _, path := range []string{"/transcripts", "/transcripts/" + id} {
		a := b.get(path)
		a.is(t, http.StatusOK, "&lt;script&gt;", "[U&#43;202E]")
		for _, bad := range []string{"<script>alert", "<img src=x", "onerror=alert(1)>", "UNRENDERED-UNTRUSTED"} {
			if strings.Contains(a.body, bad) {
				t.Errorf("%s draws %s", path, bad)
			}
		}
		for _, r := range a.body {
			if r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) {
				t.Errorf("%s has U+%04X in it", path, r)
				break
			}
		}
		if csp := a.Header.Get("Content-Security-Policy"); csp == "" || csp != b.get("/queue").Header.Get("Content-Security-Policy") || a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, a.Header)
		}
	}
	if n := strings.Count(b.get("/transcripts").body, "p"); n > 1500 {
		t.Errorf("the list draws the whole path: %d", n)
	}
	b.get("/transcripts").is(t, http.StatusOK, fmt.Sprintf("[&#43;%d]", len(long)-160))
	b.get("/transcripts/"+id).is(t, http.StatusOK, strings.Repeat("p", 500), "the response was cut off")
	csv, lines := b.get("/transcripts.csv"), b.get("/transcripts.jsonl")
	if strings.ContainsFunc(csv.body, func(r rune) bool { return r != '\n' && unicode.In(r, unicode.C) }) || strings.ContainsFunc(lines.body, func(r rune) bool { return r > 0x7e || r < ' ' && r != '\n' }) {
		t.Errorf("files: %s %s", csv.body, lines.body)
	}
}

// TestTranscriptLists: pages link forward and back, and exports equal the list.
func TestTranscriptLists(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{Transcripts: openTranscripts(t, filepath.Join(t.TempDir(), "transcripts"))})
	one, other := h.Open(t, brokertest.Spec()).Task, h.Open(t, brokertest.Spec()).Task
	leases := map[string]string{one.ID: h.issued(one, 1, nil)[0], other.ID: h.issued(other, 1, nil)[0]}
	var all, ones []string
	for i := range 170 {
		task := []string{one.ID, one.ID, other.ID}[i%3]
		id := h.transcribed(task, leases[task], nil, nil)
		if all = append([]string{id}, all...); task == one.ID {
			ones = append([]string{id}, ones...)
		}
	}
	b := h.as(brokertest.Auditor)
	for query, want := range map[string][]string{"": all, "?task=" + one.ID: ones, "?lease=" + leases[one.ID]: ones, "?lease=" + leases[one.ID] + "&task=" + other.ID: nil} {
		var got []string
		var pages []answer
		for path := "/transcripts" + query; path != ""; {
			a := b.get(path)
			a.is(t, http.StatusOK)
			pages, got, path = append(pages, a), append(got, transcriptsOn(a)...), linkTo(nextLink, a)
		}
		if !slices.Equal(got, want) || len(pages) != max(1, (len(want)+49)/50) {
			t.Errorf("%q: %d rows on %d pages, want %d", query, len(got), len(pages), len(want))
		}
		for i := len(pages) - 1; i > 0; i-- {
			if back := transcriptsOn(b.get(linkTo(prevLink, pages[i]))); !slices.Equal(back, transcriptsOn(pages[i-1])) {
				t.Errorf("%q: back from page %d: %d rows", query, i, len(back))
			}
		}
		h.sameFiles(t, b, "/transcripts"+query, want)
	}
	next := linkTo(nextLink, b.get("/transcripts"))
	cursor := next[strings.Index(next, "after=")+6:]
	for _, bad := range []string{"?after=" + cursor + "A", "?task=x&after=" + cursor, "?after=" + cursor + "&before=" + cursor, "?task=a&task=b", "?host=x", "?lease=" + url.QueryEscape("\u202e"), "?after=" + all[0]} {
		b.get("/transcripts"+bad).is(t, http.StatusUnprocessableEntity, `<form class="filter`)
	}
	b.get("/transcripts.csv?after="+cursor).is(t, http.StatusBadRequest)
}

// sameFiles exports a list, compares the ids, and finds the exports in the
// audit log.
func (h *fixture) sameFiles(t *testing.T, b *browser, path string, want []string) {
	t.Helper()
	for _, m := range fileLink.FindAllStringSubmatch(b.get(path).body, -1) {
		a := b.get(strings.ReplaceAll(m[1], "&amp;", "&"))
		a.is(t, http.StatusOK)
		var got []string
		if strings.Contains(m[1], ".csv") {
			got = csvIDs(t, a.body)
		} else {
			for line := range strings.Lines(a.body) {
				var x transcript.Head
				if err := json.Unmarshal([]byte(line), &x); err != nil {
					t.Fatal(err)
				}
				got = append(got, x.ID)
			}
		}
		var x report.Export
		e := h.lastEntry(t, audit.RecordExported)
		if err := json.Unmarshal(e.Data, &x); err != nil || !slices.Equal(got, want) || x.List != "transcripts" || x.Rows != len(want) || !x.Whole || e.Actor != brokertest.Auditor {
			t.Errorf("%s: %d rows of %d, the record says %+v (%v)", m[1], len(got), len(want), x, err)
		}
	}
}

// TestTornTranscript: the list marks an incomplete file, and its page says what
// to do.
func TestTornTranscript(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "transcripts")
	h := newFixture(t, brokertest.Config{Transcripts: openTranscripts(t, dir)})
	task := h.Open(t, brokertest.Spec()).Task
	torn := transcript.NewID()
	if err := os.WriteFile(filepath.Join(dir, strings.Join([]string{torn, task.ID, task.ID, h.issued(task, 1, nil)[0]}, ".")), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := h.as(brokertest.Auditor)
	b.get("/transcripts").is(t, http.StatusOK, torn, "its file is incomplete or unreadable")
	b.get("/transcripts/"+torn).is(t, http.StatusNotFound, "The audit log has the entries of the request")
}
