package requests

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/scopes/policy"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// both formats a time in the reader's zone and in UTC.
func both(v shell.View, t time.Time) string {
	if v.Zone == time.UTC {
		return shell.Clock(v, t)
	}
	return shell.Clock(v, t) + " (" + t.UTC().Format("15:04:05Z") + ")"
}

// linesOf returns the lines of the summary, and the remaining lines. Every line with a
// warning is in the summary.
func linesOf(v shell.View, r broker.Request, f broker.FactSheet) (summary, rest []shell.Line) {
	out := []shell.Line{
		{Label: "Sandbox", Text: attested(v, f), Path: "/sandboxes/" + f.Sandbox.ID, Warn: f.Sandbox.Class == "bearer" || f.Violations > 0},
		{Label: "Task id", Text: f.TaskID, Name: true},
		{Label: "Opened by", Text: f.Runner, Name: true},
		{Label: "Sandbox id", Text: f.Sandbox.ID, Name: true},
	}
	summary = []shell.Line{
		{Label: "Owner", Text: f.Owner, Name: true},
		{Label: "Task", Text: quoted(f.TaskName), Path: "/tasks/" + f.TaskID},
	}
	does, more := contentLines(f.Content)
	summary, out = append(does, summary...), append(out, more...)
	if f.MaxAmount != nil {
		summary = append(summary, shell.Line{Label: "May spend", Text: "at most " + f.MaxAmount.String() + ", in this task and all tasks below it together"})
	}
	if f.TaskKind != "" {
		out = append(out, shell.Line{Label: "Kind of task", Text: f.TaskKind, Name: true})
	}
	open := r.State == broker.RequestPending && r.ExpiresAt.After(v.Now)
	if open {
		reuse := "the same request needs no new approval for " + shell.Span(f.Reuse.Duration())
		if f.Content != nil {
			reuse = "none: the approval is used up when the request is sent"
		}
		out = append(out, shell.Line{Label: "Ends", Text: "by " + both(v, f.End(v.Now)) + " if you approve now"}, shell.Line{Label: "Reuse", Text: reuse})
	}
	if len(f.Above) > 0 {
		out = append(out, shell.Line{Label: "Delegated by", Text: strings.Join(f.Above, ", "), Name: true, Warn: true})
	}
	read := shell.Line{Label: "Untrusted content read", Text: "none reported by the runner or the proxy"}
	if len(f.Taint) > 0 {
		said := len(f.Taint) == 1 && f.Risk != nil && slices.ContainsFunc(f.Risk.Top(), func(r risk.Reason) bool { return strings.HasPrefix(r.ID, "tainted") })
		read = shell.Line{Label: "Untrusted content read", Text: strings.Join(f.Taint, ", "), Name: true, Warn: !said} // the reasons name one source
	}
	out = append(out, read)
	switch {
	case f.Delivery == policy.DeliveryEgress:
		out = append(out, shell.Line{Label: "Delivery", Text: "stays in ebb, which adds it to requests through its egress proxy; the sandbox gets a placeholder"})
	case f.CouldStay:
		out = append(out, shell.Line{Label: "Delivery", Text: "the sandbox gets the credential itself, although ebb could keep it, or a part of it, and add it to requests", Warn: true})
	case f.Delivery == policy.DeliveryToken:
		out = append(out, shell.Line{Label: "Delivery", Text: "the sandbox gets the credential itself"})
	}
	if r.Tool != "" {
		out = append(out, shell.Line{Label: "Tool", Text: r.Tool + ", named by the sandbox"})
	}
	out = append(out,
		shell.Line{Label: "Policy", Text: strings.Join(f.Rules, ", ") + ": " + strings.Join(f.Why, " ")},
		shell.Line{Label: "Your part", Text: whyYou(v, r)},
	)
	if open {
		out = append(out, shell.Line{Label: "Answer by", Text: both(v, r.ExpiresAt) + ", in " + shell.Span(r.ExpiresAt.Sub(v.Now)) + "; without an answer it is denied"})
	}
	for _, l := range out {
		if l.Warn {
			summary = append(summary, l)
		} else {
			rest = append(rest, l)
		}
	}
	return summary, rest
}

// maxDoes is how many operations of a content are in the summary.
const maxDoes = 3

