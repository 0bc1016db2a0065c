package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/risk"
	"ebb/scopes"
	"ebb/scopes/policy"
	"ebb/web"
	"ebb/web/console/passkey"
)

// decideRoute is where every decide form goes. It is not a form like the others: a no
// works although the ledger does not answer, and whatever fails, what was typed is drawn
// again.
func (s *Console) decideRoute() route {
	return route{web.Route{Method: http.MethodPost, Path: "/requests/:id/decide"}, s.guarded(s.decide)}
}

func (s *Console) decide(c echo.Context) error {
	if err := s.ours(c.Request()); err != nil {
		return err
	}
	form := c.Request().PostForm
	in := typed{form.Get("choice"), form.Get("code"), form.Get("note"), form.Get("scope"), form.Get("minutes"), form.Get("target")}
	if part := form.Get("part"); part != "" { // one of the parts that the page offers, instead of what was typed
		in.Scope = part
	}
	v, err := s.visit(c, false)
	if err != nil {
		return s.lost(c, in, err)
	}
	ctx, id := c.Request().Context(), c.Param("id")
	r, err := s.b.Request(ctx, v.Principal, id)
	if broker.AsError(err) != nil && broker.AsError(err).Kind == broker.Unavailable {
		return s.lost(c, in, err)
	}
	if err != nil {
		return err
	}
	if err := s.mayDecide(c, v, r, in.Choice); err != nil {
		return err
	}
	redraw := func(status int, problems map[string]string) error {
		return s.drawRequest(c, status, v, r, in, problems)
	}
	if err := s.gate(c, v, in.Choice == choiceDeny); err != nil {
		e := broker.AsError(err)
		if e.Kind == broker.Forbidden || e.Kind == broker.Invalid {
			return err
		}
		return redraw(web.Lookup(e.Kind).Status, map[string]string{"": e.Public})
	}
	verdict, problems := s.verdict(v, r, in, form)
	if len(problems) > 0 {
		return redraw(http.StatusUnprocessableEntity, problems)
	}
	level := r.Level()
	if in.Choice == choiceAlone { // as strictly as there is, whatever the risk
		level = risk.High
	}
	answer := passkey.Decision{Request: r.ID, Choice: in.Choice, Digest: verdict.Digest}
	if in.Choice == choiceNarrow {
		answer.Scope, answer.TTL = verdict.Scopes.String(), int64(verdict.TTL)
	}
	if err := s.stepUp(c, v, level, r.CreatedAt, &verdict, answer); err != nil {
		e := broker.AsError(err)
		return redraw(web.Lookup(e.Kind).Status, map[string]string{"": e.Public})
	}
	if _, err := s.b.Decide(ctx, v.Principal, id, verdict); err != nil {
		return s.undecided(c, v, r, in, err)
	}
	return s.redirect(c, "/requests/"+id)
}

// mayDecide is why a person may not give this answer; nil = they may.
func (s *Console) mayDecide(c echo.Context, v *visit, r broker.Request, choice string) error {
	if choice != choiceAlone {
		return broker.MayDecide(v.Principal, r)
	}
	g, _, err := s.b.OpenBreakGlass(c.Request().Context(), v.Principal)
	if err != nil {
		return err
	}
	return broker.MayDecideAlone(v.Principal, r, g, v.now)
}

// targetFields are the keys, by choice, under which a form draws the problem of a wrong name.
var targetFields = map[string]string{choiceApprove: "target", choiceNarrow: "narrow-target", choiceAlone: "alone"}

// verdict is what a form says, or by field what it lacks.
func (s *Console) verdict(v *visit, r broker.Request, in typed, form url.Values) (broker.Verdict, map[string]string) {
	problems := map[string]string{}
	out := broker.Verdict{Digest: form.Get("digest"), Note: in.Note}
	seen, raw, err := s.openShown(v, r.ID, form.Get("seen"))
	if err == nil {
		out.Seen = raw
	}
	if utf8.RuneCountInString(in.Note) > 500 {
		problems["note"] = "At most 500 characters."
	}
	switch in.Choice {
	case choiceDeny:
		out.Code = broker.DenyCode(in.Code)
		if !slices.ContainsFunc(codes, func(c code) bool { return c.Code == out.Code }) {
			problems["code"] = "Say why: choose one."
		}
		if splitWords(in.Note) == "" {
			problems["note"] = "Tell the agent in a few words what would be better."
		}
		if err != nil || out.Digest != seen.Digest {
			out.Digest, out.Seen = "", "" // a no is for the facts as they are
		}
		return out, problems
	case choiceNarrow:
		out.Scopes, out.TTL = narrower(r, in, problems)
	case choiceApprove:
	case choiceAlone:
		if out.BreakGlass = form.Get("glass"); out.BreakGlass == "" { // without it the broker would take this for an ordinary yes
			problems[""] = "Your page names no break-glass. Look again, and send it once more."
		}
	default:
		problems[""] = "Choose one of the buttons."
	}
	switch {
	case seen.Unread != "":
		problems[""] = seen.Unread
	case err != nil, seen.Digest != out.Digest:
		problems[""] = "What your page showed cannot be read any more. Look again, and send it once more."
	}
	out.Approve, out.Target = true, in.Target
	if field, ok := targetFields[in.Choice]; ok && slices.Contains(s.b.MissingProofs(r, out), broker.MissingTarget) {
		problems[field] = "Type the name exactly as it stands above."
	}
	return out, problems
}

