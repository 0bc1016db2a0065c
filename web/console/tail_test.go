package console_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest"
)

// tailed is the response to a script that follows a list.
type tailed struct {
	Rows []struct {
		Key  string
		Text map[string]string
		Href map[string]string
	}
}

func (b *browser) tail(path string) (out tailed) {
	b.h.t.Helper()
	a := b.get(path)
	a.is(b.h.t, http.StatusOK)
	if err := json.Unmarshal([]byte(a.body), &out); err != nil {
		b.h.t.Fatal(err, a.body)
	}
	return out
}

// Acceptance check 34, the response to a script: the newest rows of exactly the
// followed list, for people who may read it.
func TestTail(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	s := h.Open(t, brokertest.Spec())
	var ids []string
	for range 25 {
		tok, err := s.Ask(t, "orders:eu/1:read")
		if err != nil {
			t.Fatal(err)
		}
		ids = append([]string{tok.LeaseID}, ids...)
	}
	aud := h.as(brokertest.Auditor)
	page := aud.get("/credentials?task=" + s.Task.ID)
	page.is(t, http.StatusOK, `data-tail="/credentials/tail?task=`+s.Task.ID+`"`, `data-key="`+ids[0]+`"`, ">Follow</button>", ">Refresh</a>")
	got := aud.tail("/credentials/tail?task=" + s.Task.ID)
	if len(got.Rows) != 20 {
		t.Fatalf("%d rows", len(got.Rows))
	}
	for i, r := range got.Rows {
		if r.Key != ids[i] || r.Text["scope"] != "orders:eu/1:read" || r.Text["state"] != "active" || r.Href["self"] != "/credentials/"+ids[i] || r.Href["task"] != "/tasks/"+s.Task.ID {
			t.Errorf("row %d: %+v", i, r)
		}
	}
	if got := aud.tail("/credentials/tail?owner=nobody"); len(got.Rows) != 0 {
		t.Errorf("of nobody: %+v", got)
	}
	aud.get("/tasks/"+s.Task.ID).is(t, http.StatusOK, `data-tail="/tasks/`+s.Task.ID+`/tail"`)
	if got := aud.tail("/tasks/" + s.Task.ID + "/tail?task=on"); len(got.Rows) != 2 || got.Rows[1].Text["kind"] != "task.opened" || !strings.HasPrefix(got.Rows[0].Href["self"], "/audit/") {
		t.Errorf("of the task: %+v", got)
	}
	for path, want := range map[string]int{
		"/credentials/tail?sort=oldest": http.StatusBadRequest, "/credentials/tail?after=x": http.StatusBadRequest, "/credentials/tail?nothing=1": http.StatusBadRequest,
		"/tasks/" + s.Task.ID + "/tail?before=x": http.StatusBadRequest,
	} {
		aud.get(path).is(t, want)
	}
	// Only pages with the newest rows are followed, by people who may read
	// them.
	if b := aud.get("/credentials?sort=oldest"); strings.Contains(b.body, "data-tail") {
		t.Error("the oldest are followed")
	}
	for _, who := range []string{brokertest.Approver, brokertest.Runner2} {
		for _, path := range []string{"/credentials/tail?task=" + s.Task.ID, "/tasks/" + s.Task.ID + "/tail"} {
			if a := h.as(who).get(path); a.StatusCode == http.StatusOK {
				t.Errorf("%s reads %s: %s", who, path, a.body)
			}
		}
	}
	if a := h.browser().get("/credentials/tail"); a.StatusCode == http.StatusOK {
		t.Error("nobody reads it")
	}
}

// People who may read lists are told that the audit log has grown; approvers
// only are not.
func TestRecordGoesOn(t *testing.T) {
	t.Parallel()
	h := newFixture(t, brokertest.Config{})
	srv := httptest.NewServer(h.mux)
	defer srv.Close()
	_, told, stop := h.as(brokertest.Auditor).listen(t, srv, "same-origin", "record")
	defer stop()
	_, decides, stopDecides := h.as(brokertest.Approver).listen(t, srv, "same-origin", "record")
	defer stopDecides()
	first := next(t, told)
	h.Open(t, brokertest.Spec())
	if second := next(t, told); second == first || !strings.Contains(second, "/") || len(second) > 64 {
		t.Errorf("told %q, then %q", first, second)
	}
	select {
	case got := <-decides:
		t.Errorf("an approver was told %q", got)
	default:
	}
}
