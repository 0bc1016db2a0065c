package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
)

// introspect serves POST /oauth2/introspect (RFC 7662).
func (a *API) introspect(c echo.Context) error {
	f, err := readForm(c.Request(), a.mux.BodyLimit())
	if err != nil {
		return err
	}
	who, err := a.caller(c, f)
	if err != nil {
		return err
	}
	if !f.has(pToken) {
		return malformed("token is required.")
	}
	in, err := a.b.Introspect(c.Request().Context(), who, f.get(pToken))
	if err != nil {
		return err
	}
	web.NoStore(c.Response().Header())
	return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, introspected(in))
}

// introspected adds active and token_type to the claims, which are a JSON
// object made by ebb. An inactive response has one member (RFC 7662 section
// 2.2).
func introspected(in broker.Introspection) []byte {
	if !in.Active || len(in.Claims) < 2 {
		return []byte(`{"active":false}`)
	}
	b := make([]byte, 0, len(in.Claims)+64)
	b = append(b, `{"active":true,"token_type":"`...)
	b = append(append(b, in.Type...), '"')
	if rest := in.Claims[1:]; rest[0] != '}' {
		b = append(b, ',')
	}
	return append(b, in.Claims[1:]...)
}

// caller authenticates the principal that introspects or revokes: by
// private_key_jwt, or by an access token for this API.
func (a *API) caller(c echo.Context, f *form) (broker.Principal, error) {
	if !a.hasToken(c) {
		cl, err := a.authenticateClient(c, f)
		if err != nil {
			return broker.Principal{}, err
		}
		if cl.assertion == "" {
			return broker.Principal{}, broker.E(broker.Unauthenticated, "Authenticate with client_assertion (private_key_jwt) or an access token.", nil)
		}
		return a.byAssertion(c, cl)
	}
	if f.has(pClientAssertion) || f.has(pClientSecret) {
		return broker.Principal{}, malformed("Use exactly one method of client authentication.")
	}
	return a.authenticate(c)
}

// byAssertion authenticates a principal by its assertion. A DPoP proof is
// optional; with one, the principal does not have to wait after a restart of
// ebb.
func (a *API) byAssertion(c echo.Context, cl client) (broker.Principal, error) {
	p, err := a.possession(c, "")
	if err != nil {
		return broker.Principal{}, err
	}
	who, err := a.b.AuthenticateAssertion(c.Request().Context(), cl.assertion, cl.id, p)
	web.EventOf(c).Actor = who.ID
	return who, err
}

// hasToken reports whether the Authorization header contains an access token.
// Other schemes are left to authenticateClient, which refuses them.
func (a *API) hasToken(c echo.Context) bool {
	auth, err := parseAuthorization(c.Request().Header["Authorization"])
	return err != nil || auth.scheme == schemeDPoP || auth.scheme == schemeBearer
}
