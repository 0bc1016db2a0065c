package requests

import (
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// The approver is told whether the credential leaves ebb, with a warning if it
// need not.
//
//ebb:invariant I7 Approvers and the policy are informed when a credential is issued to the sandbox although it could have stayed in ebb
func TestLinesOfDelivery(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		facts broker.FactSheet
		label string
		warn  bool
	}{
		"stays":                 {broker.FactSheet{Delivery: "egress"}, "stays in ebb", false},
		"leaves":                {broker.FactSheet{Delivery: "token"}, "the sandbox gets the credential itself", false},
		"leaves, though":        {broker.FactSheet{Delivery: "token", CouldStay: true}, "although ebb could keep it", true},
		"of an older version":   {broker.FactSheet{}, "", false},
		"no word that it knows": {broker.FactSheet{Delivery: "carrier"}, "", false},
	} {
		summary, rest := linesOf(shell.View{Who: &session.Visit{}}, broker.Request{}, c.facts)
		if slices.ContainsFunc(rest, func(l shell.Line) bool { return l.Warn }) {
			t.Errorf("%s: a warning is not in the summary: %+v", name, rest)
		}
		ls := slices.Concat(summary, rest)
		i := slices.IndexFunc(ls, func(l shell.Line) bool { return l.Label == "Delivery" })
		if (i >= 0) != (c.label != "") || i >= 0 && (!strings.Contains(ls[i].Text, c.label) || ls[i].Warn != c.warn) {
			t.Errorf("%s: %+v", name, ls)
		}
	}
}

// A single untrusted source that a reason names is not repeated as a warning. Every other one is
// in view.
func TestUntrustedSourcesStayInView(t *testing.T) {
	t.Parallel()
	names := &risk.Result{Reasons: []risk.Reason{{ID: "tainted-write", Text: "The task read web, which others can write."}}}
	below := &risk.Result{Reasons: []risk.Reason{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "tainted"}}}
	for name, c := range map[string]struct {
		facts broker.FactSheet
		warn  bool
	}{
		"named by a reason":       {broker.FactSheet{Taint: []string{"web"}, Risk: names}, false},
		"one of two is named":     {broker.FactSheet{Taint: []string{"mail", "web"}, Risk: names}, true},
		"the reason is not shown": {broker.FactSheet{Taint: []string{"web"}, Risk: below}, true},
		"no reason":               {broker.FactSheet{Taint: []string{"web"}, Risk: &risk.Result{}}, true},
		"of an older version":     {broker.FactSheet{Taint: []string{"web"}}, true},
	} {
		summary, rest := linesOf(shell.View{Who: &session.Visit{}}, broker.Request{}, c.facts)
		is := func(l shell.Line) bool { return l.Label == "Untrusted content read" && strings.Contains(l.Text, "web") }
		if slices.ContainsFunc(summary, is) != c.warn || slices.ContainsFunc(rest, is) == c.warn {
			t.Errorf("%s: in view %+v, behind a click %+v", name, summary, rest)
		}
	}
}

// The title shortens the actions and names the first resource alone, so the rows of both
// stay in view, also if the task has all of them already.
//
//ebb:invariant I7 The actions and resources of a request are in view before an approver decides
func TestResourcesStayInView(t *testing.T) {
	t.Parallel()
	s := shown{Rows: []shell.Row{{Field: fields[risk.FieldPermission]}, {Field: fields[risk.FieldResource]}, {Field: fields[risk.FieldAudience]}, {Field: fields[risk.FieldTime], Changed: true}}}
	if rows := s.Changed(); len(rows) != 3 || rows[0].Field != fields[risk.FieldPermission] || rows[1].Field != fields[risk.FieldResource] {
		t.Errorf("in view: %+v", rows)
	}
	if rows := s.Same(); len(rows) != 1 || rows[0].Field != fields[risk.FieldAudience] {
		t.Errorf("behind a click: %+v", rows)
	}
}

// A name cannot close its quotation and continue as a fact.
func TestQuotedNames(t *testing.T) {
	t.Parallel()
	for _, mark := range []string{"”", "″", "‟", "＂", "ˮ", "\""} {
		if got, want := quoted("x"+mark+", kind release"), "“x', kind release”"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// The approver sees each detail of the only request whole, and no value that looks like another detail.
func TestContentLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", content.MaxDetail)
	first, rest := contentLines(&content.Facts{Kind: "graphql", Operations: []content.Operation{{Action: "mutation", Object: "createPullRequest", Details: map[string]string{
		"input.baseRefName": long, "input.headRefName": long, "input.pullRequestId": "PR_1", "input.title": "a, input.pullRequestId: PR_2\u202e",
	}}}})
	if len(first) != 2 || len(rest) != 0 { // the second is about requests that only read
		t.Fatalf("the lines are %v, %v", first, rest)
	}
	if text := first[0].Text; !strings.Contains(text, "input.pullRequestId: “PR_1”") || !strings.Contains(text, "input.title: “a, input.pullRequestId: PR_2[U+202E]”") {
		t.Errorf("the line is %s", text)
	}
}
