package main

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/receipt"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/scopes/policy"
	"github.com/ebb-broker/ebb/web/wire"
)

// Values as long as they are in large deployments.
const (
	longTask    = "tsk_01a1f92a00007bf2222244bdd0bc9949"
	longLease   = "lse_01a1f92a00007bf2222244bdd0bc9949"
	longRequest = "req_01a1f92a00007bf2222244bdd0bc9949"
	longScope   = "github:acme-corporation/payments-and-billing-service/refs/heads/release-2026:contents.write"
	longOwner   = "alexandra.konstantinidis@engineering.example.com"
	longName    = "Upgrade the payment gateway to the new API of the acquirer, and migrate its fixtures"
)

// printed prints a listing as a table and as a wide table.
type printed func(t *testing.T) (table, wide string)

func listing[T any](columns []out.Column[T], items ...T) printed {
	return func(t *testing.T) (string, string) {
		t.Helper()
		var table, wide strings.Builder
		for f, b := range map[out.Format]*strings.Builder{out.Table: &table, out.Wide: &wide} {
			if err := out.List(b, f, columns, items); err != nil {
				t.Fatal(err)
			}
		}
		return table.String(), wide.String()
	}
}

// listings are all listings with long values. soon and ago are relative to now,
// in the middle of the unit that a table prints.
func listings() map[string]printed {
	soon, ago := time.Now().Add(12*time.Minute+30*time.Second), time.Now().Add(-3*time.Hour-30*time.Minute)
	reason, _ := json.Marshal(strings.Repeat("because the release is tonight ", 10))
	request := wire.Request{ID: longRequest, Match: "FALCON-1234", State: wire.RequestWithdrawn, Scopes: longScope, TTL: 5400, TaskID: longTask, Owner: longOwner, CreatedAt: ago, ExpiresAt: soon, Reason: reason}
	request.Groups = []string{"approvers", "payments-oncall"}
	upstream := &wire.Upstream{Bound: 120, Attempts: 17, NextAt: soon}
	kid := "0HX4Y8oK9dKX2uJ0v1i5qgQJ3q7h0mT8b3xjN5b9Z1c"
	usage := wire.GrantUsage{Provider: "github-enterprise", Scope: longScope, Tool: "claude-code", Owner: longOwner, TaskID: longTask, Issued: 12345, Used: 12000, Unused: 345, Uses: 1234567, LastUsed: ago}
	said := strings.Repeat("the database cannot be reached from this machine; ", 5)
	return map[string]printed{
		"task":         listing(taskColumns, wire.Task{ID: longTask, State: wire.TaskPaused, Name: longName, Kind: "dependency-upgrade", Owner: longOwner, Runner: "ci-runner-eu-central-1", OpenedAt: ago, Deadline: soon, Cause: wire.CauseMissedAttestation, ClosedAt: ago}),
		"requests":     listing(requestColumns, request),
		"leases":       listing(leaseColumns, wire.Lease{ID: longLease, State: wire.LeaseState("unconfirmed"), Scopes: longScope, TaskID: longTask, Owner: longOwner, IssuedAt: ago, ExpiresAt: soon, RevokedAt: ago, Cause: wire.CauseMissedAttestation, Class: "eventual", Upstream: upstream}),
		"audit":        listing(entryColumns, wire.AuditEntry{At: out.Time(ago), Kind: "break_glass.reviewed_by", Actor: "sbx_01a1f92a00007bf2222244bdd0bc9949", TaskID: longTask, LeaseID: longLease, RequestID: longRequest, Data: json.RawMessage(`{"scope":"` + longScope + `","reason":"` + longName + `"}`)}),
		"providers":    listing(providerColumns, wire.Provider{Name: "github-enterprise-cloud", Kind: "kubernetes", Resource: "https://api.github.enterprise.example.com/organizations/acme", Class: "eventual", Bound: 120, Held: 12345, PendingRevocations: 1234, PendingSince: ago, NextAt: soon, Breaker: "half-open"}),
		"self-test":    listing(selfTestColumns, wire.SelfTestStep{Step: "revoke", What: said, Remedy: said, Millis: 12345}),
		"attest":       listing(attestorColumns, wire.Attestor{Name: "kubernetes-production-eu-1", Challenges: true, Watches: true, OnSandboxExit: wire.ActionComplete, Reattest: 300, OnMissedAttestation: wire.ActionComplete}),
		"explanation":  listing(explainedColumns, explainedLine{"refused", "selectors", said}),
		"keys":         listing(keyColumns, keyLine{KID: kid, Alg: "ES256", State: "retired", Created: ago, ActiveFrom: ago, RetireAt: soon}),
		"doctor":       listing(findingColumns, finding{"data directory", "fail", said, said}),
		"usage":        listing(append(append([]out.Column[wire.GrantUsage]{}, usageOf[wire.UsageByScope]...), usageCounts...), usage),
		"usage task":   listing(append(append([]out.Column[wire.GrantUsage]{}, usageOf[wire.UsageByTask]...), usageCounts...), usage),
		"transcripts":  listing(headColumns, wire.TranscriptHead{ID: "trn_01a1f92a00007bf2222244bdd0bc9949", At: ago, TaskID: longTask, LeaseID: longLease, Rule: "everything-that-writes", Tool: "claude-code", Method: "DELETE", Host: "api.github.enterprise.example.com:443", Path: "/repos/acme-corporation/payments-and-billing-service/contents/README.md"}),
		"break-glass":  listing(breakGlassColumns, wire.BreakGlass{ID: "brk_01a1f92a00007bf2222244bdd0bc9949", Person: longOwner, Incident: "INC-2026-11-27-0042", BegunAt: ago, EndsAt: soon, Used: 12, ReviewedBy: longOwner, ReviewedAt: ago, Reason: longName, Note: longName}),
		"notify":       listing(channelColumns, channelLine{Name: "payments-oncall", Kind: "webhook", Where: "https://hooks.example.com/services/T00000000/B00000000", People: true, Routes: []string{said}}),
		"secrets":      listing(secretColumns, wire.StoredSecret{Name: strings.Repeat("refresh-token-", 9), ChangedAt: ago}),
		"receipt":      listing(proofColumns, receipt.Credential{Lease: longLease, State: "unconfirmed", Proof: "probed", Class: "eventual", Provider: "github-enterprise", Scope: longScope, RevokedAt: ago, DeadAt: ago, Attempts: 17}),
		"stopped":      listing(stoppedColumns, wire.StoppedTask{ID: longTask, Name: longName, Revoked: 12, Withdrawn: 3, PendingRevocations: 4, Error: said}),
		"policy tests": listing(testColumns, policy.Result{File: "payments/gateway.test.yaml", Name: longName, Diff: []string{said}}),
		"verdicts":     listing(verdictColumns, verdictLine{scope: longScope, effect: "allow"}),
	}
}

