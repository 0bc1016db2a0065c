package requests

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
	"github.com/ebb-broker/ebb/web/console/proof"
)

// within is the prefix of the form fields that narrow the resource of one requested scope.
const within = "within-"

// typed is the input of a decide form.
type typed struct {
	Choice, Code, Note, Scope, Minutes, Target string

	// Keep holds the numbers of the requested scopes that stay, and Within, by number, the
	// resources that they are narrowed to. Both count if Scope is empty.
	Keep   []string
	Within map[string]string
}

// typedOf reads a decide form, or the query that a page sends while a person types.
func typedOf(form url.Values) typed {
	in := typed{
		Choice: form.Get("choice"), Code: form.Get("code"), Note: form.Get("note"), Scope: form.Get("scope"), Minutes: form.Get("minutes"), Target: form.Get("target"),
		Keep: form["keep[]"], Within: map[string]string{},
	}
	if part := form.Get("part"); part != "" { // a scope that the page offered replaces the typed one
		in.Scope = part
	}
	for name := range form {
		if n, is := strings.CutPrefix(name, within); is {
			in.Within[n] = strings.TrimSpace(form.Get(name))
		}
	}
	return in
}

// narrowForm is the form of a narrowed approval.
type narrowForm struct {
	Scope   string // as requested
	Keep    []keep
	Parts   []part // suggested narrowed scopes, when there are several
	Hint    string // the origin of the suggestion
	Lengths []int  // suggested minutes
	Remains string // what the input grants; "" = the input has problems
	Open    bool   // the form has input, or problems
}

// keep is one requested scope, which the person keeps, narrows or drops.
type keep struct {
	N        string
	Title    risk.Title
	Resource string
	Kept     bool
	Pattern  bool   // the resource is a pattern, so it can be narrowed
	Within   string // the narrower resource; "" = the whole
}

// part is a suggested narrowed scope and the reason for it.
type part struct {
	Scope, Why string
	set        scopes.Set
}

// parts returns the suggested narrowed scopes: the largest that policy grants
// without approval, and the part whose effects can be undone.
func parts(r broker.Request) []part {
	f, err := r.Sheet()
	if err != nil {
		return nil
	}
	var out []part
	for _, p := range []struct {
		of  scopes.Set
		why string
	}{{f.WouldAllow, "the part that policy grants without approval"}, {f.Undoable, "the part whose effects can be undone"}} {
		set := r.Scopes.Narrow(p.of)
		known := slices.ContainsFunc(out, func(o part) bool { return o.Scope == set.String() })
		if !set.Empty() && !set.Equal(r.Scopes) && !known {
			out = append(out, part{set.String(), p.why, set})
		}
	}
	return out
}

// narrowFormOf returns the form of a narrowed approval, with a suggestion in its empty fields.
// With several suggestions the person chooses one.
func narrowFormOf(r broker.Request, in typed, problems map[string]string) (typed, narrowForm) {
	most := minutesOf(r)
	form := narrowForm{Scope: r.Scopes.String(), Open: in.Choice == proof.ChoiceNarrow}
	suggested := r.Scopes
	switch offered := parts(r); len(offered) {
	case 0:
		form.Hint = "The suggestion is the same scope for half the time."
	case 1:
		form.Hint = "The suggestion is " + offered[0].Why + ", for half the time."
		suggested = offered[0].set
	default:
		form.Parts = offered
	}
	if form.Open {
		if _, _, wrong := narrower(r, in); len(wrong) == 0 {
			form.Remains = remains(r, in)
		}
	} else {
		in.Keep, in.Within = keeping(r.Scopes, suggested)
		in.Minutes = strconv.Itoa(max(1, most/2))
	}
	for _, n := range []int{1, 5, 10, 15, 30, 60, most} {
		if n <= most && !slices.Contains(form.Lengths, n) {
			form.Lengths = append(form.Lengths, n)
		}
	}
	for i, s := range r.Scopes.Scopes() {
		n := strconv.Itoa(i)
		form.Keep = append(form.Keep, keep{
			N: n, Title: titleOf(s), Resource: s.Resource(), Kept: slices.Contains(in.Keep, n),
			Pattern: strings.Contains(s.Resource(), scopes.Any), Within: in.Within[n],
		})
	}
	return in, form
}

func titleOf(s scopes.Scope) risk.Title {
	set, err := scopes.NewSet(s)
	if err != nil { // one valid scope is a set
		return risk.Title{}
	}
	return risk.TitleOf(set, s.Provider())
}

