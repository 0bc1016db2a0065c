package api

import (
	"time"

	"github.com/labstack/echo/v4"

	"ebb/attest"
	"ebb/broker"
	"ebb/web"
)

// enrolment is what a sandbox shows: a ticket, or evidence for a named task.
type enrolment struct {
	Ticket   string `json:"ticket"`
	TaskID   string `json:"task_id"`
	Evidence string `json:"evidence"`
	Attestor string `json:"attestor"` // "" = the one the task's runner registered
}

type enrolledAnswer struct {
	TaskToken string    `json:"task_token"`
	TokenType string    `json:"token_type"` // DPoP
	ExpiresAt time.Time `json:"expires_at"`
	TaskID    string    `json:"task_id"`
	ClientID  string    `json:"client_id"` // of the sandbox, for client_assertion
}

// enrolling proves the key of whoever enrols; there is no other caller yet.
func (a *API) enrolling(c echo.Context) (broker.Possession, error) {
	p, err := a.possession(c, "")
	if err != nil {
		return p, a.refuse(c, err)
	}
	return p, nil
}

func (a *API) enroll(c echo.Context, p broker.Possession, body enrolment) (enrolledAnswer, error) {
	document := body.Evidence
	switch {
	case body.Ticket != "" && (body.Evidence != "" || body.Attestor != ""):
		return enrolledAnswer{}, malformed("Send either a ticket or evidence.")
	case body.Ticket != "":
		document = body.Ticket
	case body.TaskID == "":
		return enrolledAnswer{}, malformed("Send a ticket, or task_id and evidence.")
	}
	ch := a.channel(c.Request())
	ev := attest.Evidence{Attestor: body.Attestor, Document: []byte(document), Channel: ch}
	if body.Ticket != "" {
		ev.Attestor = enrolled
	}
	out, err := a.b.Enrol(c.Request().Context(), body.TaskID, ev, p)
	if err != nil {
		return enrolledAnswer{}, err
	}
	answer := enrolledAnswer{TaskToken: out.Token.Reveal(), TokenType: schemeDPoP, ExpiresAt: out.ExpiresAt, TaskID: out.Task.ID}
	if out.Task.Sandbox != nil {
		answer.ClientID = out.Task.Sandbox.ID
	}
	event := web.EventOf(c)
	event.TaskID, event.Actor = answer.TaskID, answer.ClientID
	return answer, nil
}
