package wire

// Grant types of TokenForm.GrantType.
const (
	GrantTokenExchange     = "urn:ietf:params:oauth:grant-type:token-exchange" // RFC 8693
	GrantJWTBearer         = "urn:ietf:params:oauth:grant-type:jwt-bearer"     // RFC 7523
	GrantClientCredentials = "client_credentials"                              // RFC 6749 section 4.4
	GrantDeferred          = "urn:ietf:params:oauth:grant-type:deferred"       // Deferred Token Response
	GrantCIBA              = "urn:openid:params:grant-type:ciba"               // CIBA Core section 10.1
)

// Token types of TokenForm.SubjectTokenType.
const (
	TokenTypeTask   = "urn:ebb:params:oauth:token-type:task"          // the task token of an enrolled sandbox
	TokenTypeJWT    = "urn:ietf:params:oauth:token-type:jwt"          // evidence of a workload (RFC 8693 section 3)
	TokenTypeID     = "urn:ietf:params:oauth:token-type:id_token"     // a person's ID token (RFC 8693 section 3)
	TokenTypeAccess = "urn:ietf:params:oauth:token-type:access_token" // an own access token that is to be narrowed (RFC 8693 section 3)
)

// AssertionTypeJWTBearer is the client_assertion_type of private_key_jwt (RFC 7523 section 2.2).
const AssertionTypeJWTBearer = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// The types below are the bodies of POST requests to /oauth2, of media type application/x-www-form-urlencoded. The tag
// "form" is the name of the parameter. An empty parameter is the same as an absent one (RFC 6749 section 3.2). A list is
// a parameter that may be repeated; every other parameter occurs once.

// ClientForm authenticates the client of a form by private_key_jwt (RFC 7523 section 2.2). A sandbox may send its task
// token and a DPoP proof in the header Authorization instead.
type ClientForm struct {
	// ClientID is the authenticated client; with an SVID, its SPIFFE ID.
	ClientID string `form:"client_id"`
	// Assertion is a JWT that the client signed for the issuer as its only audience.
	Assertion string `form:"client_assertion"`
	// AssertionType is AssertionTypeJWTBearer, or the type of an attestor's own assertions.
	AssertionType string `form:"client_assertion_type"`
}

// TokenForm is the body of POST /oauth2/token. GrantType decides which other parameters are needed.
type TokenForm struct {
	ClientForm
	// GrantType is one of the Grant constants.
	GrantType string `form:"grant_type"`
	// SubjectToken is the token that is exchanged (RFC 8693 section 2.1).
	SubjectToken string `form:"subject_token"`
	// SubjectTokenType is one of the TokenType constants.
	SubjectTokenType string `form:"subject_token_type"`
	// JWTAssertion is evidence of the workload, with GrantJWTBearer.
	JWTAssertion string `form:"assertion"`
	// TaskID is the task that a workload asks for when it is not enrolled.
	TaskID string `form:"task_id"`
	// Scope is the requested scope.
	Scope string `form:"scope"`
	// Details is a JSON array of Detail (RFC 9396 section 2).
	Details string `form:"authorization_details"`
	// Resource are the URIs that the token is for (RFC 8707 section 2).
	Resource []string `form:"resource"`
	// Audience is the same by name (RFC 8693 section 2.1).
	Audience []string `form:"audience"`
	// RequestedTokenType is the type of the requested token (RFC 8693 section 2.1).
	RequestedTokenType string `form:"requested_token_type"`
	// RequestedExpiry is the requested lifetime in seconds; "" = as policy decides. ebb may shorten it.
	RequestedExpiry string `form:"requested_expiry"`
	// CompletionMode is "deferred" when the client can wait for a person.
	CompletionMode string `form:"completion_mode"`
	// Reason is shown to the approver as the agent's words. It decides nothing.
	Reason string `form:"reason"`
	// Tool is the name of the tool that needs the credential, at most 64 characters.
	Tool string `form:"tool"`
	// Delivery is DeliveryToken or DeliveryEgress; "" = as ebb decides.
	Delivery string `form:"delivery"`
	// Content is the id of what a request through egress would have done, as its refusal names it. An approval is then
	// for a request that does exactly this.
	Content string `form:"content"`
	// PublicKey is the key that the provider is to certify, in the provider's format. A poll may repeat it.
	PublicKey string `form:"public_key"`
	// DeferralCode is the code of a poll, with GrantDeferred.
	DeferralCode string `form:"deferral_code"`
	// AuthReqID is the code of a poll, with GrantCIBA.
	AuthReqID string `form:"auth_req_id"`
}

