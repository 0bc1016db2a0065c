package wire

// Problem is an error answer outside of /oauth2 (RFC 9457), of media type application/problem+json.
type Problem struct {
	// Type is a URL whose last segment is the Kind: <issuer>/problems/<kind>. It is stable.
	Type string `json:"type"`
	// Title is one sentence that is the same for every occurrence of the type.
	Title string `json:"title"`
	// Status is the HTTP status code.
	Status int `json:"status"`
	// Detail is one sentence for people that says what to do next.
	Detail string `json:"detail,omitempty"`
	// Instance is the id of the request, as in the header X-Request-Id and in the log of ebb.
	Instance string `json:"instance"`
	// RetryAfter is the number of seconds to wait before the next attempt; 0 when waiting does not help.
	RetryAfter int64 `json:"retry_after,omitempty"`
	// Advice is what a denied agent does next.
	Advice *Advice `json:"advice,omitempty"`
	// Reached says how far the end of a task or credential has got that is not recorded everywhere yet.
	Reached *Reached `json:"reached,omitempty"`
	// Missing names the proofs that an approval lacks, with KindStepUpRequired: ProofTarget or ProofPresence.
	Missing []string `json:"missing,omitempty"`
	// Next lists what the caller can do next, one step each, in the words of the command line. It is for people.
	Next []string `json:"next,omitempty"`
}

// Values of Problem.Missing.
const (
	ProofTarget   = "target"   // the typed name of the target
	ProofPresence = "presence" // a recent proof of identity in the console
)

// OAuthError is an error answer of /oauth2 (RFC 6749 section 5.2), of media type application/json.
type OAuthError struct {
	// Error is a code of the OAuth registry, such as invalid_grant or authorization_pending.
	Error string `json:"error"`
	// Description is one sentence for people, in the characters of RFC 6749 section 5.2.
	Description string `json:"error_description,omitempty"`
	// DeferralCode is the code to poll with, with authorization_pending. It is a secret of the client.
	DeferralCode string `json:"deferral_code,omitempty"`
	// RequestID names the request that waits for a person, with authorization_pending. It opens nothing.
	RequestID string `json:"request_id,omitempty"`
	// Groups are the groups whose members can approve, with authorization_pending.
	Groups []string `json:"approver_groups,omitempty"`
	// MatchCode is the short name of that request for people, which approvers see, too.
	MatchCode string `json:"match_code,omitempty"`
	// ExpiresIn is the lifetime of DeferralCode in seconds.
	ExpiresIn int64 `json:"expires_in,omitempty"`
	// Interval is the time between polls in seconds (RFC 8628 section 3.2).
	Interval int64 `json:"interval,omitempty"`
	// Advice is what a denied agent does next.
	Advice *Advice `json:"advice,omitempty"`
	// Next is Problem.Next.
	Next []string `json:"next,omitempty"`
}

// Kind is why ebb refused a request. It is the last segment of Problem.Type.
type Kind string

