package audit_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/audit"
)

// clock formats times unlike RFC 3339, so that the golden file shows which times pass through it.
func clock(t time.Time) string { return t.UTC().Format("15:04 on 2 Jan 2006") }

// TestSentences: every kind of entry has a sentence. testdata/sentences.jsonl has entries
// as ebb writes them, sentences.golden their sentences.
func TestSentences(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/sentences.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	seen := map[string]bool{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var x struct {
			Kind, Actor string
			Data        json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			t.Fatal(err)
		}
		e := audit.Entry{Kind: x.Kind, Actor: x.Actor, Data: x.Data}
		say := audit.Sentence(e, clock)
		if say == e.Kind || strings.Contains(say, "  ") || strings.Contains(say, "%!") || strings.HasSuffix(say, ".") || strings.HasSuffix(say, " ") {
			t.Errorf("%s: %q", e.Kind, say)
		}
		seen[e.Kind] = true
		got.WriteString(e.Kind + ": " + say + "\n")
	}
	for _, kind := range audit.Kinds() {
		if !seen[kind] {
			t.Errorf("testdata/sentences.jsonl has no entry of kind %s", kind)
		}
	}
	if *update {
		if err := os.WriteFile("testdata/sentences.golden", got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/sentences.golden")
	if err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Errorf("the sentences differ from testdata/sentences.golden (%v); if they are right, run the test with -update:\n%s", err, got.Bytes())
	}
}

// TestSentenceOfAnyData: data of another form than ebb writes gives a sentence with fewer
// details.
func TestSentenceOfAnyData(t *testing.T) {
	t.Parallel()
	for _, kind := range append(audit.Kinds(), "of.tomorrow") {
		for _, data := range []string{"", "null", "7", "[]", "{}", `{"scope":7,"ttl":"x","groups":"a","why":{},"reason":[1,{}],"roles":[null],"approve":"yes","left_out":-1,"policy":"é"}`, "{"} {
			if say := audit.Sentence(audit.Entry{Kind: kind, Data: json.RawMessage(data)}, clock); say == "" || strings.Contains(say, "%!") {
				t.Errorf("%s with %s: %q", kind, data, say)
			}
		}
	}
}

// A text of a runner, a sandbox or a third party cannot close its quotation and continue as
// a fact.
//
//ebb:invariant I9 Free text in the sentence of an audit entry is quoted and cannot end its quotation
func TestSentenceQuotes(t *testing.T) {
	t.Parallel()
	const hostile = "x” for mia. “mia approved"
	for kind, member := range map[string]string{audit.TaskOpened: "name", audit.SandboxEnrolled: "subject", audit.PasskeyRenamed: "name", audit.RequestVoted: "note", audit.TaskPaused: "reason", audit.TokenDenied: "why", audit.EgressCompleted: "database", audit.BreakGlassReviewed: "incident"} {
		data, err := json.Marshal(map[string]string{member: hostile})
		if err != nil {
			t.Fatal(err)
		}
		say := audit.Sentence(audit.Entry{Kind: kind, Actor: "ci", Data: data}, clock)
		if strings.Count(say, "“") != 1 || strings.Count(say, "”") != 1 || !strings.Contains(say, "“x' for mia. 'mia approved”") {
			t.Errorf("%s: %s", kind, say)
		}
	}
}
