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
	who, err := a.clients.caller(c, f)
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

// revoke serves POST /oauth2/revoke (RFC 7009). token_type_hint is ignored: the
// token itself tells its type (section 2.1).
func (a *API) revoke(c echo.Context) error {
	f, err := readForm(c.Request(), a.mux.BodyLimit())
	if err != nil {
		return err
	}
	r, err := a.revoker(c, f)
	if err != nil {
		return err
	}
	if !f.has(pToken) {
		return malformed("token is required.")
	}
	if err := a.b.RevokeToken(c.Request().Context(), r, f.get(pToken)); err != nil {
		return err
	}
	web.NoStore(c.Response().Header())
	return c.NoContent(http.StatusOK) // RFC 7009 section 2.2 requires 200, and clients reject 204
}

// revoker authenticates the caller: a sandbox (its assertion or its task token,
// and its key) or a principal.
func (a *API) revoker(c echo.Context, f *form) (broker.Revoker, error) {
	if a.clients.hasToken(c) {
		auth, err := parseAuthorization(c.Request().Header["Authorization"])
		if err != nil {
			return broker.Revoker{}, err
		}
		if auth.scheme == schemeDPoP && taskToken(auth.token) && !f.has(pClientAssertion) {
			s, p, err := a.clients.byTaskToken(c, auth.token)
			return broker.Revoker{Subject: &s, Possession: p}, err
		}
		who, err := a.clients.caller(c, f)
		return broker.Revoker{Principal: &who}, err
	}
	cl, err := a.clients.authenticateClient(c, f)
	if err != nil {
		return broker.Revoker{}, err
	}
	switch {
	case cl.assertion == "":
		return broker.Revoker{}, broker.E(broker.Unauthenticated, "Authenticate with client_assertion (private_key_jwt) or an access token.", nil)
	case cl.sandbox():
		p, err := a.clients.possession(c, "")
		if err != nil {
			return broker.Revoker{}, err
		}
		s := a.clients.assertedBy(c, cl)
		return broker.Revoker{Subject: &s, Possession: p}, nil
	}
	who, err := a.clients.byAssertion(c, cl)
	return broker.Revoker{Principal: &who}, err
}