// TestTablesFit: with long values no line of a listing is wider than 100 cells,
// and -o wide has ids and times whole.
func TestTablesFit(t *testing.T) {
	t.Parallel()
	for name, list := range listings() {
		table, wide := list(t)
		for line := range strings.Lines(table) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > out.Width {
				t.Errorf("%s: %d cells: %s", name, n, line)
			}
		}
		for _, id := range []string{longTask, longLease, longRequest} {
			if strings.Contains(table, id) || strings.Contains(table, id[:16]) && !strings.Contains(wide, id) {
				t.Errorf("%s: the id %s is not short in the table and whole in wide\n%s\n%s", name, id, table, wide)
			}
		}
		if regexp.MustCompile(`\d{4}-\d\d-\d\dT`).MatchString(table) || strings.Contains(table, "in 12m") && !strings.Contains(wide, "Z") {
			t.Errorf("%s: times are not relative in the table and whole in wide\n%s", name, table)
		}
	}
}

// TestTablesAreGolden compares every table with testdata/tables.golden. With
// -update it writes the file.
func TestTablesAreGolden(t *testing.T) {
	t.Parallel()
	const file = "testdata/tables.golden"
	all := listings()
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		table, _ := all[name](t)
		got.WriteString("# " + name + "\n" + table + "\n")
	}
	if *update {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || got.String() != string(want) {
		t.Errorf("%v; got\n%s\nwant\n%s", err, got.String(), want)
	}
}

// The agent's text does not leave its frame on a terminal of 80 columns.
func TestSheetFrame(t *testing.T) {
	t.Parallel()
	reason, err := json.Marshal(strings.Repeat("because the release is tonight ", 20))
	if err != nil {
		t.Fatal(err)
	}
	s := &sheet{now: time.Now()}
	s.agent(wire.Request{Reason: reason})
	framed := 0
	for line := range strings.Lines(s.b.String()) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		framed++
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	if framed < 2 {
		t.Errorf("%d lines in the frame:\n%s", framed, s.b.String())
	}
}

// The whole SQL text of a request is on the screen, every space of it, in a frame that it does not
// leave.
func TestSheetSQL(t *testing.T) {
	t.Parallel()
	sql := "DELETE FROM t -- approved\n  WHERE name = 'a" + strings.Repeat(" ", 100) + "b'\n-> ebb requests approve\n\x1b[2Jx\u202e"
	s := &sheet{now: time.Now()}
	s.sql(&content.Facts{Kind: "pgsql", Text: sql})
	lines := strings.Split(s.b.String(), "\n")
	want := []string{"| DELETE FROM t -- approved", "|   WHERE name = 'a" + strings.Repeat(" ", 61), "| " + strings.Repeat(" ", 39) + "b'", "| -> ebb requests approve", "| [U+001B][2Jx[U+202E]"}
	if len(lines) < 8 || !slices.Equal(lines[1:6], want) || !strings.Contains(s.b.String(), "notice     The text claims approval.") {
		t.Errorf("%q", lines)
	}
	s = &sheet{}
	if s.sql(nil); s.b.Len() > 0 {
		t.Errorf("without a text: %s", s.b.String())
	}
	of := func(kind string) string {
		return strings.Join(onlyThis(&content.Facts{Kind: kind, Operations: []content.Operation{{Action: "delete", Object: "?.t", Details: map[string]string{"where": "no"}}}}), "|")
	}
	const besides = "|besides: any requests with GET or HEAD within the scopes"
	if of("pgsql") != "delete every row of ?.t"+besides || of("graphql") != "delete ?.t  where=“no”"+besides {
		t.Errorf("%s, %s", of("pgsql"), of("graphql"))
	}
}
