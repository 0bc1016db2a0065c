package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/liveness"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

// sandboxAPI serves sandboxes themselves: enrolment, delegation, the control connection and the
// list of their credentials; and egress endpoints, which a runner opens for them.
type sandboxAPI struct {
	endpoints EgressEndpoints
	b         sandboxBroker
	clients   *clientAuth
}

// sandboxBroker is the part of the broker that sandboxAPI calls.
type sandboxBroker interface {
	Enrol(ctx context.Context, taskID string, ev attest.Evidence, p broker.Possession) (broker.Enrolment, error)
	Challenge(ctx context.Context, taskID string, ev attest.Evidence, p broker.Possession) (attest.Challenge, error)
	EvidenceHeader(ctx context.Context, attestor string, taskID string) (of string, header string, err error)
	Delegate(ctx context.Context, s broker.Subject, p broker.Possession, spec broker.DelegationSpec) (broker.Task, *broker.Ticket, error)
	Hold(ctx context.Context, s broker.Subject, p broker.Possession, grace time.Duration) (*liveness.Hold, error)
	OwnLeases(ctx context.Context, s broker.Subject, p broker.Possession) ([]broker.Lease, error)
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
	case !jose.IsToken68(values[0]):
		return malformed("The evidence header must hold one token and nothing else: no scheme, space or comma.")
	}
	ev.Attestor, ev.Header, ev.Document = attestor, header, []byte(values[0])
	return nil
}

// askChallenge returns a challenge for evidence, bound to the key of the DPoP
// proof.
func (sa *sandboxAPI) askChallenge(c echo.Context, p broker.Possession, body wire.ChallengeBody) (wire.Challenge, error) {
	if body.Attestor == "" && body.TaskID == "" {
		return wire.Challenge{}, malformed("Name the attestor, or the task with task_id.")
	}
	ev := attest.Evidence{Attestor: body.Attestor, Document: []byte(body.Evidence), Channel: sa.clients.channel(c.Request())}
	out, err := sa.b.Challenge(c.Request().Context(), body.TaskID, ev, p)
	if err != nil {
		return wire.Challenge{}, err
	}
	return wire.Challenge{Nonce: out.Nonce, Document: out.Document, ExpiresAt: out.ExpiresAt}, nil
}

// delegate serves POST /oauth2/delegate: a sandbox delegates a part of its task
// to another sandbox.
func (sa *sandboxAPI) delegate(c echo.Context) error {
	f, err := readForm(c.Request(), sa.clients.mux.BodyLimit())
	if err != nil {
		return err
	}
	s, p, err := sa.clients.sandbox(c, f)
	if err != nil {
		return err
	}
	spec, err := delegation(f)
	if err != nil {
		return err
	}
	t, ticket, err := sa.b.Delegate(c.Request().Context(), s, p, spec)
	if err != nil {
		return err
	}
	web.EventOf(c).TaskID = t.ID
	web.NoStore(c.Response().Header())
	return web.WriteJSON(c, http.StatusCreated, wireDelegated(t, ticket))
}

// delegation reads the parameters of a delegation.
func delegation(f *form) (d broker.DelegationSpec, err error) {
	if d.Ceiling, _, err = rights(f); err != nil {
		return d, err
	}
	if d.TTL, err = lifetime(f.get(pRequestedExpiry)); err != nil {
		return d, err
	}
	for p, to := range map[param]*int{pUses: &d.Uses, pDepth: &d.Depth} {
		if !f.has(p) {
			continue
		}
		if *to, err = strconv.Atoi(f.get(p)); err != nil || *to < 0 {
			return d, malformed(p.String() + " must be a whole number, 0 or more.")
		}
	}
	if f.has(pSelectors) {
		if err := json.Unmarshal([]byte(f.get(pSelectors)), &d.Selectors); err != nil {
			return d, malformed(`selectors must be a JSON object of strings, such as {"pod":"worker-7"}.`)
		}
	}
	return d, nil
}

// own serves POST /oauth2/credentials: a sandbox lists the credentials of its
// task.
func (sa *sandboxAPI) own(c echo.Context) error {
	f, err := readForm(c.Request(), sa.clients.mux.BodyLimit())
	if err != nil {
		return err
	}
	s, p, err := sa.clients.sandbox(c, f)
	if err != nil {
		return err
	}
	ls, err := sa.b.OwnLeases(c.Request().Context(), s, p)
	if err != nil {
		return err
	}
	if len(ls) > 0 {
		web.EventOf(c).TaskID = ls[0].TaskID
	}
	out := wire.List[wire.OwnCredential]{Items: make([]wire.OwnCredential, len(ls))}
	for i, l := range ls {
		out.Items[i] = wireOwnCredential(l)
	}
	web.NoStore(c.Response().Header())
	return web.WriteJSON(c, http.StatusOK, out)
}

func wireDelegated(t broker.Task, ticket *broker.Ticket) wire.Delegated {
	out := wire.Delegated{TaskID: t.ID, Scope: t.Ceiling.String(), ExpiresAt: t.Deadline, Uses: t.Caps.Uses, Expect: wire.Expect(t.Expect)}
	if ticket != nil {
		out.Ticket, out.TicketExpiresAt = ticket.Ticket.Reveal(), ticket.ExpiresAt
	}
	return out
}

func wireOwnCredential(l broker.Lease) wire.OwnCredential {
	return wire.OwnCredential{
		LeaseID: l.ID, Scope: l.Scopes.String(), Resource: l.Resource, Tool: l.Tool, State: wire.LeaseState(l.State), Class: wire.Class(l.Class),
		IssuedAt: l.IssuedAt, ExpiresAt: l.ExpiresAt, RevokedAt: l.RevokedAt,
	}
}
