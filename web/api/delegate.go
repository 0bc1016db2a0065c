package api

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
)

// delegate serves POST /oauth2/delegate: a sandbox delegates a part of its task
// to another sandbox.
func (a *API) delegate(c echo.Context) error {
	f, err := readForm(c.Request(), a.mux.BodyLimit())
	if err != nil {
		return err
	}
	s, p, err := a.sandbox(c, f)
	if err != nil {
		return err
	}
	spec, err := delegation(f)
	if err != nil {
		return err
	}
	t, ticket, err := a.b.Delegate(c.Request().Context(), s, p, spec)
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

// sandbox authenticates a sandbox: by its task token with a DPoP proof that
// names the token, by a client assertion signed with its key, or by its own
// evidence as an assertion.
func (a *API) sandbox(c echo.Context, f *form) (broker.Subject, broker.Possession, error) {
	if a.hasToken(c) {
		auth, err := parseAuthorization(c.Request().Header["Authorization"])
		if err != nil {
			return broker.Subject{}, broker.Possession{}, err
		}
		if auth.scheme != schemeDPoP || !taskToken(auth.token) || f.has(pClientAssertion) {
			return broker.Subject{}, broker.Possession{}, broker.E(web.InvalidToken, "Send the task token with the DPoP scheme, or a client_assertion, and not both.", nil)
		}
		return a.byTaskToken(c, auth.token)
	}
	cl, err := a.authenticateClient(c, f)
	if err != nil {
		return broker.Subject{}, broker.Possession{}, err
	}
	if cl.assertion == "" {
		return broker.Subject{}, broker.Possession{}, broker.E(broker.Unauthenticated, "Authenticate with client_assertion (private_key_jwt) or the task token.", nil)
	}
	p, err := a.possession(c, "")
	if err != nil {
		return broker.Subject{}, broker.Possession{}, err
	}
	if !cl.sandbox() {
		return evidence(cl.assertion, "", f, cl, a.channel(c.Request()), broker.Unauthenticated), p, nil
	}
	return a.assertedBy(c, cl), p, nil
}

// byTaskToken returns the subject of a task token that was sent in the
// Authorization header.
func (a *API) byTaskToken(c echo.Context, token string) (broker.Subject, broker.Possession, error) {
	p, err := a.possession(c, token)
	if err != nil {
		return broker.Subject{}, p, err
	}
	ch := a.channel(c.Request())
	ev := &attest.Evidence{Attestor: enrolled, Document: []byte(token), Channel: ch}
	return broker.Subject{Evidence: ev, Channel: ch, Fault: web.InvalidToken}, p, nil
}

// assertedBy returns the subject of an enrolled sandbox that signed an
// assertion.
func (a *API) assertedBy(c echo.Context, cl client) broker.Subject {
	return broker.Subject{Assertion: cl.assertion, ClientID: cl.id, Channel: a.channel(c.Request()), Fault: broker.Unauthenticated}
}
