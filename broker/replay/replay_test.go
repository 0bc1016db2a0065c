package replay_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/replay"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// export links entries as a store does and prints them as an export.
func export(t *testing.T, entries ...audit.Entry) string {
	t.Helper()
	chain, err := audit.NewChain("ebb-test")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	at := time.Date(2026, 11, 2, 10, 0, 0, 0, time.UTC)
	for i, e := range entries {
		e.At = at.Add(time.Duration(i) * time.Second)
		if err := chain.Link(&e); err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.String()
}

func entry(kind, data string, more ...string) audit.Entry {
	e := audit.Entry{Kind: kind, Actor: "sbx_1", TaskID: "tsk_1", Data: json.RawMessage(data)}
	if len(more) > 0 {
		e.LeaseID = "lse_1"
		e.RequestID = more[0]
	}
	return e
}

var day = []audit.Entry{
	entry(audit.TaskOpened, `{"kind":"bugfix","owner":"bo","labels":{"team":"x"}}`),
	entry(audit.SandboxEnrolled, `{"attestor":"enroll","class":"ticket","subject":"s"}`),
	entry(audit.LeaseIssued, `{"scope":"orders:eu/1:read","exp":"2026-11-02T10:10:02Z","cnf":{"jkt":"x"},"tool":"cli","revocability":"eventual","revocation_bound":60}`, ""),
	entry(audit.RequestCreated, `{"scope":"orders:eu/1:write","ttl":600,"groups":["approvers"],"quorum":1,"facts":{"tool":"cli","would_allow":"","policy_version":"v1"}}`, "req_1"),
	entry(audit.LeaseIssued, `{"scope":"orders:eu/1:write","exp":"2026-11-02T10:10:04Z"}`, "req_1"),
	entry(audit.TokenDenied, `{"scope":"orders:eu/1:delete","policy":"v1","denied":"orders:eu/1:delete"}`),
	entry(audit.TokenDenied, `{"scope":"orders:eu/9:read","why":"a cap"}`),
	{Kind: audit.BrokerStopped, Actor: "ebb"},
}

func draft(t *testing.T, text string) *policy.Set {
	t.Helper()
	set, err := policy.Load(map[string][]byte{"draft.cedar": []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestReadAndReplay(t *testing.T) {
	t.Parallel()
	past, err := replay.Read(strings.NewReader(export(t, day...) + `{"checkpoint":{}}` + "\n" + `{"kept":{}}` + "\n"))
	if err != nil || past.Skipped != 0 || len(past.Decisions) != 3 {
		t.Fatalf("%d decisions, %d skipped, %v", len(past.Decisions), past.Skipped, err)
	}
	q := past.Decisions[0].Recorded.Query
	if q.Task.Kind != "bugfix" || q.Task.Labels["team"] != "x" || q.Sandbox.Evidence != "ticket" || q.TTL != 10*time.Minute || q.Task.Age != 2*time.Second || q.Tool != "cli" || q.Revocability != "eventual" || q.Bound != time.Minute || past.Decisions[1].Recorded.Query.Revocability != "instant" {
		t.Errorf("got %+v", q)
	}
	same := `
@id("r") permit (principal, action == Ebb::Action::"read", resource);
@id("w") @ask("approvers") permit (principal, action == Ebb::Action::"write", resource);`
	if changes := replay.Against(draft(t, same), past.Decisions); len(changes) != 0 {
		t.Errorf("the same policy changes %+v", changes)
	}
	for _, tt := range []struct {
		name, text string
		changes    int
		wider      int
	}{
		{"wider", `@id("all") permit (principal, action, resource);`, 2, 2},
		{"narrower", `@id("r") @max_ttl("1m") permit (principal, action == Ebb::Action::"read", resource);`, 2, 0},
		{"by owner", `@id("r") permit (principal, action, resource) when { context.task.owner == "ann" };`, 2, 0},
	} {
		changes := replay.Against(draft(t, tt.text), past.Decisions)
		wider := 0
		for _, c := range changes {
			if c.Wider {
				wider++
			}
		}
		if len(changes) != tt.changes || wider != tt.wider {
			t.Errorf("%s: %d changes, %d wider: %+v", tt.name, len(changes), wider, changes)
		}
	}
}

// A draft must see what the task had read when each decision was made, not later.
func TestTaintIsReplayed(t *testing.T) {
	t.Parallel()
	read := entry(audit.LeaseIssued, `{"scope":"orders:eu/1:read","exp":"2026-11-02T10:10:02Z"}`, "")
	past, err := replay.Read(strings.NewReader(export(t, day[0], day[1], read,
		entry(audit.TaskTainted, `{"sources":["web"]}`), read, entry(audit.TaskTainted, `{"sources":["mail","web"]}`), read)))
	if err != nil || past.Skipped != 0 || len(past.Decisions) != 3 {
		t.Fatalf("%d decisions, %d skipped, %v", len(past.Decisions), past.Skipped, err)
	}
	for i, want := range []string{"", "web", "mail web"} {
		if got := strings.Join(past.Decisions[i].Recorded.Query.Taint, " "); got != want {
			t.Errorf("decision %d: taint %q, want %q", i, got, want)
		}
	}
}

// of is an entry about another task.
func of(task string, e audit.Entry) audit.Entry {
	e.TaskID = task
	return e
}

// TestRecordIsReplayed: a replayed decision uses the task's history at the time of the
// original decision: the denials by policy and by people, and the replays, of the task and of
// those it delegated to.
func TestRecordIsReplayed(t *testing.T) {
	t.Parallel()
	const top, low = "tsk_1", "tsk_2"
	read := entry(audit.LeaseIssued, `{"scope":"orders:eu/1:read","exp":"2026-11-02T10:10:02Z"}`, "")
	denied := entry(audit.TokenDenied, `{"scope":"orders:eu/9:read","why":"a cap"}`)
	what := `{"to":"tsk_2","by":"sbx_1","ceiling":"orders:eu/1:read"}`
	past, err := replay.Read(strings.NewReader(export(t, day[0], day[1], read,
		entry(audit.RequestDenied, `{"code":"not_needed"}`, "req_1"), read,
		entry(audit.TokenReplayed, `{}`), read,
		entry(audit.TaskDelegated, what), of(low, entry(audit.TaskOpened, what)), of(low, day[1]), of(low, read),
		of(low, denied), of(low, entry(audit.TokenReplayed, `{}`)), of(low, read), read,
		entry(audit.TaskDelegated, strings.Replace(what, low, top, 1)), read, // no broker writes that
	)))
	if err != nil || past.Skipped != 0 {
		t.Fatalf("%d skipped, %v", past.Skipped, err)
	}
	for i, want := range []policy.Query{
		{Task: policy.Task{ID: top}, Record: policy.Record{}},
		{Task: policy.Task{ID: top}, Record: policy.Record{Denials: 1}},
		{Task: policy.Task{ID: top}, Record: policy.Record{Denials: 1, Violations: 1}},
		{Task: policy.Task{ID: low, Depth: 1}, Record: policy.Record{}},
		{Task: policy.Task{ID: low, Depth: 1}, Record: policy.Record{Denials: 1, Violations: 1}},
		{Task: policy.Task{ID: top}, Record: policy.Record{Denials: 2, Violations: 2}},
		{Task: policy.Task{ID: top}, Record: policy.Record{Denials: 2, Violations: 2}},
	} {
		got := past.Decisions[i].Recorded.Query
		if got.Record != want.Record || got.Task.ID != want.Task.ID || got.Task.Depth != want.Task.Depth || got.Task.Kind != "bugfix" || got.Task.Labels["team"] != "x" {
			t.Errorf("decision %d: %+v %+v, want %+v %+v", i, got.Task, got.Record, want.Task, want.Record)
		}
	}
}

func TestReadHostile(t *testing.T) {
	t.Parallel()
	past, err := replay.Read(strings.NewReader(export(t, day[2:]...)))
	if err != nil || past.Skipped == 0 {
		t.Errorf("a cut export: %d skipped, %v", past.Skipped, err)
	}
	for _, text := range []string{"hello\n", "{}\n", strings.Repeat("x", 5<<20), export(t, entry(audit.LeaseIssued, `{"scope":7}`))} {
		if _, err := replay.Read(strings.NewReader(text)); err == nil {
			t.Errorf("%.20q is an export", text)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(`{"checkpoint":{}}`)
	f.Add(fmt.Sprintf(`{"at":"2026-11-02T10:00:00.000Z","kind":"lease.issued","actor":"a","task_id":"t","writer":"w","seq":1,"prev":"","hash":"%064d"}`, 0))
	f.Fuzz(func(t *testing.T, text string) {
		past, err := replay.Read(strings.NewReader(text))
		if err != nil && len(past.Decisions) != 0 {
			t.Error("an error and decisions")
		}
	})
}

// A draft decides again about the one request to which a credential was limited, and about amounts.
func TestContentIsReplayed(t *testing.T) {
	t.Parallel()
	const facts = `{"kind":"json","operations":[{"action":"pay","amount":"EUR 80","object":"payments"}]}`
	past, err := replay.Read(strings.NewReader(export(t, day[0], day[1],
		entry(audit.LeaseIssued, `{"scope":"shop:payments:pay","exp":"2026-11-02T10:10:02Z","delivery":"egress","max_amount":["EUR 50"]}`, ""),
		entry(audit.LeaseIssued, `{"scope":"shop:payments:pay","exp":"2026-11-02T10:10:03Z","delivery":"egress","content":{"kind":"json","actions":["pay"],"objects":["payments"],"amount":"EUR 7"}}`, ""),
		entry(audit.RequestCreated, `{"scope":"shop:payments:pay","ttl":600,"groups":["leads"],"quorum":1,"facts":{"delivery":"egress","content":`+facts+`}}`, "req_1"),
		entry(audit.TokenDenied, `{"scope":"shop:payments:pay","policy":"v1","denied":"shop:payments:pay","delivery":"egress","content":{"kind":"json","amount":"EUR 900"}}`),
	)))
	if err != nil || len(past.Decisions) != 4 {
		t.Fatalf("%+v, %v", past, err)
	}
	const same = `
@id("a") @max_amount("EUR 50") permit (principal, action, resource) when { context.content.kind == "" };
@id("b") permit (principal, action, resource) when { context.content.kind == "json" && context.content.amount.lessThan(decimal("50.0")) };
@id("c") @ask("leads") permit (principal, action, resource)
when { context.content.actions.contains("pay") && context.content.amount.greaterThanOrEqual(decimal("50.0")) && context.content.amount.lessThan(decimal("500.0")) };`
	if changes := replay.Against(draft(t, same), past.Decisions); len(changes) != 0 {
		t.Errorf("the same policies change %+v", changes)
	}
	changes := replay.Against(draft(t, strings.NewReplacer("EUR 50", "EUR 60", "500.0", "1000.0", `contains("pay") && `, `isEmpty() == false && `).Replace(same)), past.Decisions)
	if len(changes) != 1 || !changes[0].Wider || !strings.Contains(strings.Join(changes[0].Diff, " "), "EUR 60 instead of EUR 50") {
		t.Errorf("a higher limit changes %+v", changes)
	}
	changes = replay.Against(draft(t, strings.Replace(same, `context.content.actions.contains("pay") && `, "", 1)+`@id("d") @ask("leads") permit (principal, action, resource) when { context.content.amount.greaterThan(decimal("500.0")) };`), past.Decisions)
	if len(changes) != 1 || !changes[0].Wider || changes[0].Recorded.Query.Content.Amount.String() != "EUR 900" {
		t.Errorf("a rule for large payments changes %+v", changes)
	}
}
