package api_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/storetest"
	"github.com/ebb-broker/ebb/broker/transcript"
)

// Transcripts are listed without headers and bodies, and read by auditors only.
// Each reading is in the audit log before the response.
//
//ebb:invariant I8 Only auditors can read transcripts
//ebb:invariant I11 Reading a transcript is recorded in the audit log before the transcript is returned
func TestTranscripts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "transcripts")
	store, err := transcript.Open(transcript.Config{Dir: dir, Bytes: 1 << 20, Keep: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	r := newRig(t, options{broker: brokertest.Config{Transcripts: store}})
	task := storetest.Task()
	var ids []string
	for range 3 {
		lease := storetest.Lease(task.ID)
		x := transcript.Transcript{
			Head:  transcript.Head{ID: transcript.NewID(), At: time.Now().UTC(), TaskID: task.ID, LeaseID: lease.ID, Rule: "all", Tool: "git", Host: "api.example.com:443", Method: "POST", Path: "/v1/x"},
			Query: "a=1", Request: transcript.Message{Headers: map[string][]string{"X-Note": {"a"}}},
		}
		e, err := store.Begin(x, task.ID, 8<<10)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.End(transcript.Body{Type: "text/plain", Bytes: 9, Text: "said", LeftOut: 5}, transcript.Message{Status: 200, Cut: true, Body: transcript.Body{Bytes: 3, Withheld: transcript.NotText}}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, x.ID)
	}
	ask := func(who, path string) *answer { return r.v1(t, who, "GET", "/v1/transcripts"+path, nil) }
	a := ask(brokertest.Auditor, "?limit=2&task_id="+task.ID)
	if list := items(a); a.status != 200 || len(list) != 2 || list[0]["id"] != ids[2] || a.text("next") != ids[1] || strings.Contains(a.body, "said") || strings.Contains(a.body, "a=1") {
		t.Errorf("listed: %d %s", a.status, a.body)
	}
	if a := ask(brokertest.Auditor, "?after="+ids[1]); len(items(a)) != 1 || items(a)[0]["id"] != ids[0] || a.text("next") != "" {
		t.Errorf("the next page: %s", a.body)
	}
	a = ask(brokertest.Auditor, "/"+ids[0])
	if a.status != 200 || a.text("query") != "a=1" || !strings.Contains(a.body, `"left_out":5`) || !strings.Contains(a.body, "not_text") {
		t.Errorf("read: %d %s", a.status, a.body)
	}
	for _, who := range []string{brokertest.Runner, brokertest.Approver, brokertest.Viewer} {
		for _, path := range []string{"", "/" + ids[0], "/none"} {
			ask(who, path).problem(t, who+" "+path, 403, "forbidden")
		}
	}
	torn := transcript.NewID()
	if err := os.WriteFile(filepath.Join(dir, strings.Join([]string{torn, task.ID, task.ID, storetest.Lease(task.ID).ID}, ".")), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{torn, "none", "trn_00000000000000000000000000000000", "..%2f" + ids[0]} {
		ask(brokertest.Auditor, "/"+id).problem(t, id, 404, "not_found")
	}
	for _, query := range []string{"?limit=0", "?order=asc", "?task_id=a&task_id=b", "?after=z", "?after=" + task.ID, "?after=" + ids[0] + "0"} {
		ask(brokertest.Auditor, query).problem(t, query, 400, "invalid_request")
	}
	es, err := r.env.Broker.Entries(t.Context(), r.env.Principals[brokertest.Auditor], broker.EntryFilter{Kind: audit.TranscriptRead})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for e, err := range es {
		var d map[string]string
		if err != nil || json.Unmarshal(e.Data, &d) != nil || e.Actor != brokertest.Auditor || e.TaskID != task.ID || d["transcript"] != ids[0] {
			t.Errorf("on the record: %+v %s, %v", e, e.Data, err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d readings are on the record", n)
	}
	// The token exists already: only the audit log fails.
	token := r.apiToken(t, brokertest.Auditor)
	if err := r.env.Store.Close(); err != nil {
		t.Fatal(err)
	}
	if a := r.v1With(t, token, r.env.Keys[brokertest.Auditor], "GET", "/v1/transcripts/"+ids[0], nil); a.status != 503 || strings.Contains(a.body, "said") {
		t.Errorf("unrecorded: %d %s", a.status, a.body)
	}
}
