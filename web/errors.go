package web

import (
	"net/http"
	"strconv"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

// Kinds that exist in HTTP only. They share the table with the broker's kinds.
const (
	MethodNotAllowed broker.Kind = "method_not_allowed"     // the path does not have this method
	TooLarge         broker.Kind = "content_too_large"      // the body is longer than the path accepts
	URLTooLong       broker.Kind = "uri_too_long"           // the URL is longer than ebb accepts
	Misdirected      broker.Kind = "misdirected_request"    // RFC 9110 section 15.5.20
	UnsupportedType  broker.Kind = "unsupported_media_type" // the path does not accept this Content-Type
	InvalidToken     broker.Kind = "invalid_token"          // access token at a resource, RFC 6750 section 3.1
	UnsupportedGrant broker.Kind = "unsupported_grant_type" // RFC 6749 section 5.2
	Unauthorized     broker.Kind = "unauthorized_client"    // RFC 6749 section 5.2
)

// Line is one row of the table: the status and names of a kind.
type Line struct {
	Status      int    // of a problem document
	Title       string // of a problem document, the same for every occurrence
	OAuth       string // error code at /oauth2
	OAuthStatus int    // status at /oauth2
}

// Lookup returns the row of a kind. It is the only place that maps kinds to
// status codes. An unknown kind is a 500.
//
// Error codes at /oauth2 come from the OAuth Extensions Error Registry. A request that needs
// approval from a client that cannot wait is interaction_required. Rate limits keep 429, which RFC
// 6749 section 5.2 leaves to HTTP, because clients back off on it.
func Lookup(k broker.Kind) Line {
	const bad = http.StatusBadRequest
	switch k {
	case broker.Invalid:
		return Line{bad, "Invalid request", "invalid_request", bad}
	case broker.InvalidScope:
		return Line{bad, "Invalid scope", "invalid_scope", bad}
	case broker.InvalidTarget:
		return Line{bad, "Invalid target", "invalid_target", bad}
	case broker.InvalidDetails:
		return Line{bad, "Invalid authorization details", "invalid_authorization_details", bad}
	case broker.InvalidGrant:
		return Line{bad, "Invalid grant", "invalid_grant", bad}
	case broker.InvalidEvidence:
		return Line{http.StatusForbidden, "Evidence refused", "invalid_request", bad}
	case broker.InvalidProof:
		return Line{http.StatusUnauthorized, "Invalid proof of possession", "invalid_dpop_proof", bad}
	case broker.UseNonce:
		return Line{http.StatusUnauthorized, "Nonce required", "use_dpop_nonce", bad}
	case broker.Unauthenticated:
		return Line{http.StatusUnauthorized, "Not authenticated", "invalid_client", http.StatusUnauthorized}
	case broker.Forbidden:
		return Line{http.StatusForbidden, "Not allowed", "unauthorized_client", bad}
	case broker.StepUpRequired:
		return Line{http.StatusForbidden, "Stronger proof required", "unauthorized_client", bad}
	case broker.Denied:
		return Line{http.StatusForbidden, "Denied", "access_denied", bad}
	case broker.AskRequired:
		return Line{http.StatusForbidden, "Approval required", "interaction_required", bad}
	case broker.Pending:
		return Line{bad, "Approval pending", "authorization_pending", bad}
	case broker.SlowDown:
		return Line{http.StatusTooManyRequests, "Polled too fast", "slow_down", bad}
	case broker.ExpiredRequest:
		return Line{http.StatusGone, "Request expired", "expired_token", bad}
	case broker.NotFound:
		return Line{http.StatusNotFound, "Not found", "invalid_request", bad}
	case broker.Conflict:
		return Line{http.StatusConflict, "Conflict", "invalid_grant", bad}
	case broker.NotUnderstood:
		return Line{http.StatusUnprocessableEntity, "Not understood", "invalid_request", bad}
	case broker.TooMany:
		return Line{http.StatusTooManyRequests, "Too many requests", "temporarily_unavailable", http.StatusTooManyRequests}
	case broker.Unavailable:
		return Line{http.StatusServiceUnavailable, "Temporarily unavailable", "temporarily_unavailable", http.StatusServiceUnavailable}
	case MethodNotAllowed:
		return Line{http.StatusMethodNotAllowed, "Method not allowed", "invalid_request", http.StatusMethodNotAllowed}
	case TooLarge:
		return Line{http.StatusRequestEntityTooLarge, "Content too large", "invalid_request", bad}
	case URLTooLong:
		return Line{http.StatusRequestURITooLong, "URI too long", "invalid_request", bad}
	case Misdirected:
		return Line{http.StatusMisdirectedRequest, "Misdirected request", "invalid_request", bad}
	case UnsupportedType:
		return Line{http.StatusUnsupportedMediaType, "Unsupported media type", "invalid_request", bad}
	case InvalidToken:
		return Line{http.StatusUnauthorized, "Invalid access token", "invalid_token", http.StatusUnauthorized}
	case UnsupportedGrant:
		return Line{bad, "Unsupported grant type", "unsupported_grant_type", bad}
	case Unauthorized:
		return Line{http.StatusForbidden, "Client not allowed", "unauthorized_client", bad}
	}
	return Line{http.StatusInternalServerError, "Internal error", "server_error", http.StatusInternalServerError}
}

// Kinds lists every kind with its own row, in the order of the table. Each has
// a page at <public URL>/problems/<kind>.
func Kinds() []broker.Kind {
	return []broker.Kind{
		broker.Invalid, broker.InvalidScope, broker.InvalidTarget, broker.InvalidDetails, broker.InvalidGrant,
		broker.InvalidEvidence, broker.InvalidProof, broker.UseNonce, broker.Unauthenticated, broker.Forbidden,
		broker.StepUpRequired, broker.Denied, broker.AskRequired, broker.Pending, broker.SlowDown, broker.ExpiredRequest, broker.NotFound,
		broker.Conflict, broker.NotUnderstood, broker.TooMany, broker.Unavailable, broker.Internal, MethodNotAllowed, TooLarge, URLTooLong,
		Misdirected, UnsupportedType, InvalidToken, UnsupportedGrant, Unauthorized,
	}
}

// retry returns the whole seconds of Retry-After, or 0 for none, and the steps
// of e. Every 503 and 429 has a time (RFC 7009 section 2.2.1), because a client
// would otherwise retry at once. For an error that passes by itself, the retry is a step.
func retry(e *broker.Error, status int) (after int64, next []string) {
	d := e.RetryAfter
	if d <= 0 && (status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests) {
		d = 2 * time.Second
	}
	after = int64((d + time.Second - 1) / time.Second)
	if len(e.Next) == 0 && after > 0 && e.Pending == nil {
		return after, []string{"try again in " + strconv.FormatInt(after, 10) + " s"}
	}
	return after, e.Next
}
