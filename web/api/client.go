package api

import (
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
)

// assertionJWT is the client assertion type of private_key_jwt (RFC 7523
// section 2.2). Other types belong to attestors: their assertion is evidence of
// a sandbox.
const assertionJWT = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// client holds the client authentication of a request to /oauth2: an assertion,
// or, if assertion is "", the key of the DPoP proof or client certificate.
type client struct {
	assertion string
	method    string // the attestor's method with this assertion type; "" = private_key_jwt
	id        string // form parameter client_id
}

// authenticateClient finds the one method of client authentication in the
// request (RFC 6749 section 2.3). It does not verify it.
//
// A Basic header is refused with 401, not 400: clients built on x/oauth2 try
// Basic first and then send the parameters in the form.
func (ca *clientAuth) authenticateClient(c echo.Context, f *form) (client, error) {
	auth, err := parseAuthorization(c.Request().Header["Authorization"])
	if err != nil {
		return client{}, err
	}
	cl := client{assertion: f.get(pClientAssertion), id: f.get(pClientID)}
	kind := f.get(pClientAssertionType)
	for _, m := range ca.methods {
		if kind != "" && kind == m.AssertionType {
			cl.method = m.Name
		}
	}
	switch {
	case auth.scheme != "" && (cl.assertion != "" || f.has(pClientSecret)), cl.assertion != "" && f.has(pClientSecret):
		return client{}, malformed("Use exactly one method of client authentication.")
	case auth.scheme != "":
		scheme := auth.scheme
		if scheme == "other" {
			scheme = schemeBasic
		}
		c.Response().Header().Set(echo.HeaderWWWAuthenticate, scheme+` realm="ebb"`)
		return client{}, broker.E(broker.Unauthenticated, "This endpoint does not take an Authorization header. Use client_assertion (private_key_jwt) or a DPoP proof.", nil)
	case f.has(pClientSecret):
		return client{}, broker.E(broker.Unauthenticated, "Client secrets are not supported. Use client_assertion (private_key_jwt).", nil)
	case (cl.assertion == "") != (kind == ""):
		return client{}, malformed("client_assertion and client_assertion_type go together.")
	case kind != "" && kind != assertionJWT && cl.method == "":
		return client{}, broker.E(broker.Unauthenticated, "This client_assertion_type is not supported.", nil)
	}
	return cl, nil
}

// sandbox reports whether the assertion claims to be from an enrolled sandbox.
// The claim only selects the code path: the broker verifies the assertion.
func (cl client) sandbox() bool {
	return cl.method == "" && strings.HasPrefix(unverifiedSubject(cl.assertion), "sbx_")
}

func unverifiedSubject(token string) string {
	u, err := jose.Parse(token, jose.Limits{})
	if err != nil {
		return ""
	}
	return u.Claims().Subject
}

// taskToken reports whether a token claims to be a task token of ebb. The claim
// only selects the code path.
func taskToken(token string) bool {
	u, err := jose.Parse(token, jose.Limits{})
	return err == nil && u.Header().Type == "ebb-task+jwt"
}