// narrower reads the smaller yes.
func narrower(r broker.Request, in typed, problems map[string]string) (scopes.Set, broker.Seconds) {
	set, err := scopes.ParseSet(splitWords(in.Scope))
	switch {
	case err != nil:
		problems["scope"] = "This is no scope: " + oneLine(err.Error()) + "."
	case set.Empty():
		problems["scope"] = "Name at least one scope, or deny."
	case !r.Scopes.Covers(set):
		problems["scope"] = "This is more than what is asked. An approval may narrow it, never widen it."
	}
	most := r.TTL.Duration()
	n, err := strconv.Atoi(in.Minutes)
	switch {
	case err != nil || n < 1 || time.Duration(n) > most/time.Minute+1:
		problems["minutes"] = "A whole number of minutes, from 1 to " + strconv.Itoa(int((most+time.Minute-1)/time.Minute)) + "."
	case len(problems) == 0 && set.Equal(r.Scopes) && time.Duration(n)*time.Minute >= most:
		problems["scope"] = "This is all that is asked. Make it smaller, or approve as asked."
	}
	return set, broker.Seconds(min(time.Duration(n)*time.Minute, most) / time.Second)
}

// undecided draws why the broker took no decision.
func (s *Console) undecided(c echo.Context, v *visit, r broker.Request, in typed, err error) error {
	e, ctx := broker.AsError(err), c.Request().Context()
	ev := web.EventOf(c)
	ev.Kind, ev.Cause = e.Kind, e.Cause
	status := web.Lookup(e.Kind).Status
	if errors.Is(err, broker.ErrStale) {
		return s.stale(c, v, r, e)
	}
	if now, err := s.b.Request(ctx, v.Principal, r.ID); err == nil {
		r = now
	}
	if e.Kind == broker.Invalid || e.Kind == broker.InvalidScope {
		status = http.StatusUnprocessableEntity
	}
	return s.drawRequest(c, status, v, r, in, map[string]string{"": e.Public})
}

type stalePage struct {
	Shown  shown
	Detail string
	Rows   []row
}

// stale draws what has changed since the person looked. Nothing was decided.
func (s *Console) stale(c echo.Context, v *visit, r broker.Request, e *broker.Error) error {
	page := stalePage{Shown: shown{Request: r.ID, Title: risk.TitleOf(r.Scopes, r.Provider), Match: r.Match}, Detail: e.Public}
	effect, again, err := s.b.Again(c.Request().Context(), v.Principal, r.ID)
	switch {
	case err != nil:
		page.Rows = []row{{Field: "Task", Now: "running", Asked: broker.AsError(err).Public, Changed: true}}
	case effect != policy.Ask || again.Digest != r.Digest:
		page.Rows = changes(r, effect, again)
	}
	return s.draw(c, http.StatusConflict, v, "stale", frame{Title: "The facts have changed", Nav: "/queue"}, page)
}

type lostPage struct {
	Action, Detail string
	SignIn         bool
	Typed          typed
	Fields         map[string]string
}

// lost shows what was typed to somebody whom ebb does not know any more, or cannot know
// at the moment: nothing is gone.
func (s *Console) lost(c echo.Context, in typed, err error) error {
	e := broker.AsError(err)
	page := lostPage{Action: s.mux.Base() + "/requests/" + url.PathEscape(c.Param("id")) + "/decide", Detail: e.Public, SignIn: e.Kind == broker.Unauthenticated, Typed: in, Fields: map[string]string{}}
	form := c.Request().PostForm
	for _, name := range []string{"choice", "code", "note", "scope", "minutes", "target"} {
		if x := form.Get(name); x != "" {
			page.Fields[name] = x
		}
	}
	status := web.Lookup(e.Kind).Status
	return s.draw(c, status, nil, "lost", frame{Title: "Nothing was decided, nothing is lost"}, page)
}