// How a credential is delivered.
const (
	DeliveryToken  = "token"  // the sandbox receives the bound credential itself
	DeliveryEgress = "egress" // the sandbox receives a placeholder that only the egress proxy can open
)

// BackchannelForm is the body of POST /oauth2/bc-authorize (CIBA Core section 7.1). Exactly one hint is required; it
// does not decide who is asked.
type BackchannelForm struct {
	// Assertion is a JWT that the client signed for the issuer as its only audience (RFC 7523 section 2.2).
	Assertion string `form:"client_assertion"`
	// AssertionType is AssertionTypeJWTBearer.
	AssertionType string `form:"client_assertion_type"`
	// Scope is the requested scope; openid in it means nothing.
	Scope string `form:"scope"`
	// LoginHint is a hint of CIBA Core section 7.1.
	LoginHint string `form:"login_hint"`
	// LoginHintToken is a hint of CIBA Core section 7.1.
	LoginHintToken string `form:"login_hint_token"`
	// IDTokenHint is a hint of CIBA Core section 7.1.
	IDTokenHint string `form:"id_token_hint"`
	// BindingMessage is used as the reason when Reason is empty.
	BindingMessage string `form:"binding_message"`
	// Reason is shown to the approver as the agent's words.
	Reason string `form:"reason"`
	// Resource are the URIs that the token is for (RFC 8707 section 2).
	Resource []string `form:"resource"`
	// Details is a JSON array of Detail (RFC 9396 section 2).
	Details string `form:"authorization_details"`
	// RequestedExpiry is the requested lifetime in seconds.
	RequestedExpiry string `form:"requested_expiry"`
	// Tool is the name of the tool that needs the credential.
	Tool string `form:"tool"`
	// Delivery is DeliveryToken or DeliveryEgress; "" = as ebb decides.
	Delivery string `form:"delivery"`
	// PublicKey is the key that the provider is to certify.
	PublicKey string `form:"public_key"`
	// TaskID is the task that a workload asks for when it is not enrolled.
	TaskID string `form:"task_id"`
}

// DelegateForm is the body of POST /oauth2/delegate.
type DelegateForm struct {
	ClientForm
	// TaskID is the task of a workload that is not enrolled.
	TaskID string `form:"task_id"`
	// Scope is the ceiling of the other sandbox's task.
	Scope string `form:"scope"`
	// Details is the same as a JSON array of Detail.
	Details string `form:"authorization_details"`
	// RequestedExpiry is the lifetime of the other task in seconds; "" = until the own task ends.
	RequestedExpiry string `form:"requested_expiry"`
	// Uses is the number of credentials that the other task may be issued; required when those of the own task are counted.
	Uses string `form:"uses"`
	// Depth is how many times in a row the other sandbox may delegate on; 0 = not at all.
	Depth string `form:"depth"`
	// Selectors is a JSON object of texts: selectors of the other sandbox beyond those that the runner expects.
	Selectors string `form:"selectors"`
}

// HoldForm is the body of POST /oauth2/hold.
type HoldForm struct {
	ClientForm
	// TaskID is the task of a workload that is not enrolled.
	TaskID string `form:"task_id"`
	// Grace is the number of seconds that the sandbox may take to reconnect, 0 to 60; "" = 10.
	Grace string `form:"grace_seconds"`
}

// CredentialsForm is the body of POST /oauth2/credentials.
type CredentialsForm struct {
	ClientForm
	// TaskID is the task of a workload that is not enrolled.
	TaskID string `form:"task_id"`
}

// IntrospectionForm is the body of POST /oauth2/introspect (RFC 7662 section 2.1).
type IntrospectionForm struct {
	ClientForm
	// Token is the token.
	Token string `form:"token"`
	// TokenTypeHint is ignored.
	TokenTypeHint string `form:"token_type_hint"`
}

// RevocationForm is the body of POST /oauth2/revoke (RFC 7009 section 2.1).
type RevocationForm struct {
	ClientForm
	// Token is a token, a deferral code or a lease id.
	Token string `form:"token"`
	// TokenTypeHint is ignored.
	TokenTypeHint string `form:"token_type_hint"`
}
