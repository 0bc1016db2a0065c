package api

import (
	"errors"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

// client holds the client authentication of a request to /oauth2: an assertion,
// or, if assertion is "", the key of the DPoP proof or client certificate.
type client struct {
	assertion string
	method    string // the attestor's method with this assertion type, whose assertion is evidence of a sandbox; "" = private_key_jwt
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
	case kind != "" && kind != wire.AssertionTypeJWTBearer && cl.method == "":
		return client{}, broker.E(broker.Unauthenticated, "This client_assertion_type is not supported.", nil)
	}
	return cl, nil
}

// sandbox reports whether the assertion claims to be from an enrolled sandbox.
// The claim only selects the code path: the broker verifies the assertion.
func (cl client) sandbox() bool {
	u, err := jose.Parse(cl.assertion, jose.Limits{})
	return cl.method == "" && err == nil && strings.HasPrefix(u.Claims().Subject, "sbx_")
}

// taskToken reports whether a token claims to be a task token of ebb. The claim
// only selects the code path.
func taskToken(token string) bool {
	u, err := jose.Parse(token, jose.Limits{})
	return err == nil && u.Header().Type == "ebb-task+jwt"
}

// caller authenticates the principal that introspects or revokes: by
// private_key_jwt, or by an access token for this API.
func (ca *clientAuth) caller(c echo.Context, f *form) (broker.Principal, error) {
	if !ca.hasToken(c) {
		cl, err := ca.authenticateClient(c, f)
		if err != nil {
			return broker.Principal{}, err
		}
		if cl.assertion == "" {
			return broker.Principal{}, broker.E(broker.Unauthenticated, "Authenticate with client_assertion (private_key_jwt) or an access token.", nil)
		}
		return ca.byAssertion(c, cl)
	}
	if f.has(pClientAssertion) || f.has(pClientSecret) {
		return broker.Principal{}, malformed("Use exactly one method of client authentication.")
	}
	return ca.authenticate(c)
}

// byAssertion authenticates a principal by its assertion. A DPoP proof is
// optional; with one, the principal does not have to wait after a restart of
// ebb.
func (ca *clientAuth) byAssertion(c echo.Context, cl client) (broker.Principal, error) {
	p, err := ca.possession(c, "")
	if err != nil {
		return broker.Principal{}, err
	}
	who, err := ca.b.AuthenticateAssertion(c.Request().Context(), cl.assertion, cl.id, p)
	web.EventOf(c).Actor = who.ID
	return who, err
}

// hasToken reports whether the Authorization header contains an access token.
// Other schemes are left to authenticateClient, which refuses them.
func (ca *clientAuth) hasToken(c echo.Context) bool {
	auth, err := parseAuthorization(c.Request().Header["Authorization"])
	return err != nil || auth.scheme == schemeDPoP || auth.scheme == schemeBearer
}

// sandbox authenticates a sandbox: by its task token with a DPoP proof that
// names the token, by a client assertion signed with its key, or by its own
// evidence as an assertion.
func (ca *clientAuth) sandbox(c echo.Context, f *form) (broker.Subject, broker.Possession, error) {
	if ca.hasToken(c) {
		auth, err := parseAuthorization(c.Request().Header["Authorization"])
		if err != nil {
			return broker.Subject{}, broker.Possession{}, err
		}
		if auth.scheme != schemeDPoP || !taskToken(auth.token) || f.has(pClientAssertion) {
			return broker.Subject{}, broker.Possession{}, broker.E(web.InvalidToken, "Send the task token with the DPoP scheme, or a client_assertion, and not both.", nil)
		}
		return ca.byTaskToken(c, auth.token)
	}
	cl, err := ca.authenticateClient(c, f)
	if err != nil {
		return broker.Subject{}, broker.Possession{}, err
	}
	if cl.assertion == "" {
		return broker.Subject{}, broker.Possession{}, broker.E(broker.Unauthenticated, "Authenticate with client_assertion (private_key_jwt) or the task token.", nil)
	}
	p, err := ca.possession(c, "")
	if err != nil {
		return broker.Subject{}, broker.Possession{}, err
	}
	if !cl.sandbox() {
		return evidence(cl.assertion, "", f, cl, ca.channel(c.Request()), broker.Unauthenticated), p, nil
	}
	return ca.assertedBy(c, cl), p, nil
}

// byTaskToken returns the subject of a task token that was sent in the
// Authorization header.
func (ca *clientAuth) byTaskToken(c echo.Context, token string) (broker.Subject, broker.Possession, error) {
	p, err := ca.possession(c, token)
	if err != nil {
		return broker.Subject{}, p, err
	}
	ch := ca.channel(c.Request())
	ev := &attest.Evidence{Attestor: enrolled, Document: []byte(token), Channel: ch}
	return broker.Subject{Evidence: ev, Channel: ch, Fault: web.InvalidToken}, p, nil
}

// assertedBy returns the subject of an enrolled sandbox that signed an
// assertion.
func (ca *clientAuth) assertedBy(c echo.Context, cl client) broker.Subject {
	return broker.Subject{Assertion: cl.assertion, ClientID: cl.id, Channel: ca.channel(c.Request()), Fault: broker.Unauthenticated}
}

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

// Schemes of the Authorization header that ebb supports.
const (
	schemeDPoP   = "DPoP"
	schemeBearer = "Bearer"
	schemeBasic  = "Basic"
)

// authorization is one parsed Authorization header.
type authorization struct {
	scheme string // one of the constants, "other", or "" when none was sent
	token  string
}

// parseAuthorization reads the values of the Authorization header. Two headers,
// or two credentials in one, are an error: libraries disagree on which one
// counts (RFC 9449 section 7.2).
func parseAuthorization(values []string) (authorization, error) {
	switch len(values) {
	case 0:
		return authorization{}, nil
	case 1:
	default:
		return authorization{}, malformed("Send one Authorization header.")
	}
	scheme, rest, _ := strings.Cut(values[0], " ")
	token := strings.Trim(rest, " ")
	auth := authorization{scheme: "other", token: token}
	for _, s := range []string{schemeDPoP, schemeBearer, schemeBasic} {
		if strings.EqualFold(scheme, s) { // RFC 9110 section 11.1
			auth.scheme = s
		}
	}
	if auth.scheme != "other" && !jose.IsToken68(token) {
		return authorization{}, malformed("The Authorization header is not one scheme and one token.")
	}
	return auth, nil
}

// challenge sets the WWW-Authenticate header of /v1 (RFC 9449 section 7.1, RFC
// 9728 section 5.1). e is nil when the request had no credentials: the header
// then names no error.
func (ca *clientAuth) challenge(c echo.Context, e *broker.Error) {
	var s strings.Builder
	s.WriteString(schemeDPoP + ` realm="ebb"`)
	if e != nil {
		s.WriteString(`, error="` + web.Lookup(e.Kind).OAuth + `", error_description="` + web.Description(e.Public) + `"`)
	}
	s.WriteString(`, algs="` + joinAlgs(ca.discovery.dpopAlgs) + `", resource_metadata="` + ca.discovery.resourceMetadataURL() + `"`)
	c.Response().Header().Set(echo.HeaderWWWAuthenticate, s.String())
}

func joinAlgs(algs []jose.Alg) string {
	names := make([]string, len(algs))
	for i, alg := range algs {
		names[i] = string(alg)
	}
	return strings.Join(names, " ")
}

// unauthenticated is the error at /v1 for a request without credentials.
func unauthenticated() *broker.Error {
	return broker.E(broker.Unauthenticated, "Send an access token for this API: Authorization: DPoP, with a DPoP proof.", nil)
}