// Kinds of refusals. Each has a page at <issuer>/problems/<kind>.
const (
	KindInvalid          Kind = "invalid_request"               // malformed or contradictory input
	KindInvalidScope     Kind = "invalid_scope"                 // unknown, malformed or excessive scope
	KindInvalidTarget    Kind = "invalid_target"                // unknown or forbidden resource (RFC 8707)
	KindInvalidDetails   Kind = "invalid_authorization_details" // RFC 9396 section 5
	KindInvalidGrant     Kind = "invalid_grant"                 // bad assertion, ticket or deferral code
	KindInvalidEvidence  Kind = "invalid_evidence"              // the attestor refused the evidence
	KindInvalidProof     Kind = "invalid_dpop_proof"            // RFC 9449 section 5
	KindUseNonce         Kind = "use_dpop_nonce"                // RFC 9449 section 8
	KindUnauthenticated  Kind = "invalid_client"                // the caller is not authenticated
	KindForbidden        Kind = "forbidden"                     // the caller is known, and not allowed to do this
	KindStepUpRequired   Kind = "step_up_required"              // the approval lacks a proof that its risk demands
	KindDenied           Kind = "access_denied"                 // policy or a person denied the request
	KindAskRequired      Kind = "approval_required"             // a person must decide, and the client said that it cannot wait
	KindPending          Kind = "authorization_pending"         // the request waits for an approval
	KindSlowDown         Kind = "slow_down"                     // the client polled faster than Interval
	KindExpiredRequest   Kind = "expired_token"                 // the request was not decided in time
	KindNotFound         Kind = "not_found"                     // the object does not exist, or the caller may not see it
	KindConflict         Kind = "conflict"                      // the state or the facts have changed
	KindNotUnderstood    Kind = "not_understood"                // ebb does not know what the scopes allow, so they cannot be approved
	KindTooMany          Kind = "too_many_requests"             // a cap or rate was hit
	KindUnavailable      Kind = "temporarily_unavailable"       // a store or provider is down; nothing was issued
	KindInternal         Kind = "internal"                      // internal error of ebb
	KindMethodNotAllowed Kind = "method_not_allowed"            // see the header Allow
	KindTooLarge         Kind = "content_too_large"             // the body is larger than the limit
	KindURLTooLong       Kind = "uri_too_long"                  // the request line is longer than the limit
	KindMisdirected      Kind = "misdirected_request"           // the host of the request is not ebb's
	KindUnsupportedType  Kind = "unsupported_media_type"        // the Content-Type or Content-Encoding is not accepted
	KindInvalidToken     Kind = "invalid_token"                 // RFC 6750 section 3.1
	KindUnsupportedGrant Kind = "unsupported_grant_type"        // RFC 6749 section 5.2
	KindUnauthorized     Kind = "unauthorized_client"           // RFC 6749 section 5.2
)

// ProblemType describes one type of problem (RFC 9457 section 3.1.1).
type ProblemType struct {
	// Type is the URL of the type, which is the address of this document.
	Type string `json:"type"`
	// Title is Problem.Title of the type.
	Title string `json:"title"`
	// Status is Problem.Status of the type.
	Status int `json:"status"`
	// OAuth is OAuthError.Error of the same refusal at /oauth2.
	OAuth string `json:"oauth_error"`
}

// Advice tells a denied agent what to do next, as data.
type Advice struct {
	// Decision is "denied"; "ask": a person must decide, ask again with completion_mode=deferred; or "wait": no person was
	// asked, ask again after RetryAfter.
	Decision string `json:"decision"`
	// Code is why.
	Code DenyCode `json:"code"`
	// Note is a sentence of the approver.
	Note string `json:"note,omitempty"`
	// WouldAllow is the largest part of the scope that is granted without a person; "" when there is none.
	WouldAllow string `json:"would_allow,omitempty"`
	// RetryAfter is the number of seconds to wait before the next attempt.
	RetryAfter int64 `json:"retry_after_s"`
	// DoNotRetrySame says that the same request will be denied again.
	DoNotRetrySame bool `json:"do_not_retry_same"`
}

// Reached says in which of ebb's stores the end of a task or credential is in force. ebb goes on trying the others.
type Reached struct {
	// Process is always ReachedDone: this ebb refuses everything that has ended.
	Process string `json:"process"`
	// LiveStore is ReachedDone or ReachedPending: every replica asks the live store.
	LiveStore string `json:"live_store"`
	// Database is ReachedDone or ReachedPending: the audit log.
	Database string `json:"database"`
	// Restart is ReachedDone or ReachedLost: whether the end outlives a restart before the database has it.
	Restart string `json:"restart"`
}

// Values of the members of Reached.
const (
	ReachedDone    = "done"
	ReachedPending = "pending"
	ReachedLost    = "lost" // neither the database nor the file of pending ends could be written
)
