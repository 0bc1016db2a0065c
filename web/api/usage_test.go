package api_test

import (
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/storetest"
)

// Issued credentials are listed with their uses, as many rows as requested.
func TestUsage(t *testing.T) {
	t.Parallel()
	r := newRig(t, options{broker: brokertest.Config{Start: storetest.Epoch.Add(time.Hour)}})
	ask := func(query string) *answer { return r.v1(t, brokertest.Auditor, "GET", "/v1/usage"+query, nil) }
	if a := ask(""); a.status != 200 || len(items(a)) != 0 || a.json["items"] == nil || a.json["more"] != false {
		t.Errorf("of nothing: %d %s", a.status, a.body)
	}
	r.env.Clock.Add(5 * time.Minute)
	task := storetest.Task()
	records := []broker.Record{{OpenTask: &task}}
	for _, tool := range []string{"git", "git", "", "ssh"} {
		l := storetest.Lease(task.ID)
		l.Tool = tool
		if tool == "ssh" {
			l.Delivery = "token"
		}
		records = append(records, broker.Record{IssueLease: &l})
		if tool != "git" {
			records = append(records, broker.Record{Entries: []audit.Entry{{At: l.IssuedAt.Add(time.Second), Kind: audit.EgressAllowed, Actor: l.Sandbox, TaskID: task.ID, LeaseID: l.ID}}})
		}
	}
	for _, record := range records {
		if err := r.env.Store.Append(t.Context(), record); err != nil {
			t.Fatal(err)
		}
	}
	if a := ask("?by=owner"); a.json["handed_out"] != 1.0 || a.json["carried"] != 1.0 {
		t.Errorf("handed out: %s", a.body)
	}
	a := ask("?by=scope&from=" + storetest.Epoch.Format(time.RFC3339))
	if list := items(a); a.status != 200 || len(list) != 2 || list[0]["tool"] != "git" || list[0]["unused"] != 2.0 || list[0]["last_used"] != nil ||
		list[1]["uses"] != 1.0 || list[1]["last_used"] == nil || list[1]["tool"] != nil {
		t.Errorf("by scope: %d %s", a.status, a.body)
	}
	if a := ask("?limit=1"); len(items(a)) != 1 || a.json["more"] != true || a.text("by") != "scope" {
		t.Errorf("one row: %d %s", a.status, a.body)
	}
	if a := ask("?by=task"); len(items(a)) != 1 || items(a)[0]["task_id"] != task.ID || items(a)[0]["owner"] != task.Owner || items(a)[0]["issued"] != 3.0 {
		t.Errorf("by task: %d %s", a.status, a.body)
	}
	for _, query := range []string{"?by=rule", "?by=", "?by=scope&by=task", "?from=yesterday", "?from=2020-01-01T00:00:00Z", "?from=2126-01-01T00:00:00Z", "?limit=0", "?limit=1001", "?to=2026-03-04T00:00:00Z"} {
		ask(query).problem(t, query, 400, "invalid_request")
	}
}
