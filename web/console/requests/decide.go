package requests

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/scopes/policy"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
	"github.com/ebb-broker/ebb/web/console/passkey"
	"github.com/ebb-broker/ebb/web/console/proof"
)

// decideRoute receives every decide form. It differs from other forms in two ways: denying works
// while the LiveStore is unavailable, and after a failure the page shows the typed input again.
func (ps *Pages) decideRoute() shell.Route {
	return shell.Route{Route: web.Route{Method: http.MethodPost, Path: "/requests/:id/decide"}, Handler: ps.shell.Guarded(ps.decide)}
}

func (ps *Pages) decide(c echo.Context) error {
	if err := ps.shell.Ours(c.Request()); err != nil {
		return err
	}
	form := c.Request().PostForm
	in := typedOf(form)
	v, err := ps.shell.Visit(c)
	if err != nil {
		return ps.lost(c, in, err)
	}
	ctx, id := c.Request().Context(), c.Param("id")
	r, err := ps.b.Request(ctx, v.Principal, id)
	if broker.AsError(err) != nil && broker.AsError(err).Kind == broker.Unavailable {
		return ps.lost(c, in, err)
	}
	if err != nil {
		return err
	}
	if err := ps.mayDecide(c, v, r, in.Choice); err != nil {
		return err
	}
	redraw := func(status int, problems map[string]string) error {
		return ps.drawRequest(c, status, v, r, in, problems)
	}
	if err := ps.shell.Gate(c, v, in.Choice == proof.ChoiceDeny); err != nil {
		e := broker.AsError(err)
		if e.Kind == broker.Forbidden || e.Kind == broker.Invalid {
			return err
		}
		return redraw(web.Lookup(e.Kind).Status, map[string]string{"": e.Public})
	}
	if form.Has("check") { // the button of a browser without JavaScript
		_, _, problems := narrower(r, in)
		return redraw(http.StatusOK, problems)
	}
	verdict, problems := ps.verdict(v, r, in, form)
	if len(problems) > 0 {
		return redraw(http.StatusUnprocessableEntity, problems)
	}
	level := r.Level()
	if in.Choice == proof.ChoiceAlone { // break-glass always needs the proofs of high risk
		level = risk.High
	}
	answer := passkey.Decision{Request: r.ID, Choice: in.Choice, Digest: verdict.Digest}
	if in.Choice == proof.ChoiceNarrow {
		answer.Scope, answer.TTL = verdict.Scopes.String(), int64(verdict.TTL)
	}
	if err := ps.proofs.StepUp(c, v, level, r.CreatedAt, &verdict, answer); err != nil {
		e := broker.AsError(err)
		return redraw(web.Lookup(e.Kind).Status, map[string]string{"": e.Public})
	}
	if _, err := ps.b.Decide(ctx, v.Principal, id, verdict); err != nil {
		return ps.undecided(c, v, r, in, err)
	}
	return ps.shell.Redirect(c, "/requests/"+id)
}

// mayDecide returns why the person may not give this answer, or nil when they may.
func (ps *Pages) mayDecide(c echo.Context, v *session.Visit, r broker.Request, choice string) error {
	if choice != proof.ChoiceAlone {
		return broker.MayDecide(v.Principal, r)
	}
	g, _, err := ps.b.OpenBreakGlass(c.Request().Context(), v.Principal)
	if err != nil {
		return err
	}
	return approval.MayDecideAlone(v.Principal, r, g, v.Now)
}

// targetFields are the form fields, by choice, that show the error about a wrong target name.
var targetFields = map[string]string{proof.ChoiceApprove: "target", proof.ChoiceNarrow: "narrow-target", proof.ChoiceAlone: "alone"}

// verdict reads the form into a Verdict, or returns the problems by form field.
func (ps *Pages) verdict(v *session.Visit, r broker.Request, in typed, form url.Values) (broker.Verdict, map[string]string) {
	problems := map[string]string{}
	out := broker.Verdict{Digest: form.Get("digest"), Note: in.Note}
	seen, raw, err := ps.openShown(v, r.ID, form.Get("seen"))
	if err == nil {
		out.Snapshot, out.ShownAt = raw, seen.At
	}
	if utf8.RuneCountInString(in.Note) > 500 {
		problems["note"] = "At most 500 characters."
	}
	switch in.Choice {
	case proof.ChoiceDeny:
		out.Code = broker.DenyCode(in.Code)
		if !slices.ContainsFunc(codes, func(c code) bool { return c.Code == out.Code }) {
			problems["code"] = "Choose a reason."
		}
		if err != nil || out.Digest != seen.Digest {
			out.Digest, out.Snapshot, out.ShownAt = "", "", time.Time{} // a denial applies to the current facts
		}
		return out, problems
	case proof.ChoiceNarrow:
		var wrong map[string]string
		out.Scopes, out.TTL, wrong = narrower(r, in)
		maps.Copy(problems, wrong)
	case proof.ChoiceApprove:
	case proof.ChoiceAlone:
		if out.BreakGlass = form.Get("glass"); out.BreakGlass == "" { // without the id the broker would treat this as an ordinary approval
			problems[""] = "The form names no break-glass period. Reload the page and send your answer again."
		}
	default:
		problems[""] = "The form names no answer. Use one of the buttons of the page."
	}
	switch {
	case seen.Unread != "":
		problems[""] = seen.Unread
	case err != nil, seen.Digest != out.Digest:
		problems[""] = "The snapshot of the page that you saw cannot be read any more. Reload the page and send your answer again."
	}
	out.Approve, out.Target = true, in.Target
	if field, ok := targetFields[in.Choice]; ok && slices.Contains(ps.b.MissingProofs(r, out), broker.MissingTarget) {
		problems[field] = "Type the name exactly as it is shown."
	}
	return out, problems
}

