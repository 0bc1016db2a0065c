package api

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
		"requested_expiry", "tool", "delivery", "public_key", "uses", "depth", "selectors", "grace_seconds", "token", "token_type_hint", "login_hint", "login_hint_token", "id_token_hint",
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
