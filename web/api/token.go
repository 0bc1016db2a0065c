package api

import (
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/web"
	"strings"

	"github.com/labstack/echo/v4"
)

// Grant types.
const (
	grantExchange    = "urn:ietf:params:oauth:grant-type:token-exchange" // RFC 8693
	grantJWTBearer   = "urn:ietf:params:oauth:grant-type:jwt-bearer"     // RFC 7523
	grantCredentials = "client_credentials"                              // RFC 6749 section 4.4
	grantDeferred    = "urn:ietf:params:oauth:grant-type:deferred"       // Deferred Token Response
	grantCIBA        = "urn:openid:params:grant-type:ciba"               // CIBA Core section 10.1
)

func grants() []string {
	return []string{grantExchange, grantJWTBearer, grantCredentials, grantDeferred, grantCIBA}
}

// tokenCall is one decoded token request.
type tokenCall struct {
	c  echo.Context
	f  *form
	cl client
	p  broker.Possession
}

// token serves POST /oauth2/token.
func (a *API) token(c echo.Context) error {
	f, err := readForm(c.Request(), a.mux.BodyLimit())
	if err != nil {
		return err
	}
	grant, serve := f.get(pGrantType), a.grant(f.get(pGrantType))
	if serve == nil {
		if grant == "" {
			return malformed("grant_type is required.")
		}
		return broker.E(web.UnsupportedGrant, "This grant_type is not supported; see grant_types_supported in the metadata.", nil)
	}
	web.EventOf(c).Operation = shortGrant(grant)
	cl, err := a.authenticateClient(c, f)
	if err != nil {
		return err
	}
	p, err := a.possession(c, "")
	if err != nil {
		return err
	}
	if a.b.Upstreams() {
		outlast(c, broker.MintTime)
	}
	t, err := serve(tokenCall{c, f, cl, p})
	if err != nil {
		return err
	}
	return a.writeToken(c, t, grant == grantExchange)
}

func (a *API) grant(name string) func(tokenCall) (broker.Token, error) {
	switch name {
	case grantExchange:
		return a.exchange
	case grantJWTBearer:
		return a.jwtBearer
	case grantCredentials:
		return a.credentials
	case grantDeferred:
		return func(t tokenCall) (broker.Token, error) { return a.poll(t, pDeferralCode) }
	case grantCIBA:
		return func(t tokenCall) (broker.Token, error) { return a.poll(t, pAuthReqID) }
	}
	return nil
}

// shortGrant returns the name of a grant for the log.
func shortGrant(grant string) string { return grant[strings.LastIndexByte(grant, ':')+1:] }

func (a *API) exchange(t tokenCall) (broker.Token, error) {
	s, person, err := exchanged(t.f, t.cl, a.channel(t.c.Request()))
	if err != nil {
		return broker.Token{}, err
	}
	if person != "" {
		asked, err := a.rolesAsked(t.f)
		if err != nil {
			return broker.Token{}, err
		}
		return a.b.PrincipalExchange(t.c.Request().Context(), person, t.p, asked...)
	}
	return a.request(t, s)
}

func (a *API) jwtBearer(t tokenCall) (broker.Token, error) {
	if !t.f.has(pAssertion) {
		return broker.Token{}, malformed("assertion is required.")
	}
	if t.cl.assertion != "" {
		return broker.Token{}, malformed("Send no client_assertion with an assertion: the assertion and the DPoP proof authenticate the client.")
	}
	attestor := ""
	if taskToken(t.f.get(pAssertion)) {
		attestor = enrolled
	}
	return a.request(t, evidence(t.f.get(pAssertion), attestor, t.f, t.cl, a.channel(t.c.Request()), broker.InvalidGrant))
}

func (a *API) request(t tokenCall, s broker.Subject) (broker.Token, error) {
	r, err := ask(t.f)
	if err != nil {
		return broker.Token{}, err
	}
	r.Subject, r.Possession = s, t.p
	return a.b.Token(t.c.Request().Context(), r)
}

// poll redeems a request that waited for approval. It must not repeat
// parameters of the first request: the approved request is issued. The
// exception is public_key, which comes with the poll and is authenticated by
// the approved key.
func (a *API) poll(t tokenCall, code param) (broker.Token, error) {
	for p := range numParams {
		switch p {
		case pGrantType, pClientID, pClientAssertion, pClientAssertionType, pPublicKey, code:
		default:
			if t.f.has(p) {
				return broker.Token{}, malformed("A poll must not repeat parameters of the request: leave out " + p.String() + ".")
			}
		}
	}
	if !t.f.has(code) {
		return broker.Token{}, malformed(code.String() + " is required.")
	}
	s := broker.Subject{ClientID: t.cl.id, Fault: broker.InvalidGrant, Channel: a.channel(t.c.Request())}
	switch {
	case t.cl.method != "":
		s = evidence(t.cl.assertion, "", t.f, t.cl, s.Channel, broker.Unauthenticated)
	case t.cl.assertion != "":
		s.Assertion, s.Fault = t.cl.assertion, broker.Unauthenticated
	}
	return a.b.Poll(t.c.Request().Context(), approval.PollRequest{Code: t.f.get(code), Subject: s, Possession: t.p, PublicKey: t.f.get(pPublicKey)})
}
