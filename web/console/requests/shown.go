package requests

import (
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// shown is the page of a request as text. The page is rendered from it, and it is stored as JSON
// with the decision, so that the same page can be shown again later (B6).
type shown struct {
	Version string    `json:"page"` // of the console's templates and style
	At      time.Time `json:"at"`   // time of rendering
	For     string    `json:"for"`  // id of the visitor
	Request string    `json:"request"`
	Match   string    `json:"match_code"`
	Digest  string    `json:"digest"`

	Title   risk.Title   `json:"title"`
	Sum     string       `json:"sum,omitempty"` // of the amounts, if it is for one request only
	Length  string       `json:"length"`        // of the credential
	Level   risk.Level   `json:"level"`
	Undo    []string     `json:"undo,omitempty"`    // whether effects can be undone
	Reasons []string     `json:"reasons,omitempty"` // for the level
	Unread  string       `json:"unread,omitempty"`  // why it cannot be approved: the facts are not understood
	Rows    []shell.Row  `json:"rows"`              // the changes that an approval makes
	Summary []shell.Line `json:"summary,omitempty"` // the facts to decide by: owner, task, and every warning
	Lines   []shell.Line `json:"lines"`             // the other facts
	Before  []shell.Line `json:"before,omitempty"`  // earlier requests
	SQL     *sqlText     `json:"sql,omitempty"`     // the text that an approval allows once; nil = none
	Agent   words        `json:"agent"`
}

// sqlText is an SQL text, ready to be shown.
type sqlText struct {
	Lines []string `json:"lines"`
	Notes []string `json:"notes,omitempty"`
}

// sqlOf returns the SQL text that an approval of a content allows; nil = none.
func sqlOf(c *content.Facts) *sqlText {
	if !c.NeedsPeople() {
		return nil
	}
	lines, notes := agenttext.Code(agenttext.From(c.Text))
	out := &sqlText{Lines: lines}
	for _, n := range notes {
		out.Notes = append(out.Notes, n.Text)
	}
	if slices.ContainsFunc(c.Operations, func(o content.Operation) bool { return strings.HasPrefix(o.Object, "?.") }) {
		out.Notes = append(out.Notes, "The session decides which schema “?” is, for example by its search_path.")
	}
	return out
}

// words is the agent's text, ready to be shown.
type words struct {
	Text  string   `json:"text"`
	Notes []string `json:"notes,omitempty"`
	Rest  string   `json:"rest,omitempty"` // whole text, when it is longer than agentShown
	Count int      `json:"count"`          // code points
	Hash  string   `json:"sha256"`         // of the raw bytes
	// Withheld: the visitor may not read the agent's text.
	Withheld bool `json:"withheld,omitempty"`
}

// agentShown limits the agent text that is shown without a click, in code points.
const agentShown = 600

func wordsOf(u agenttext.Untrusted) words {
	text, notes := agenttext.Show(u, agentShown)
	w := words{Text: text, Count: u.Len(), Hash: u.Hash()}
	for _, n := range notes {
		w.Notes = append(w.Notes, n.Text)
	}
	if w.Count > agentShown {
		w.Rest, _ = agenttext.Show(u, 0)
	}
	return w
}

// show builds the page of r for the person of v.
func (ps *Pages) show(v shell.View, r broker.Request, before []broker.Request) shown {
	out := shown{
		Version: ps.shell.Version(), At: v.Now.UTC(), For: v.Who.ID, Request: r.ID, Match: r.Match, Digest: r.Digest,
		Title: risk.TitleOf(r.Scopes, r.Provider), Length: shell.Span(r.TTL.Duration()), Agent: wordsOf(r.Reason), Before: beforeOf(v, r, before),
	}
	out.Agent.Withheld = !report.ReadsWords(v.Who.Principal, r) && r.Reason.Len() == 0 // under break-glass the text is included
	f, err := r.Sheet()
	switch {
	case err != nil:
		out.Unread = broker.AsError(err).Public
	case !f.Understood():
		out.Unread = "ebb does not know what this scope allows. The request can be denied, not approved. Ask the operator of the provider."
	}
	if err != nil || f.Then == nil || f.Risk == nil || f.Effect == nil {
		out.Level = risk.High
		out.Rows = []shell.Row{{Field: "Scope", Asked: r.Scopes.String(), Changed: true}}
		out.Lines = []shell.Line{{Label: "Task", Text: r.TaskID, Name: true}, {Label: "Owner", Text: r.Owner, Name: true}}
		return out
	}
	switch {
	case f.Content.NeedsPeople(): // the credential is for its scope, too
		out.Length += ", and one SQL text once"
	case f.Content != nil:
		out.Length = "once, within " + out.Length
		if sum := provider.PolicyContent(f.Content).Amount; sum.Unit != "" {
			out.Sum = sum.String()
		}
	}
	out.Level, out.Undo = f.Risk.Level, undo(*f.Effect)
	for _, reason := range f.Risk.Top() {
		if reason.ID != "write" { // "Reversible" says the same
			out.Reasons = append(out.Reasons, reason.Text)
		}
	}
	for _, c := range f.Then.Changes {
		out.Rows = append(out.Rows, shell.Row{Field: fields[c.Field], Now: c.Now, Asked: c.Asked, Changed: c.Changed})
	}
	out.SQL = sqlOf(f.Content)
	out.Summary, out.Lines = linesOf(v, r, f)
	for _, l := range out.Before {
		if l.Warn {
			out.Summary = append(out.Summary, l)
		}
	}
	out.Before = slices.DeleteFunc(out.Before, func(l shell.Line) bool { return l.Warn })
	return out
}

// always are the rows that stay in view, because the title shortens them.
var always = []string{fields[risk.FieldPermission], fields[risk.FieldResource]}

// Changed returns the rows that an approval changes, and always the permission and the resources.
func (s shown) Changed() []shell.Row { return s.rows(true) }

// Same returns the other rows.
func (s shown) Same() []shell.Row { return s.rows(false) }

func (s shown) rows(changed bool) []shell.Row {
	return slices.DeleteFunc(slices.Clone(s.Rows), func(r shell.Row) bool { return (r.Changed || slices.Contains(always, r.Field)) != changed })
}

// undo tells whether effects of the credential can be undone, followed by the
// provider's sentences about it.
func undo(e risk.Effect) []string {
	out := []string{map[provider.Answer]string{provider.Yes: "Reversible: yes.", provider.No: "Reversible: no."}[e.Reversible]}
	if out[0] == "" {
		out[0] = "Reversible: unknown, assume no."
	}
	for _, s := range e.Sentences {
		// The sentence about reading is left out when the credential can also write.
		if e.Writes == provider.No || s != provider.Reading().Sentence {
			out[0] += " " + s
		}
	}
	return out
}

// fields are the labels of the rows of changes.
var fields = map[risk.Field]string{
	risk.FieldPermission: "Permission", risk.FieldResource: "Resource", risk.FieldAudience: "Used at", risk.FieldTime: "Lifetime", risk.FieldBinding: "Bound to",
}
