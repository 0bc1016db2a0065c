package api

import (
	"net/http"
	"strings"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
	"github.com/labstack/echo/v4"
)

// sandboxAPI redeems tickets and opens egress endpoints of sandboxes.
type sandboxAPI struct {
	boxes Boxes
	b     *core.Broker

	clients *clientAuth
}

// enrolling verifies the key of the workload that enrols. There is no
// authenticated caller yet.
func (sa *sandboxAPI) enrolling(c echo.Context) (broker.Possession, error) {
	p, err := sa.clients.possession(c, "")
	if err != nil {
		return p, sa.clients.refuse(c, err)
	}
	return p, nil
}

func (sa *sandboxAPI) enroll(c echo.Context, p broker.Possession, body wire.EnrolmentBody) (wire.Enrolled, error) {
	ev := attest.Evidence{Attestor: body.Attestor, Document: []byte(body.Evidence), Channel: sa.clients.channel(c.Request())}
	switch {
	case body.Ticket != "" && (body.Evidence != "" || body.Attestor != ""):
		return wire.Enrolled{}, malformed("Send either a ticket or evidence.")
	case body.Ticket != "":
		ev.Attestor, ev.Document = enrolled, []byte(body.Ticket)
	case body.TaskID == "":
		return wire.Enrolled{}, malformed("Send a ticket, or task_id and evidence.")
	default:
		if err := sa.fromHeader(c.Request(), body.TaskID, &ev); err != nil {
			return wire.Enrolled{}, err
		}
	}
	out, err := sa.b.Enrol(c.Request().Context(), body.TaskID, ev, p)
	if err != nil {
		return wire.Enrolled{}, err
	}
	answer := wire.Enrolled{TaskToken: out.Token.Reveal(), TokenType: schemeDPoP, ExpiresAt: out.ExpiresAt, TaskID: out.Task.ID}
	if out.Task.Sandbox != nil {
		answer.ClientID = out.Task.Sandbox.ID
	}
	event := web.EventOf(c)
	event.TaskID, event.Actor = answer.TaskID, answer.ClientID
	return answer, nil
}

// maxHeaderEvidence is the largest document in a header, in bytes: half of the
// limit for all headers.
const maxHeaderEvidence = 8 << 10

// fromHeader takes the evidence from the HTTP header that the attestor is
// configured with, if any. A platform's egress adds that header to every
// outgoing request, so only enrolment reads it.
func (sa *sandboxAPI) fromHeader(r *http.Request, taskID string, ev *attest.Evidence) error {
	attestor, header, err := sa.b.EvidenceHeader(r.Context(), ev.Attestor, taskID)
	if err != nil || header == "" {
		return err
	}
	values := r.Header.Values(header)
	switch {
	case len(ev.Document) > 0:
		return malformed("This attestor takes its evidence from an HTTP header. Leave evidence out of the body.")
	case len(values) == 0:
		return malformed("This attestor takes its evidence from an HTTP header, and the request has none. Check that the platform's rule covers the host of this broker.")
	case len(values) > 1:
		return malformed("The evidence header occurs more than once.")
	case len(values[0]) > maxHeaderEvidence:
		return malformed("The evidence header has more than 8 KiB.")
	case !token68(values[0]):
		return malformed("The evidence header must hold one token and nothing else: no scheme, space or comma.")
	}
	ev.Attestor, ev.Header, ev.Document = attestor, header, []byte(values[0])
	return nil
}

// token68 reports whether s is a token68 (RFC 9110 section 11.2), as every JWT
// is. It rejects a list, and a scheme before the token, as some proxies write
// them.
func token68(s string) bool {
	body := strings.TrimRight(s, "=")
	return body != "" && strings.IndexFunc(body, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-._~+/", r))
	}) < 0
}
