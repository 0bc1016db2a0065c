package console

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/agenttext"
	"ebb/broker/policyset"
	"ebb/scopes/policy"
)

// policyReaders see what is in force; of these, those who propose and audit see what is proposed.
var policyReaders = []broker.Role{broker.RoleApprover, broker.RoleAuditor, broker.RoleOperator}

// policyPage is the set in force, what is proposed, and what would happen.
type policyPage struct {
	Live     policyset.InForce
	Rules    []ruleRow
	Files    []fileText
	All      bool // drafts and releases, too
	Drafts   []policyset.Draft
	Releases []policyset.Release
	Older    int64 // releases before this one; 0 = none
	Writes   bool  // may begin a draft
	Ask      policyAsk
}

// ruleRow is one policy in a table.
type ruleRow struct {
	ID, Effect, Who, Time, Why, At string
	Tone                           string
}

func (s *Console) policy(c echo.Context, v *visit) error {
	in, err := s.b.PolicyInForce(v.Principal)
	if err != nil {
		return err
	}
	a := readAsked(c)
	before, _ := strconv.ParseInt(a.cursor("before"), 10, 64)
	ask := s.policyAsk(a)
	if err := a.done(); err != nil {
		return err
	}
	page := policyPage{Live: in, Files: textsOf(in.Files), All: v.Has(broker.RoleAuditor, broker.RoleOperator), Writes: v.Has(broker.RoleOperator)}
	// What is in force loaded; drawn without its table it is still whole.
	if set, err := policyset.Load(in.Files); err == nil {
		page.Rules = ruleRows(set.Outline())
	}
	ctx := c.Request().Context()
	if page.All {
		if page.Drafts, err = s.b.PolicyDrafts(ctx, v.Principal); err != nil {
			return err
		}
		if page.Releases, err = s.b.PolicyReleases(ctx, v.Principal, before); err != nil {
			return err
		}
		if n := len(page.Releases); n > 0 && page.Releases[n-1].Number > 1 {
			page.Older = page.Releases[n-1].Number
		}
	}
	status := http.StatusOK
	if ask.asked() {
		if status, err = s.answerAsk(ctx, v, &ask); err != nil {
			return err
		}
	}
	ask.Drafts = page.Drafts
	page.Ask = ask
	return s.draw(c, status, v, "policy", frame{Title: "Policy", Nav: "/policy"}, page)
}

// release is the page of a set that was published.
func (s *Console) release(c echo.Context, v *visit) error {
	n, err := strconv.ParseInt(c.Param("number"), 10, 64)
	if err != nil || n < 1 {
		return broker.E(broker.NotFound, "No policies were published under this number.", err)
	}
	r, err := s.b.PolicyRelease(c.Request().Context(), v.Principal, n)
	if err != nil {
		return err
	}
	return s.draw(c, http.StatusOK, v, "release", frame{Title: "Release " + strconv.FormatInt(n, 10), Nav: "/policy"},
		releasePage{r, textsOf(r.Files), v.Has(broker.RoleOperator), broker.SeenHash(r.Proof)})
}

type releasePage struct {
	policyset.Release
	Texts     []fileText
	Writes    bool
	ProofHash string // of Proof
}

func ruleRows(outline []policy.Outline) (rows []ruleRow) {
	for _, o := range outline {
		r := ruleRow{ID: agenttext.Name(o.ID), Effect: o.Effect, Who: "nobody", Why: agenttext.Name(o.Why), At: agenttext.Name(o.File) + ":" + strconv.Itoa(o.Line), Tone: "good", Time: "as asked"}
		if o.MaxTTL > 0 {
			r.Time = "at most " + span(o.MaxTTL)
		}
		if o.Egress {
			r.Time += ", through egress alone"
		}
		switch o.Effect {
		case policy.EffectAsk:
			r.Tone, r.Who = "warn", strconv.Itoa(max(o.Quorum, 1))+" of "+agenttext.Name(strings.Join(o.Ask, ", "))
		case policy.EffectForbid:
			r.Tone, r.Time, r.Who = "bad", "", ""
		}
		rows = append(rows, r)
	}
	return rows
}

// fileText is a policy file ready to be drawn: every line with its number, and nothing in
// it hides.
type fileText struct {
	Name  string
	Text  string
	Lines int
	Rest  int // lines that are not drawn
}

// maxLines is how many lines of a file a page draws.
const maxLines = 2000

func textsOf(files []policyset.File) (out []fileText) {
	for _, f := range files {
		lines := strings.Split(strings.TrimRight(f.Text, "\n"), "\n")
		t := fileText{Name: agenttext.Name(f.Name), Lines: len(lines), Rest: max(0, len(lines)-maxLines)}
		var b strings.Builder
		for i, line := range lines[:len(lines)-t.Rest] {
			n := strconv.Itoa(i + 1)
			b.WriteString(strings.Repeat(" ", max(0, 4-len(n))) + n + "  " + visible(line, "    ") + "\n")
		}
		t.Text = b.String()
		out = append(out, t)
	}
	return out
}

// visible is one line of policy text, whatever hides in it as its code. Tabs become tab.
func visible(line, tab string) string {
	parts := strings.Split(line, "\t")
	for i, p := range parts {
		parts[i] = agenttext.Name(p)
	}
	return strings.Join(parts, tab)
}

// editable is policy text as a form holds it: what hides is written out, so that it is
// seen and not kept.
func editable(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i, l := range lines {
		lines[i] = visible(l, "\t")
	}
	return strings.Join(lines, "\n")
}

// shortVersion is enough of a version to tell it from another on a page that also has it whole.
func shortVersion(v string) string { return v[:min(len(v), 12)] }

// sourceSays is where policies are from, in words.
func sourceSays(in policyset.InForce) string {
	switch {
	case in.Source == policyset.Files:
		return "files that this ebb watches: what is reviewed there is in force here"
	case in.Number > 0:
		return "release " + strconv.FormatInt(in.Number, 10) + ", published here"
	case in.Source == policyset.Database:
		return "what this ebb began with; nothing is published yet"
	}
	return "the starter policy, built in"
}

// minutesOf reads a whole number of minutes.
func minutesOf(text string, otherwise time.Duration) (time.Duration, bool) {
	if text == "" {
		return otherwise, true
	}
	n, err := strconv.Atoi(text)
	return time.Duration(n) * time.Minute, err == nil && n >= 1 && n <= 24*60
}
