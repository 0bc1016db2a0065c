package wire

import "encoding/json"

// Token is a successful answer of the token endpoint (RFC 6749 section 5.1, RFC 8693 section 2.2.1).
type Token struct {
	// AccessToken is the credential: a token, or with TokenType "N_A" the text that IssuedTokenType names.
	AccessToken string `json:"access_token"`
	// IssuedTokenType is the type of AccessToken (RFC 8693 section 3); "" for an access token outside of a token exchange.
	IssuedTokenType string `json:"issued_token_type,omitempty"`
	// TokenType is "DPoP" (RFC 9449 section 5), "Bearer" (RFC 6750), or "N_A" for a credential that is not an access token.
	TokenType string `json:"token_type"`
	// ExpiresIn is the lifetime of AccessToken in seconds.
	ExpiresIn int64 `json:"expires_in"`
	// Scope is the granted scope, which may be narrower than the requested one.
	Scope string `json:"scope"`
	// Details are the granted authorization details (RFC 9396 section 7), when the request had some.
	Details []Detail `json:"authorization_details,omitempty"`
	// Endpoint is where a placeholder opens sessions; nil for every other credential.
	Endpoint *Endpoint `json:"endpoint,omitempty"`
	// Class is how the provider revokes the credential; "" for ebb's own tokens.
	Class Class `json:"revocability,omitempty"`
	// LeaseID names the credential in the audit log and at the revocation endpoint. It is the jti of an own token.
	LeaseID string `json:"lease_id,omitempty"`
}

// Detail is one authorization details object (RFC 9396 section 2).
type Detail struct {
	// Type is always DetailType.
	Type string `json:"type"`
	// Provider is the name of a provider.
	Provider string `json:"provider"`
	// Identifier is the resource path of the scopes, patterns included.
	Identifier string `json:"identifier"`
	// Actions are the actions of the scopes: one scope for each.
	Actions []string `json:"actions"`
	// Locations is empty or holds one resource URI (RFC 8707).
	Locations []string `json:"locations,omitempty"`
}

// DetailType is the one Detail.Type that ebb understands.
const DetailType = "ebb_credential"

// Endpoint is where the sessions of a credential are opened, with the placeholder as the password.
type Endpoint struct {
	// Protocol is "postgresql".
	Protocol string `json:"protocol"`
	// Host is name:port.
	Host string `json:"host"`
	// Database is the name of the database.
	Database string `json:"database"`
}

// Binding is the key that a credential is bound to (RFC 7800 section 3.1). At most one member is set.
type Binding struct {
	// JKT is the SHA-256 thumbprint of a JWK, base64url (RFC 7638, RFC 9449 section 6.1).
	JKT string `json:"jkt,omitempty"`
	// X5T is the SHA-256 of a DER certificate, base64url (RFC 8705 section 3.1).
	X5T string `json:"x5t#S256,omitempty"`
}

// Backchannel is a successful answer of the backchannel endpoint (CIBA Core section 7.3).
type Backchannel struct {
	// AuthReqID is the code to poll the token endpoint with.
	AuthReqID string `json:"auth_req_id"`
	// ExpiresIn is the lifetime of AuthReqID in seconds.
	ExpiresIn int64 `json:"expires_in"`
	// Interval is the time between polls in seconds.
	Interval int64 `json:"interval"`
}

// Introspection is the answer of the introspection endpoint (RFC 7662 section 2.2). Of an inactive token only Active
// is set. The claims are those of the token.
type Introspection struct {
	// Active says whether the token is good at this moment. Do not cache it.
	Active bool `json:"active"`
	// TokenType is "DPoP" or "Bearer".
	TokenType string `json:"token_type,omitempty"`
	// Scope is the scope of the token.
	Scope string `json:"scope,omitempty"`
	// ClientID is the sandbox that the token was issued to.
	ClientID string `json:"client_id,omitempty"`
	// Expires is the expiry of the token in Unix seconds.
	Expires int64 `json:"exp,omitempty"`
	// IssuedAt is when the token was issued, in Unix seconds.
	IssuedAt int64 `json:"iat,omitempty"`
	// NotBefore is when the token begins, in Unix seconds.
	NotBefore int64 `json:"nbf,omitempty"`
	// Subject is the owner of the task.
	Subject string `json:"sub,omitempty"`
	// Audience is the resource that the token is for (RFC 8707).
	Audience string `json:"aud,omitempty"`
	// Issuer is ebb's public base URL.
	Issuer string `json:"iss,omitempty"`
	// ID is the id of the token's lease.
	ID string `json:"jti,omitempty"`
	// Txn is the transaction that joins the audit entries about the token (RFC 8417 section 2.2).
	Txn string `json:"txn,omitempty"`
	// Binding is the key that the token is bound to.
	Binding *Binding `json:"cnf,omitempty"`
	// Actor is the sandbox that acts, and inside it the sandboxes that delegated to it (RFC 8693 section 4.1).
	Actor json.RawMessage `json:"act,omitempty"`
	// Details are the authorization details of the token (RFC 9396 section 9.2).
	Details []Detail `json:"authorization_details,omitempty"`
}