// keeping returns the values of the form fields that narrow the requested scopes, all, to set: the
// numbers of the kept scopes, and by number their narrower resources. Each scope of set must be
// covered by a scope of all. If two scopes of set narrow the same scope of all, the fields cannot
// express set, and keeping returns the values that keep all.
func keeping(all, set scopes.Set) (kept []string, narrowed map[string]string) {
	narrowed = map[string]string{}
	for i, s := range all.Scopes() {
		n := strconv.Itoa(i)
		for _, part := range set.Scopes() {
			if !s.Covers(part) {
				continue
			}
			if slices.Contains(kept, n) || part.Action() != s.Action() {
				return numbers(all), map[string]string{}
			}
			kept = append(kept, n)
			if part.Resource() != s.Resource() {
				narrowed[n] = part.Resource()
			}
		}
	}
	return kept, narrowed
}

func numbers(all scopes.Set) (out []string) {
	for i := range all.Scopes() {
		out = append(out, strconv.Itoa(i))
	}
	return out
}

// minutesOf returns the lifetime that was requested, in minutes, rounded up.
func minutesOf(r broker.Request) int {
	return int((r.TTL.Duration() + time.Minute - 1) / time.Minute)
}

// narrower reads the scopes and the lifetime of a narrowed approval, or returns the problems by
// form field.
func narrower(r broker.Request, in typed) (set scopes.Set, ttl broker.Seconds, problems map[string]string) {
	problems = map[string]string{}
	if in.Scope != "" {
		set = typedScope(r, in.Scope, problems)
	} else {
		set = keptScope(r, in, problems)
	}
	most := r.TTL.Duration()
	n, err := strconv.Atoi(in.Minutes)
	switch {
	case err != nil || n < 1 || time.Duration(n) > most/time.Minute+1:
		problems["minutes"] = fmt.Sprintf("Enter a whole number of minutes, from 1 to %d.", minutesOf(r))
	case len(problems) == 0 && set.Equal(r.Scopes) && time.Duration(n)*time.Minute >= most:
		problems["scope"] = "This is the whole request. Narrow the scope or the time, or approve as requested."
	}
	return set, broker.Seconds(min(time.Duration(n)*time.Minute, most) / time.Second), problems
}

// typedScope reads a scope that was typed as text.
func typedScope(r broker.Request, text string, problems map[string]string) scopes.Set {
	set, err := scopes.ParseSet(splitWords(text))
	switch {
	case err != nil:
		problems["scope"] = "The scope is invalid: " + shell.OneLine(err.Error()) + "."
	case set.Empty():
		problems["scope"] = "Enter at least one scope, or deny the request."
	case !r.Scopes.Covers(set):
		problems["scope"] = "This exceeds the requested scope. An approval can narrow a request, never widen it."
	}
	return set
}

// keptScope returns the requested scopes that the person keeps, each with its narrower resource.
func keptScope(r broker.Request, in typed, problems map[string]string) scopes.Set {
	var kept []scopes.Scope
	for i, s := range r.Scopes.Scopes() {
		n := strconv.Itoa(i)
		if !slices.Contains(in.Keep, n) {
			continue
		}
		if resource := in.Within[n]; resource != "" {
			narrowed, err := scopes.New(s.Provider(), resource, s.Action())
			switch {
			case err != nil:
				problems[within+n] = "The resource is invalid: " + shell.OneLine(err.Error()) + "."
				continue
			case !s.Covers(narrowed):
				problems[within+n] = "This resource is not a part of " + s.Resource() + "."
				continue
			}
			s = narrowed
		}
		kept = append(kept, s)
	}
	if len(problems) > 0 {
		return scopes.Set{}
	}
	set, err := scopes.NewSet(kept...)
	if err != nil || set.Empty() {
		problems["scope"] = "Keep at least one permission, or deny the request."
	}
	return set
}

// remains returns the sentence that states the scopes and the time of a narrowed approval.
func remains(r broker.Request, in typed) string {
	set, ttl, _ := narrower(r, in)
	var does []string
	for _, s := range set.Scopes() {
		t := titleOf(s)
		does = append(does, strings.ToLower(t.Verb)+" "+t.Target)
	}
	return "You would approve for " + shell.Span(ttl.Duration()) + ": " + strings.Join(does, ", ") + "."
}

// narrowed is the response to a page in which a person types a narrowed approval.
type narrowed struct {
	Remains  string            `json:"remains"` // "" = there are problems
	Problems map[string]string `json:"problems"`
}

// narrow returns what the typed narrowed approval would grant.
func (ps *Pages) narrow(c echo.Context, v *session.Visit) error {
	r, err := ps.b.Request(c.Request().Context(), v.Principal, c.Param("id"))
	if err != nil {
		return err
	}
	in := typedOf(c.QueryParams())
	out := narrowed{}
	if _, _, out.Problems = narrower(r, in); len(out.Problems) == 0 {
		out.Remains = remains(r, in)
	}
	return c.JSON(http.StatusOK, out)
}

// splitWords joins a scope typed over several lines into one scope value.
func splitWords(text string) string { return strings.Join(strings.Fields(text), " ") }
