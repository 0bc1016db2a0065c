package api

import (
	"errors"

	"github.com/labstack/echo/v4"

	"ebb/broker"
	"ebb/web"
)

// call makes a /v1 route of a method that a principal calls.
func call[Req, Resp any](a *API, status int, do func(echo.Context, broker.Principal, Req) (Resp, error)) echo.HandlerFunc {
	return web.Handle(a.mux, status, a.authenticate, do)
}

// authenticate finds the principal behind an access token of this broker for its
// own API: Authorization: DPoP with a proof that names the token, or Bearer for
// a token that is bound to a certificate or to nothing (RFC 9449 section 7).
func (a *API) authenticate(c echo.Context) (broker.Principal, error) {
	who, err := a.identify(c)
	if err != nil {
		return broker.Principal{}, a.refuse(c, err)
	}
	web.EventOf(c).Actor = who.ID
	return who, nil
}

func (a *API) identify(c echo.Context) (broker.Principal, error) {
	a.offerNonce(c)
	auth, err := parseAuthorization(c.Request().Header["Authorization"])
	if err != nil {
		return broker.Principal{}, err
	}
	switch auth.scheme {
	case schemeDPoP:
		p, err := a.possession(c, auth.token)
		if err != nil {
			return broker.Principal{}, err
		}
		if p.Proof == nil {
			return broker.Principal{}, broker.E(broker.InvalidProof, "The DPoP scheme needs a DPoP proof.", nil)
		}
		return a.b.AuthenticateToken(c.Request().Context(), auth.token, p)
	case schemeBearer:
		// Only what TLS proved: a DPoP-bound token must not pass as Bearer, with
		// or without a proof beside it (RFC 9449 section 7.2).
		p, err := a.certificate(c.Request())
		if err != nil {
			return broker.Principal{}, err
		}
		return a.b.AuthenticateToken(c.Request().Context(), auth.token, p)
	}
	return broker.Principal{}, errNoCredentials
}

var errNoCredentials = errors.New("no credentials")

// refuse adds the challenge, and names a bad token as resources do: every
// failure of validation is invalid_token (RFC 9068 section 4).
func (a *API) refuse(c echo.Context, err error) error {
	if errors.Is(err, errNoCredentials) {
		a.challenge(c, nil)
		return unauthenticated()
	}
	e := broker.AsError(err)
	if e.Kind == broker.Unauthenticated {
		named := *e
		named.Kind = web.InvalidToken
		e = &named
	}
	switch e.Kind {
	case web.InvalidToken, broker.InvalidProof, broker.UseNonce, broker.Invalid:
		a.challenge(c, e)
	}
	return e
}
