package requests

import (
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/console/internal/session"
)

// throttledCard is a throttled task: one card in the queue for all its requests.
type throttledCard struct {
	approval.Throttled
	Name string
	heldTyped
}

// heldTyped is the typed input of the forms on one card, with the problems by form field.
type heldTyped struct {
	Task       string
	Code, Note string
	Problems   map[string]string
}

// Focus reports whether the page puts the focus on this field after a rejected form.
func (h heldTyped) Focus(field string) bool { return h.Problems[field] != "" }

func (ps *Pages) throttledCards(c echo.Context, v *session.Visit, mine bool, in heldTyped) ([]throttledCard, error) {
	held, err := ps.b.Throttled(c.Request().Context(), v.Principal, mine)
	if err != nil {
		return nil, err
	}
	var out []throttledCard
	for _, h := range held {
		card := throttledCard{Throttled: h, Name: agenttext.ShowLine(agenttext.From(h.Name), 80)}
		if in.Task == h.ID {
			card.heldTyped = in
		}
		out = append(out, card)
	}
	return out, nil
}

// denyAll denies all requests of a task that wait for this person. It is one
// form with one nonce, and the audit log gets one entry for each request.
func (ps *Pages) denyAll(c echo.Context, v *session.Visit) error {
	form := c.Request().PostForm
	in := heldTyped{Task: c.Param("id"), Code: form.Get("code"), Note: form.Get("note"), Problems: map[string]string{}}
	if !slices.ContainsFunc(codes, func(c code) bool { return string(c.Code) == in.Code }) {
		in.Problems["code"] = "Choose a reason."
	}
	if utf8.RuneCountInString(in.Note) > 500 {
		in.Problems["note"] = "At most 500 characters."
	}
	if len(in.Problems) > 0 {
		return ps.drawQueue(c, v, http.StatusUnprocessableEntity, in)
	}
	if _, err := ps.b.DenyAll(c.Request().Context(), v.Principal, in.Task, broker.DenyCode(in.Code), in.Note); err != nil {
		e := broker.AsError(err)
		if e.Kind != broker.Invalid && e.Kind != broker.Conflict {
			return err
		}
		in.Problems[""] = e.Public
		status := web.Lookup(e.Kind).Status
		if e.Kind == broker.Invalid {
			status = http.StatusUnprocessableEntity
		}
		return ps.drawQueue(c, v, status, in)
	}
	return ps.shell.Redirect(c, "/queue")
}