// contentLines returns the operations of the one request or text that the approval is for: the first
// ones for the summary, and the rest. All of their texts come from the sandbox.
func contentLines(c *content.Facts) (first, rest []shell.Line) {
	if c == nil {
		return nil, nil
	}
	ordered := c.Ordered()
	label := "Only this"
	if c.NeedsPeople() { // the credential allows more: what its scope allows
		label = "One text"
	}
	for i, o := range ordered {
		l := shell.Line{Label: label, Text: agenttext.ShowLine(agenttext.From(does(*c, o)), 0), Name: true, Warn: o.Loses() && i < maxDoes}
		if i < maxDoes {
			first = append(first, l)
		} else {
			rest = append(rest, l)
		}
	}
	if len(rest) > 0 {
		first = append(first, shell.Line{Label: label, Text: fmt.Sprintf("and %d more, under Other facts", len(rest)), Warn: ordered[maxDoes].Loses()})
	}
	if !c.NeedsPeople() {
		first = append(first, shell.Line{Label: "Besides", Text: "any requests with GET or HEAD within the scopes"})
	}
	if c.Body != "" {
		rest = append(rest, shell.Line{Label: "Body, SHA-256", Text: c.Body, Name: true})
	}
	return first, rest
}

// shortID is how many digits of a commit's id are shown.
const shortID = 10

// does returns an operation of a content as text: its details follow it, ids of commits shortened.
// Details are quoted, so that one cannot look like another.
func does(c content.Facts, o content.Operation) string {
	text, details := c.Title(o)
	if o.Amount != "" {
		text += ": " + o.Amount
	}
	if o.Details["old"] != "" || o.Details["new"] != "" {
		cut := func(id string) string { return cmp.Or(id[:min(len(id), shortID)], "nothing") }
		text += ": " + cut(o.Details["old"]) + " → " + cut(o.Details["new"])
	}
	for _, name := range details {
		if name != "old" && name != "new" {
			text += ", " + name + ": " + audit.Quote(o.Details[name])
		}
	}
	return text
}

func attested(v shell.View, f broker.FactSheet) string {
	how := map[string]string{
		"hardware": "hardware evidence", "kernel": "kernel evidence", "signed": "signed evidence",
		"ticket": "the one-time ticket of its task", "bearer": "a bearer token, which any holder can present",
	}[f.Sandbox.Class]
	if how == "" {
		how = "evidence of class " + f.Sandbox.Class
	}
	text := "attested " + shell.Span(v.Now.Sub(f.Sandbox.At)) + " ago by " + f.Sandbox.Attestor + ": " + how
	if f.Violations > 0 {
		text += fmt.Sprintf("; violations: %d", f.Violations)
	}
	return text
}

// quoted formats a name written by a runner, with invisible characters escaped.
func quoted(name string) string { return audit.Quote(agenttext.ShowLine(agenttext.From(name), 80)) }

func whyYou(v shell.View, r broker.Request) string {
	in := func(groups []string) []string {
		return slices.DeleteFunc(slices.Clone(r.Groups), func(g string) bool { return !slices.Contains(groups, g) })
	}
	mine := in(v.Who.Say(r.Scopes))
	switch {
	case !v.Who.Has(broker.RoleApprover) || len(in(v.Who.Groups)) == 0:
		return "you cannot decide this; members of " + strings.Join(r.Groups, ", ") + " can"
	case len(mine) == 0:
		return "you cannot decide this: you are in " + membership(v.Who.Principal, in(v.Who.Groups)) + ", and the request exceeds that"
	}
	text := "you are in " + membership(v.Who.Principal, mine)
	if r.Quorum > 1 {
		text += fmt.Sprintf("; %d different people must approve", r.Quorum)
	}
	return text
}

// membership lists groups of an approver, each with its limit on decisions, if it has one.
func membership(who broker.Principal, groups []string) string {
	var out []string
	for _, g := range groups {
		var to []string
		if limit, limited := who.Within[g]; limited {
			to = append(to, limit.String())
		} else {
			for _, b := range who.Bounds {
				to = append(to, b.String())
			}
		}
		if len(to) > 0 {
			g += ", which may decide " + strings.Join(to, " or ")
		}
		out = append(out, g)
	}
	return strings.Join(out, "; ")
}