// undecided shows why the broker did not take the decision.
func (ps *Pages) undecided(c echo.Context, v *session.Visit, r broker.Request, in typed, err error) error {
	e, ctx := broker.AsError(err), c.Request().Context()
	ev := web.EventOf(c)
	ev.Kind, ev.Cause = e.Kind, e.Cause
	status := web.Lookup(e.Kind).Status
	if errors.Is(err, broker.ErrStale) {
		return ps.stale(c, v, r, e)
	}
	if now, err := ps.b.Request(ctx, v.Principal, r.ID); err == nil {
		r = now
	}
	if e.Kind == broker.Invalid || e.Kind == broker.InvalidScope {
		status = http.StatusUnprocessableEntity
	}
	return ps.drawRequest(c, status, v, r, in, map[string]string{"": e.Public})
}

type stalePage struct {
	Shown  shown
	Detail string
	Rows   []shell.Row
}

// stale shows which facts have changed since the page was drawn. No decision was made.
func (ps *Pages) stale(c echo.Context, v *session.Visit, r broker.Request, e *broker.Error) error {
	page := stalePage{Shown: shown{Request: r.ID, Title: risk.TitleOf(r.Scopes, r.Provider), Match: r.Match}, Detail: e.Public}
	effect, again, err := ps.b.Again(c.Request().Context(), v.Principal, r.ID)
	switch {
	case err != nil:
		page.Rows = []shell.Row{{Field: "Task", Now: "running", Asked: broker.AsError(err).Public, Changed: true}}
	case effect != policy.Ask || again.Digest != r.Digest:
		page.Rows = changes(r, effect, again)
	}
	return ps.shell.Draw(c, http.StatusConflict, v, "stale", shell.Frame{Title: "The facts have changed", Nav: "/queue"}, page)
}

type lostPage struct {
	Action, Detail string
	SignIn         bool
	Typed          typed
	Fields         url.Values
}

// lost shows the typed input to a person whose session has expired or cannot be
// read at the moment, so that they can send it again.
func (ps *Pages) lost(c echo.Context, in typed, err error) error {
	e := broker.AsError(err)
	page := lostPage{Action: ps.shell.Base() + "/requests/" + url.PathEscape(c.Param("id")) + "/decide", Detail: e.Public, SignIn: e.Kind == broker.Unauthenticated, Typed: in, Fields: url.Values{}}
	for name, values := range c.Request().PostForm {
		if slices.Contains([]string{"choice", "code", "note", "scope", "minutes", "target", "keep[]"}, name) || strings.HasPrefix(name, within) {
			page.Fields[name] = values
		}
	}
	status := web.Lookup(e.Kind).Status
	return ps.shell.Draw(c, status, nil, "lost", shell.Frame{Title: "No decision was made; your input is kept"}, page)
}

// challenge returns what the passkey signs for one answer. For a narrowed
// approval it contains the scope and lifetime that the form has at this moment.
func (ps *Pages) challenge(c echo.Context, v *session.Visit) error {
	q := c.QueryParams()
	d := passkey.Decision{Request: c.Param("id"), Choice: q.Get("choice"), Digest: q.Get("digest")}
	r, err := ps.toSign(c, v, d)
	if err != nil {
		return err
	}
	if d.Choice == proof.ChoiceNarrow {
		set, ttl, problems := narrower(r, typedOf(q))
		if len(problems) > 0 {
			return broker.E(broker.Invalid, "The narrowed approval is not valid, so there is nothing to sign. Send the form; the page then shows the errors.", nil)
		}
		d.Scope, d.TTL = set.String(), int64(ttl)
	}
	return ps.proofs.Ask(c, v, []passkey.Decision{d})
}

// toSign returns the request of an answer, if the visitor may give that answer.
func (ps *Pages) toSign(c echo.Context, v *session.Visit, d passkey.Decision) (broker.Request, error) {
	if err := ps.proofs.Available(); err != nil {
		return broker.Request{}, err
	}
	r, err := ps.b.Request(c.Request().Context(), v.Principal, d.Request)
	if err != nil {
		return r, err
	}
	return r, ps.mayDecide(c, v, r, d.Choice)
}

// again redirects to the identity provider, which returns to the request.
func (ps *Pages) again(c echo.Context, v *session.Visit) error {
	return ps.proofs.SignInAgain(c, v, "/requests/"+url.PathEscape(c.Param("id")), "")
}
