package console

import (
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/broker/agenttext"
	"ebb/web"
)

// heldCard is a task that asks more than people are shown: one card for all of it.
type heldCard struct {
	broker.Held
	Name string
	heldTyped
}

// heldTyped is what was typed into the forms of the card of one task, and by field what it
// lacks.
type heldTyped struct {
	Task       string
	Code, Note string
	Problems   map[string]string
}

// Focus is the field to look at after a form that could not be taken.
func (h heldTyped) Focus(field string) bool { return h.Problems[field] != "" }

func (s *Console) heldCards(c echo.Context, v *visit, mine bool, in heldTyped) ([]heldCard, error) {
	held, err := s.b.Held(c.Request().Context(), v.Principal, mine)
	if err != nil {
		return nil, err
	}
	var out []heldCard
	for _, h := range held {
		card := heldCard{Held: h, Name: agenttext.ShowLine(agenttext.From(h.Name), 80)}
		if in.Task == h.ID {
			card.heldTyped = in
		}
		out = append(out, card)
	}
	return out, nil
}

// denyAll says no to everything of a task that waits for this person. One form, one nonce;
// one answer on the record to each request.
func (s *Console) denyAll(c echo.Context, v *visit) error {
	form := c.Request().PostForm
	in := heldTyped{Task: c.Param("id"), Code: form.Get("code"), Note: form.Get("note"), Problems: map[string]string{}}
	if !slices.ContainsFunc(codes, func(c code) bool { return string(c.Code) == in.Code }) {
		in.Problems["code"] = "Say why: choose one."
	}
	switch {
	case strings.TrimSpace(in.Note) == "":
		in.Problems["note"] = "Tell the agent in a few words what would be better."
	case utf8.RuneCountInString(in.Note) > 500:
		in.Problems["note"] = "At most 500 characters."
	}
	if len(in.Problems) > 0 {
		return s.drawQueue(c, v, http.StatusUnprocessableEntity, in)
	}
	if _, err := s.b.DenyAll(c.Request().Context(), v.Principal, in.Task, broker.DenyCode(in.Code), in.Note); err != nil {
		e := broker.AsError(err)
		if e.Kind != broker.Invalid && e.Kind != broker.Conflict {
			return err
		}
		in.Problems[""] = e.Public
		status := web.Lookup(e.Kind).Status
		if e.Kind == broker.Invalid {
			status = http.StatusUnprocessableEntity
		}
		return s.drawQueue(c, v, status, in)
	}
	return s.redirect(c, "/queue")
}

// resumeTask lets a paused task mint again.
func (s *Console) resumeTask(c echo.Context, v *visit) error {
	id := c.Param("id")
	if _, err := s.b.ResumeTask(c.Request().Context(), v.Principal, id); err != nil {
		return err
	}
	return s.redirect(c, "/tasks/"+id)
}
