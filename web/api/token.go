package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/web"
)

// tokenCall is one decoded token request.
type tokenCall struct {
	c  echo.Context
	f  *form
	cl client
	p  broker.Possession
}

// tokenBroker is the part of the broker that the token endpoints call.
type tokenBroker interface {
	Token(ctx context.Context, r broker.TokenRequest) (broker.Token, error)
	Poll(ctx context.Context, r approval.PollRequest) (broker.Token, error)
	PrincipalToken(ctx context.Context, assertion string, p broker.Possession, clientID string, roles ...broker.Role) (broker.Token, error)
	PrincipalExchange(ctx context.Context, idToken string, p broker.Possession, roles ...broker.Role) (broker.Token, error)
	Introspect(ctx context.Context, who broker.Principal, token string) (broker.Introspection, error)
	RevokeToken(ctx context.Context, r broker.Revoker, token string) error
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
	web.EventOf(c).Operation = grant[strings.LastIndexByte(grant, ':')+1:]
	cl, err := a.clients.authenticateClient(c, f)
	if err != nil {
		return err
	}
	p, err := a.clients.possession(c, "")
	if err != nil {
		return err
	}
	if a.mints {
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

func (a *API) exchange(t tokenCall) (broker.Token, error) {
	s, person, err := exchanged(t.f, t.cl, a.clients.channel(t.c.Request()))
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
	return a.request(t, evidence(t.f.get(pAssertion), attestor, t.f, t.cl, a.clients.channel(t.c.Request()), broker.InvalidGrant))
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
	s := broker.Subject{ClientID: t.cl.id, Fault: broker.InvalidGrant, Channel: a.clients.channel(t.c.Request())}
	switch {
	case t.cl.method != "":
		s = evidence(t.cl.assertion, "", t.f, t.cl, s.Channel, broker.Unauthenticated)
	case t.cl.assertion != "":
		s.Assertion, s.Fault = t.cl.assertion, broker.Unauthenticated
	}
	return a.b.Poll(t.c.Request().Context(), approval.PollRequest{Code: t.f.get(code), Subject: s, Possession: t.p, PublicKey: t.f.get(pPublicKey)})
}

// credentials serves the grant client_credentials for three callers: an
// enrolled sandbox, a workload whose assertion is its own evidence (it then
// names its task), or a principal.
func (a *API) credentials(t tokenCall) (broker.Token, error) {
	ch := a.clients.channel(t.c.Request())
	if t.cl.assertion == "" {
		t.cl.method = a.certified(t, ch)
	}
	switch {
	case t.cl.assertion == "" && t.cl.method == "":
		return broker.Token{}, broker.E(broker.Unauthenticated, "Authenticate with client_assertion (private_key_jwt).", nil)
	case t.cl.sandbox():
		return a.request(t, broker.Subject{TaskID: t.f.get(pTaskID), Assertion: t.cl.assertion, ClientID: t.cl.id, Channel: ch, Fault: broker.Unauthenticated})
	case t.cl.method != "", t.f.has(pTaskID):
		return a.request(t, evidence(t.cl.assertion, "", t.f, t.cl, ch, broker.Unauthenticated))
	}
	ctx := t.c.Request().Context()
	asked, err := a.rolesAsked(t.f)
	if err != nil {
		// An authentication error takes precedence over an error in the
		// parameters.
		if _, authErr := a.clients.b.AuthenticateAssertion(ctx, t.cl.assertion, t.cl.id, t.p); authErr != nil {
			return broker.Token{}, authErr
		}
		return broker.Token{}, err
	}
	return a.b.PrincipalToken(ctx, t.cl.assertion, t.p, t.cl.id, asked...)
}

// certified returns the attestors' method that accepts the client certificate
// alone. It returns "" when the request has no certificate or task_id, or no
// such method exists.
func (a *API) certified(t tokenCall, ch attest.Channel) string {
	if len(ch.PeerCertificates) == 0 || !t.f.has(pTaskID) {
		return ""
	}
	for _, m := range a.methods {
		if m.AssertionType == "" {
			return m.Name
		}
	}
	return ""
}

// rolesAsked reads a principal's request. The resource may only be this
// broker's own API. The scope is a list of roles; without a scope the token
// gets all roles of the principal.
func (a *API) rolesAsked(f *form) ([]broker.Role, error) {
	for _, r := range append(f.resources, f.audiences...) {
		if r != a.issuer+"/v1" {
			return nil, broker.E(broker.InvalidTarget, "A principal can get tokens for "+a.issuer+"/v1 only.", nil)
		}
	}
	if f.has(pAuthorizationDetails) {
		return nil, broker.E(broker.InvalidDetails, "authorization_details are not supported for this API. Use scope with a list of roles.", nil)
	}
	if !f.has(pScope) {
		return nil, nil
	}
	var asked []broker.Role
	for role := range strings.SplitSeq(f.get(pScope), " ") {
		if !slices.Contains(roles, broker.Role(role)) {
			return nil, broker.E(broker.InvalidScope, "The scope of a principal's token must be a list of roles.", nil)
		}
		asked = append(asked, broker.Role(role))
	}
	return asked, nil
}

// writeToken sends a token response. exchanged reports that the grant was a
// token exchange.
func (a *API) writeToken(c echo.Context, t broker.Token, exchanged bool) error {
	ev := web.EventOf(c)
	ev.LeaseID, ev.RequestID = t.LeaseID, t.RequestID
	body, err := tokenAnswer(t, exchanged)
	if err != nil {
		return err
	}
	web.NoStore(c.Response().Header())
	return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, body)
}

// tokenAnswer returns the JSON of a wire.Token (RFC 6749 section 5.1, RFC 8693 section 2.2.1, RFC 9396 section 7). It is
// on the path of every mint, so it builds the text itself; a test compares it with wire.Token.
func tokenAnswer(t broker.Token, exchanged bool) ([]byte, error) {
	token := t.Token.Reveal()
	b := make([]byte, 0, len(token)+512)
	b = append(b, `{"access_token":`...)
	b, err := jsontext.AppendQuote(b, token)
	if err != nil {
		return nil, err
	}
	// For every token type except access_token, the response names the type, for
	// every grant.
	if t.Format == "" && exchanged {
		t.Format = typeAccessToken
	}
	if t.Format != "" {
		b = append(append(append(b, `,"issued_token_type":"`...), t.Format...), '"')
	}
	b = append(b, `,"token_type":"`...)
	b = append(b, t.Type...)
	b = append(b, `","expires_in":`...)
	b = strconv.AppendInt(b, int64(t.ExpiresIn), 10)
	scope := t.API
	if scope == "" {
		scope = t.Scopes.String()
	}
	b = append(b, `,"scope":"`...)
	b = append(b, scope...) // the scope grammar has no character that JSON escapes
	b = append(b, '"')
	if t.Details != nil {
		details, err := json.Marshal(each(t.Details, wireDetail))
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"authorization_details":`...), details...)
	}
	if t.Endpoint != nil {
		at, err := json.Marshal(wireEndpoint(*t.Endpoint))
		if err != nil {
			return nil, err
		}
		b = append(append(b, `,"endpoint":`...), at...)
	}
	if t.Class != "" {
		b = append(append(append(b, `,"revocability":"`...), t.Class...), '"')
	}
	if t.LeaseID != "" {
		b = append(append(append(b, `,"lease_id":"`...), t.LeaseID...), '"')
	}
	return append(b, '}'), nil
}
