package api

import (
	"net/http"
	"strings"
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
	ev := attest.Evidence{Attestor: body.Attestor, Document: []byte(body.Evidence), Channel: a.channel(c.Request())}
	switch {
	case body.Ticket != "" && (body.Evidence != "" || body.Attestor != ""):
		return enrolledAnswer{}, malformed("Send either a ticket or evidence.")
	case body.Ticket != "":
		ev.Attestor, ev.Document = enrolled, []byte(body.Ticket)
	case body.TaskID == "":
		return enrolledAnswer{}, malformed("Send a ticket, or task_id and evidence.")
	default:
		if err := a.fromHeader(c.Request(), body.TaskID, &ev); err != nil {
			return enrolledAnswer{}, err
		}
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

// maxHeaderEvidence is the largest document in a header, in bytes: half of what all
// headers may have together.
const maxHeaderEvidence = 8 << 10

// fromHeader takes the document from the header that the attestor is configured with,
// if it is. A platform's egress writes it there on every way out, so that nothing else
// than an enrolment looks for it.
func (a *API) fromHeader(r *http.Request, taskID string, ev *attest.Evidence) error {
	attestor, header, err := a.b.EvidenceHeader(r.Context(), ev.Attestor, taskID)
	if err != nil || header == "" {
		return err
	}
	values := r.Header.Values(header)
	switch {
	case len(ev.Document) > 0:
		return malformed("This attestor takes its evidence from an HTTP header. Leave evidence out of the body.")
	case len(values) == 0:
		return malformed("This attestor takes its evidence from an HTTP header, and the request has none; is the platform's rule in force for the host of this broker?")
	case len(values) > 1:
		return malformed("The evidence header came more than once.")
	case len(values[0]) > maxHeaderEvidence:
		return malformed("The evidence header has more than 8 KiB.")
	case !token68(values[0]):
		return malformed("The evidence header must hold one token and nothing else: no scheme, space or comma.")
	}
	ev.Attestor, ev.Header, ev.Document = attestor, header, []byte(values[0])
	return nil
}

// token68 is RFC 9110 section 11.2, which has every JWT. A list or a scheme before the
// token, as proxies make them, is none.
func token68(s string) bool {
	body := strings.TrimRight(s, "=")
	return body != "" && strings.IndexFunc(body, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~+/", r))
	}) < 0
}
