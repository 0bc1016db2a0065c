package policies

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/scopes/policy"
	"github.com/ebb-broker/ebb/web/console/internal/list"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// policyPage shows the policies in force, drafts, releases, and the form to test a request.
type policyPage struct {
	Live     policyset.InForce
	Rules    []ruleRow
	Files    []fileText
	All      bool // the visitor may see drafts and releases
	Drafts   []policyset.Draft
	Releases []policyset.Release
	Older    int64 // releases before this one; 0 = none
	Writes   bool  // the visitor may create a draft
	Ask      policyAsk
}

// ruleRow is one policy in a table.
type ruleRow struct {
	ID, Effect, Who, Time, Why, At string
	Tone                           string
}

func (ps *Pages) policy(c echo.Context, v *session.Visit) error {
	in, err := ps.Broker.PolicyInForce(v.Principal)
	if err != nil {
		return err
	}
	a := list.ReadQuery(c)
	before, _ := strconv.ParseInt(a.Cursor("before"), 10, 64)
	ask := ps.policyAsk(a)
	if err := a.Done(); err != nil {
		return err
	}
	page := policyPage{Live: in, Files: textsOf(in.Files), All: v.Has(broker.RoleAuditor, broker.RoleOperator), Writes: v.Has(broker.RoleOperator)}
	// The policies in force have loaded before. If they do not load here, the
	// page shows their text without the table.
	if set, err := policyset.Load(in.Files); err == nil {
		page.Rules = ruleRows(set.Outline())
	}
	ctx := c.Request().Context()
	if page.All {
		if page.Drafts, err = ps.Broker.PolicyDrafts(ctx, v.Principal); err != nil {
			return err
		}
		if page.Releases, err = ps.Broker.PolicyReleases(ctx, v.Principal, before); err != nil {
			return err
		}
		if n := len(page.Releases); n > 0 && page.Releases[n-1].Number > 1 {
			page.Older = page.Releases[n-1].Number
		}
	}
	status := http.StatusOK
	if ask.asked() {
		if status, err = ps.answerAsk(ctx, v, &ask); err != nil {
			return err
		}
	}
	ask.Drafts = page.Drafts
	page.Ask = ask
	return ps.Shell.Draw(c, status, v, "policy", shell.Frame{Title: "Policy", Nav: "/policy"}, page)
}

// release shows a published policy set.
func (ps *Pages) release(c echo.Context, v *session.Visit) error {
	n, err := strconv.ParseInt(c.Param("number"), 10, 64)
	if err != nil || n < 1 {
		return broker.E(broker.NotFound, "No policies were published under this number.", err)
	}
	r, err := ps.Broker.PolicyRelease(c.Request().Context(), v.Principal, n)
	if err != nil {
		return err
	}
	return ps.Shell.Draw(c, http.StatusOK, v, "release", shell.Frame{Title: "Release " + strconv.FormatInt(n, 10), Nav: "/policy"},
		releasePage{r, textsOf(r.Files), v.Has(broker.RoleOperator), broker.TextHash(r.Proof)})
}

type releasePage struct {
	policyset.Release
	Texts     []fileText
	Writes    bool
	ProofHash string // SHA-256 of Proof
}

func ruleRows(outline []policy.Outline) (rows []ruleRow) {
	for _, o := range outline {
		r := ruleRow{ID: agenttext.Name(o.ID), Effect: o.Effect, Who: "no approval", Why: agenttext.Name(o.Why), At: agenttext.Name(o.File) + ":" + strconv.Itoa(o.Line), Tone: "good", Time: "as requested"}
		if o.MaxTTL > 0 {
			r.Time = "at most " + shell.Span(o.MaxTTL)
		}
		if o.MaxAmount != nil {
			r.Time += ", spending at most " + o.MaxAmount.String()
		}
		if o.Egress {
			r.Time += ", through egress only"
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

// fileText is a policy file for display: numbered lines with invisible characters escaped.
type fileText struct {
	Name  string
	Text  string
	Lines int
	Rest  int // number of lines not shown
}

// maxLines limits the lines of a file on a page.
const maxLines = 2000

func textsOf(files []policyset.File) (out []fileText) {
	for _, f := range files {
		lines := strings.Split(strings.TrimRight(f.Text, "\n"), "\n")
		t := fileText{Name: agenttext.Name(f.Name), Lines: len(lines), Rest: max(0, len(lines)-maxLines)}
		var b strings.Builder
		for i, line := range lines[:len(lines)-t.Rest] {
			n := strconv.Itoa(i + 1)
			b.WriteString(strings.Repeat(" ", max(0, 4-len(n))) + n + "  " + shell.Visible(line, "    ") + "\n")
		}
		t.Text = b.String()
		out = append(out, t)
	}
	return out
}

// shortVersion returns the first 12 characters of a version, for pages that
// also show the whole version.
func shortVersion(v string) string { return v[:min(len(v), 12)] }

// sourceSays describes where the policies in force come from.
func sourceSays(in policyset.InForce) string {
	switch {
	case in.Source == policyset.Files:
		return "policy files that this ebb watches"
	case in.Number > 0:
		return "release " + strconv.FormatInt(in.Number, 10) + ", published here"
	case in.Source == policyset.Database:
		return "the policies at the first start; none has been published yet"
	}
	return "the built-in starter policy"
}

// minutesOf parses a whole number of minutes from 1 to 1440.
func minutesOf(text string, otherwise time.Duration) (time.Duration, bool) {
	if text == "" {
		return otherwise, true
	}
	n, err := strconv.Atoi(text)
	return time.Duration(n) * time.Minute, err == nil && n >= 1 && n <= 24*60
}
