package broker

import (
	"encoding/json"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// Ticket is a single-use enrolment ticket (I10). Only its hash is stored.
type Ticket struct {
	Ticket    secret.Secret
	ExpiresAt time.Time
}

// Enrolment is the answer to accepted evidence: a DPoP-bound task token.
type Enrolment struct {
	Token     secret.Secret // typ ebb-task+jwt
	ExpiresAt time.Time
	Task      Task
}

// Subject is the unverified identity of a token request's caller. Exactly one of Evidence,
// Assertion and AccessToken is set.
type Subject struct {
	TaskID      string           // named by the client; may be "" when the credential names it
	Evidence    *attest.Evidence // Attestor "" = the one that the task's runner named
	Assertion   string           // private_key_jwt of an enrolled sandbox (RFC 7523 section 2.2)
	AccessToken string           // an own token, only to narrow it
	ClientID    string           // form parameter; must equal the subject when sent
	Channel     attest.Channel
	Fault       Kind // error code for a bad credential: RFC 8693 requires invalid_request, RFC 7523 invalid_grant or invalid_client
	// Backchannel marks a request whose response holds no credential (CIBA Core section 7.3).
	// Because nothing is minted for it, Assertion alone proves the sandbox's key.
	Backchannel bool
}

// Alone reports whether the client assertion is the only proof of a key. A DPoP proof or
// certificate sent with it counts as well, and must be of the same key.
func (s Subject) Alone(p Possession) bool {
	return s.Backchannel && s.Assertion != "" && p.Proof == nil && p.X5T == ""
}

// TokenRequest asks for one credential.
type TokenRequest struct {
	Subject    Subject
	Possession Possession
	Scopes     scopes.Set // scope and authorization_details merged
	Details    bool       // authorization_details were used: the response has them too
	Resources  []string   // RFC 8707, at most one distinct target per token
	Audiences  []string   // RFC 8693 logical names: a provider's name
	TTL        time.Duration
	Deferred   bool // the client can wait for a person
	Tool       string
	Reason     agenttext.Untrusted
	PublicKey  string // key that a provider is to certify, in the provider's format; at most 16 KiB, printable
	// Delivery is how the credential reaches its use: policy.DeliveryToken or
	// policy.DeliveryEgress; "" = by egress if its provider supports that and ebb runs egress.
	Delivery string
	// Content is the id of the facts of a refused request (ContentID), to which an approval is then
	// limited; "" = an approval is for every request that the scopes cover.
	Content string
}

// Token is the answer to a TokenRequest.
type Token struct {
	Token     secret.Secret
	Type      string // "DPoP", "Bearer", or "N_A" (RFC 8693 section 2.2.1) when it is no access token
	Format    string // issued_token_type (RFC 8693 section 3); "" = an access token
	ExpiresIn Seconds
	Scopes    scopes.Set
	Details   []scopes.Detail // only when asked with them
	LeaseID   string
	RequestID string
	Class     provider.Class     // how it can be revoked; "" for own tokens, which are refused at once
	Endpoint  *provider.Endpoint // where a placeholder opens sessions; nil = it is for requests, or no placeholder
	API       string             // scope of a token for the API: its roles; Scopes is then empty
}

// Revoker is the caller that revokes a token (RFC 7009): a principal, or the sandbox that holds
// the token's key.
type Revoker struct {
	Principal  *Principal
	Subject    *Subject
	Possession Possession
}

// Introspection is the RFC 7662 answer; the zero value is inactive.
type Introspection struct {
	Active bool
	Claims json.RawMessage // the claims of the token as a JSON object, nil when inactive
	Type   string          // token_type
}

// Deliver replaces a credential that egress keeps by its placeholder.
func (t *Token) Deliver(p Provider, l Lease) {
	if l.Delivery != policy.DeliveryEgress {
		return
	}
	t.Token, t.Type, t.Format = provider.Placeholder(l.ID), "N_A", provider.PlaceholderFormat
	if at, is := Endpoint(p, l.Scopes); is {
		t.Endpoint = &at
	}
}
