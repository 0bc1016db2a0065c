package api

import (
	"errors"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
)

// call returns the handler of a /v1 route for authenticated principals.
func call[Req, Resp any](a *clientAuth, status int, do func(echo.Context, broker.Principal, Req) (Resp, error)) echo.HandlerFunc {
	return web.Handle(a.mux, status, a.authenticate, do)
}

// authenticate returns the principal of an access token that this broker issued
// for its own API: "Authorization: DPoP" with a proof that names the token, or
// "Authorization: Bearer" for a token that is bound to a certificate or not
// bound (RFC 9449 section 7).
func (ca *clientAuth) authenticate(c echo.Context) (broker.Principal, error) {
	who, err := ca.identify(c)
	if err != nil {
		return broker.Principal{}, ca.refuse(c, err)
	}
	web.EventOf(c).Actor = who.ID
	return who, nil
}

func (ca *clientAuth) identify(c echo.Context) (broker.Principal, error) {
	ca.offerNonce(c)
	auth, err := parseAuthorization(c.Request().Header["Authorization"])
	if err != nil {
		return broker.Principal{}, err
	}
	switch auth.scheme {
	case schemeDPoP:
		p, err := ca.possession(c, auth.token)
		if err != nil {
			return broker.Principal{}, err
		}
		if p.Proof == nil {
			return broker.Principal{}, broker.E(broker.InvalidProof, "The DPoP scheme needs a DPoP proof.", nil)
		}
		return ca.b.AuthenticateToken(c.Request().Context(), auth.token, p)
	case schemeBearer:
		// Accept only the key that TLS verified: a DPoP-bound token must not
		// pass as Bearer, with or without a proof (RFC 9449 section 7.2).
		p, err := ca.certificate(c.Request())
		if err != nil {
			return broker.Principal{}, err
		}
		return ca.b.AuthenticateToken(c.Request().Context(), auth.token, p)
	}
	return broker.Principal{}, errNoCredentials
}

var errNoCredentials = errors.New("no credentials")

// refuse adds the challenge header. It maps every failure of token validation
// to invalid_token, as a resource server must (RFC 9068 section 4).
func (ca *clientAuth) refuse(c echo.Context, err error) error {
	if errors.Is(err, errNoCredentials) {
		ca.challenge(c, nil)
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
		ca.challenge(c, e)
	}
	return e
}
