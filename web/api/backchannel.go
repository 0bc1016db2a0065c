package api

import (
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

// backchannel serves POST /oauth2/bc-authorize: the start of CIBA poll mode,
// for clients whose libraries support it. It creates the same approval request
// as a deferred token request, and the same poll redeems it. The response
// contains no credential, so private_key_jwt of a sandbox needs no DPoP proof
// here. The poll needs a DPoP proof by the same key.
func (a *API) backchannel(c echo.Context) error {
	f, err := readForm(c.Request(), a.mux.BodyLimit())
	if err != nil {
		return err
	}
	hints := 0
	for _, p := range []param{pLoginHint, pLoginHintToken, pIDTokenHint} {
		if f.has(p) {
			hints++
		}
	}
	if hints != 1 {
		return malformed("Send exactly one of login_hint, login_hint_token and id_token_hint. Its value is ignored: policy chooses the approvers.")
	}
	cl, err := a.clients.authenticateClient(c, f)
	if err != nil {
		return err
	}
	if cl.assertion == "" {
		return broker.E(broker.Unauthenticated, "Authenticate with client_assertion (private_key_jwt).", nil)
	}
	p, err := a.clients.possession(c, "")
	if err != nil {
		return err
	}
	f.v[pScope] = withoutOpenID(f.get(pScope))
	if !f.has(pReason) {
		f.v[pReason] = f.get(pBindingMessage)
	}
	r, err := ask(f)
	if err != nil {
		return err
	}
	ch := a.clients.channel(c.Request())
	r.Possession, r.Deferred = p, true
	r.Subject = broker.Subject{TaskID: f.get(pTaskID), Assertion: cl.assertion, ClientID: cl.id, Channel: ch, Fault: broker.Unauthenticated}
	if !cl.sandbox() {
		r.Subject = evidence(cl.assertion, "", f, cl, ch, broker.Unauthenticated)
	}
	r.Subject.Backchannel = true
	return a.startBackchannel(c, r)
}

func (a *API) startBackchannel(c echo.Context, r broker.TokenRequest) error {
	_, err := a.b.Token(c.Request().Context(), r) // mints nothing: see Subject.Backchannel
	e, ok := errors.AsType[*broker.Error](err)
	if !ok || e.Kind != broker.Pending || e.Pending == nil {
		return err
	}
	web.EventOf(c).RequestID = e.Pending.RequestID
	web.NoStore(c.Response().Header())
	return web.WriteJSON(c, http.StatusOK, wire.Backchannel{
		AuthReqID: e.Pending.DeferralCode.Reveal(),
		ExpiresIn: int64(e.Pending.ExpiresIn.Seconds()),
		Interval:  int64(e.Pending.Interval.Seconds()),
	})
}

// withoutOpenID removes the scope value openid, which CIBA clients must send
// and ebb does not use.
func withoutOpenID(scope string) string {
	if scope == "openid" {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(scope, "openid "), " openid")
}