// beforeOf describes earlier requests that are related to r, and their results.
func beforeOf(v shell.View, r broker.Request, others []broker.Request) []shell.Line {
	var out []shell.Line
	if f, err := r.Sheet(); err == nil && f.Then != nil && f.Then.Earlier.Asked > 0 {
		out = append(out, earlier(v, f.Then.Earlier))
	}
	if r.Asked > 1 {
		out = append(out, shell.Line{Label: "Repeated", Text: fmt.Sprintf("asked %d times, counted as one request", r.Asked), Warn: r.Asked > 2})
	}
	for _, o := range others {
		same := r.Scopes.Covers(o.Scopes) || o.Scopes.Covers(r.Scopes)
		if o.ID == r.ID || o.Provider != r.Provider || len(out) >= 4 || !same && !o.GrantUntil.After(v.Now) {
			continue
		}
		l := shell.Line{Label: "Before", Text: endOf(v, o), Path: "/requests/" + o.ID, Warn: o.State == broker.RequestDenied}
		if o.GrantUntil.After(v.Now) && (o.State == broker.RequestApproved || o.State == broker.RequestIssued) {
			l = shell.Line{Label: "Granted", Text: o.Granted.String() + " until " + shell.Clock(v, o.GrantUntil) + "; requests within it are covered by that grant and need no new approval", Path: "/requests/" + o.ID}
		}
		l.Text = shell.OneLine(l.Text) // the page of the request shows the whole text
		out = append(out, l)
	}
	return out
}

// earlier summarises how often the same was requested for the same owner.
func earlier(v shell.View, e broker.Earlier) shell.Line {
	text := fmt.Sprintf("the same for this owner, in the last 90 days: asked %d, approved %d, denied %d", e.Asked, e.Approved, e.Denied)
	if e.LastBy != "" {
		text += "; last " + string(e.Last) + " " + shell.Clock(v, e.LastAt) + " by " + e.LastBy
		if e.LastCode != "" {
			text += ": " + spoken(e.LastCode)
		}
	}
	return shell.Line{Label: "History", Text: text, Warn: e.Denied > 0}
}

// spoken returns the words of a reason.
func spoken(code broker.DenyCode) string { return strings.ReplaceAll(string(code), "_", " ") }

// endOf describes the state of a request: its result, who decided it, and when.
func endOf(v shell.View, r broker.Request) string {
	by := ""
	if n := len(r.Votes); n > 0 {
		by = " by " + r.Votes[n-1].By
	}
	switch r.State {
	case broker.RequestDenied:
		return "denied " + shell.Clock(v, r.DecidedAt) + by + ": " + spoken(r.Code)
	case broker.RequestApproved, broker.RequestIssued:
		return "approved " + shell.Clock(v, r.DecidedAt) + by + ": " + r.Granted.String() + " for " + shell.Span(r.GrantedTTL.Duration())
	case broker.RequestExpired:
		return "denied: no answer in time (no_answer)"
	case broker.RequestWithdrawn:
		return "withdrawn " + shell.Clock(v, r.DecidedAt)
	}
	return "waiting for an answer"
}

// outcome describes a request that no longer waits: the result, the people who decided it, and how
// long ago.
func outcome(v shell.View, r broker.Request) string {
	var by []string
	for _, vote := range r.Votes {
		switch {
		case vote.Approve == (r.State == broker.RequestDenied):
		case vote.By == v.Who.ID:
			by = slices.Insert(by, 0, "You")
		default:
			by = append(by, vote.By)
		}
	}
	who, ago := strings.Join(by, ", "), shell.Span(v.Now.Sub(r.DecidedAt))+" ago"
	switch r.State {
	case broker.RequestDenied:
		if who == "" {
			return "This request was denied " + ago + ": " + spoken(r.Code) + "."
		}
		return who + " denied this " + ago + ": " + spoken(r.Code) + "."
	case broker.RequestApproved, broker.RequestIssued:
		return who + " approved this " + ago + ": " + r.Granted.String() + " for " + shell.Span(r.GrantedTTL.Duration()) + "."
	case broker.RequestWithdrawn:
		return "This request was withdrawn " + ago + "."
	}
	return "This request was denied (no_answer), because no approver answered in time."
}
