package api

import (
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
)

// Grant types.
const (
	grantExchange    = "urn:ietf:params:oauth:grant-type:token-exchange" // RFC 8693
	grantJWTBearer   = "urn:ietf:params:oauth:grant-type:jwt-bearer"     // RFC 7523
	grantCredentials = "client_credentials"                              // RFC 6749 section 4.4
	grantDeferred    = "urn:ietf:params:oauth:grant-type:deferred"       // Deferred Token Response
	grantCIBA        = "urn:openid:params:grant-type:ciba"               // CIBA Core section 10.1
)

// param is a form parameter of an endpoint of /oauth2.
type param uint8

const (
	pGrantType param = iota
	pSubjectToken
	pSubjectTokenType
	pActorToken
	pActorTokenType
	pRequestedTokenType
	pScope
	pAuthorizationDetails
	pClientID
	pClientSecret
	pClientAssertion
	pClientAssertionType
	pAssertion
	pDeferralCode
	pAuthReqID
	pCompletionMode
	pTaskID
	pReason
	pRequestedExpiry
	pTool
	pDelivery
	pContent
	pPublicKey
	pUses
	pDepth
	pSelectors
	pGrace
	pToken
	pTokenTypeHint
	pLoginHint
	pLoginHintToken
	pIDTokenHint
	pBindingMessage
	pResource // may repeat
	pAudience // may repeat
	numParams
)

// String returns the name of the parameter. known is its inverse; a test
// compares both.
func (p param) String() string {
	return [numParams]string{"grant_type", "subject_token", "subject_token_type", "actor_token", "actor_token_type",
		"requested_token_type", "scope", "authorization_details", "client_id", "client_secret", "client_assertion",
		"client_assertion_type", "assertion", "deferral_code", "auth_req_id", "completion_mode", "task_id", "reason",
		"requested_expiry", "tool", "delivery", "content", "public_key", "uses", "depth", "selectors", "grace_seconds", "token", "token_type_hint", "login_hint", "login_hint_token", "id_token_hint",
		"binding_message", "resource", "audience"}[p]
}

// known returns the parameter with a name, or numParams for an unknown name.
func known(name string) param {
	switch name {
	case "grant_type":
		return pGrantType
	case "subject_token":
		return pSubjectToken
	case "subject_token_type":
		return pSubjectTokenType
	case "actor_token":
		return pActorToken
	case "actor_token_type":
		return pActorTokenType
	case "requested_token_type":
		return pRequestedTokenType
	case "scope":
		return pScope
	case "authorization_details":
		return pAuthorizationDetails
	case "client_id":
		return pClientID
	case "client_secret":
		return pClientSecret
	case "client_assertion":
		return pClientAssertion
	case "client_assertion_type":
		return pClientAssertionType
	case "assertion":
		return pAssertion
	case "deferral_code":
		return pDeferralCode
	case "auth_req_id":
		return pAuthReqID
	case "completion_mode":
		return pCompletionMode
	case "task_id":
		return pTaskID
	case "reason":
		return pReason
	case "requested_expiry":
		return pRequestedExpiry
	case "tool":
		return pTool
	case "delivery":
		return pDelivery
	case "content":
		return pContent
	case "public_key":
		return pPublicKey
	case "uses":
		return pUses
	case "depth":
		return pDepth
	case "selectors":
		return pSelectors
	case "grace_seconds":
		return pGrace
	case "token":
		return pToken
	case "token_type_hint":
		return pTokenTypeHint
	case "login_hint":
		return pLoginHint
	case "login_hint_token":
		return pLoginHintToken
	case "id_token_hint":
		return pIDTokenHint
	case "binding_message":
		return pBindingMessage
	case "resource":
		return pResource
	case "audience":
		return pAudience
	}
	return numParams
}

// query reads a query string strictly. An unknown parameter, a repeated
// parameter, or one without a value is an error, which done reports.
type query struct {
	values url.Values
	err    error
}

func readQuery(c echo.Context) *query {
	values, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return &query{err: malformed("The query string is malformed.")}
	}
	return &query{values: values}
}

func (q *query) fail(name, what string) {
	if q.err == nil {
		q.err = malformed("The query parameter " + name + " " + what + ".")
	}
}

func (q *query) text(name string) string {
	v, sent := q.values[name]
	delete(q.values, name)
	switch {
	case !sent:
		return ""
	case len(v) != 1:
		q.fail(name, "is repeated")
	case v[0] == "" || len(v[0]) > 512 || !printable(v[0], ' '):
		q.fail(name, "must be 1 to 512 printable ASCII characters")
	default:
		return v[0]
	}
	return ""
}

func (q *query) oneOf(name string, allowed ...string) string {
	v := q.text(name)
	if v != "" && !slices.Contains(allowed, v) {
		q.fail(name, "is not one of the accepted values")
		return ""
	}
	return v
}

func (q *query) flag(name string) bool { return q.oneOf(name, "true", "false") == "true" }

func (q *query) number(name string, otherwise, low, high int) int {
	v := q.text(name)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		q.fail(name, "must be a number from "+strconv.Itoa(low)+" to "+strconv.Itoa(high))
		return otherwise
	}
	return n
}

func (q *query) time(name string) time.Time {
	v := q.text(name)
	if v == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, v)
	if err != nil {
		q.fail(name, "must be an RFC 3339 time")
	}
	return t
}

const defaultPage = 50

func (q *query) page() broker.Page {
	return broker.Page{
		After: q.text("after"),
		Limit: q.number("limit", defaultPage, 1, 1000),
		Desc:  q.oneOf("order", "asc", "desc") == "desc",
	}
}

// done reports the first error, or that there is an unknown parameter. The
// error does not repeat the parameter's name, because it may be a token pasted
// in the wrong place.
func (q *query) done() error {
	if q.err == nil && len(q.values) > 0 {
		q.err = malformed("The query string has an unknown parameter.")
	}
	return q.err
}

// roles are those that a principal's token can have.
var roles = []broker.Role{broker.RoleRunner, broker.RoleApprover, broker.RoleAuditor, broker.RoleOperator, broker.RoleResourceServer, broker.RoleViewer}

func grants() []string {
	return []string{grantExchange, grantJWTBearer, grantCredentials, grantDeferred, grantCIBA}
}
