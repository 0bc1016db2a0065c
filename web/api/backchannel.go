package api

import (
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/web"
)

// backchannelAnswer is CIBA Core section 7.3.
type backchannelAnswer struct {
	AuthReqID string `json:"auth_req_id"`
	ExpiresIn int64  `json:"expires_in"`
	Interval  int64  `json:"interval"`
}

// backchannel is POST /oauth2/bc-authorize: the start of CIBA poll mode, for
// clients whose libraries can poll this way. It makes the same request for a
// person that a deferred token request makes, and the same poll redeems it.
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
		return malformed("Send exactly one of login_hint, login_hint_token and id_token_hint; who decides is the policy's to say.")
	}
	cl, err := a.authenticateClient(c, f)
	if err != nil {
		return err
	}
	if cl.assertion == "" {
		return broker.E(broker.Unauthenticated, "Authenticate with client_assertion (private_key_jwt).", nil)
	}
	p, err := a.possession(c, "")
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
	ch := a.channel(c.Request())
	r.Possession, r.Deferred = p, true
	r.Subject = broker.Subject{TaskID: f.get(pTaskID), Assertion: cl.assertion, ClientID: cl.id, Channel: ch, Fault: broker.Unauthenticated}
	if !cl.sandbox() {
		r.Subject = evidence(cl.assertion, "", f, cl, ch, broker.Unauthenticated)
	}
	return a.startBackchannel(c, r)
}

func (a *API) startBackchannel(c echo.Context, r broker.TokenRequest) error {
	ctx := c.Request().Context()
	t, err := a.b.Token(ctx, r)
	if err == nil {
		// Nobody had to be asked, so there is nothing to poll for. The token that
		// was minted has no way to its client: it must not stay alive.
		house := broker.Principal{ID: "ebb", Roles: []broker.Role{broker.RoleOperator}}
		if err := a.b.RevokeToken(ctx, broker.Revoker{Principal: &house}, t.Token.Reveal()); err != nil {
			return err
		}
		return malformed("No person needs to be asked for this: use the token endpoint.")
	}
	e, ok := errors.AsType[*broker.Error](err)
	if !ok || e.Kind != broker.Pending || e.Pending == nil {
		return err
	}
	web.EventOf(c).RequestID = e.Pending.RequestID
	web.NoStore(c.Response().Header())
	return web.WriteJSON(c, http.StatusOK, backchannelAnswer{
		AuthReqID: e.Pending.DeferralCode.Reveal(),
		ExpiresIn: int64(e.Pending.ExpiresIn.Seconds()),
		Interval:  int64(e.Pending.Interval.Seconds()),
	})
}

// withoutOpenID drops the scope value that CIBA clients must send and that means
// nothing here.
func withoutOpenID(scope string) string {
	if scope == "openid" {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(scope, "openid "), " openid")
}
