package broker

import (
	"encoding/json"
	"time"

	"ebb/attest"
	"ebb/attest/dpop"
	"ebb/broker/agenttext"
	"ebb/broker/provider"
	"ebb/scopes"
)

// Role is what a principal may do. Roles are configured, never claimed.
type Role string

// Roles of principals.
const (
	RoleViewer         Role = "viewer"          // sees what goes on: neither the record nor what an agent wrote
	RoleRunner         Role = "runner"          // opens, beats and completes its own tasks
	RoleApprover       Role = "approver"        // decides requests of its groups
	RoleAuditor        Role = "auditor"         // reads everything, changes nothing
	RoleOperator       Role = "operator"        // everything but approving
	RoleResourceServer Role = "resource_server" // introspects and follows the feed for its audiences
)

// Principal is an authenticated operator, runner, approver, auditor or resource
// server. Sandboxes are never principals.
type Principal struct {
	ID        string   `json:"id"`
	Roles     []Role   `json:"roles"`
	Groups    []string `json:"groups,omitempty"`    // of an approver
	Audiences []string `json:"audiences,omitempty"` // resource URIs of a resource server
	// Also are other names of the same person, under which somebody may know the owner of
	// a task: they give nothing, and keep from deciding.
	Also []string `json:"-"`
	// Bounds are what an approver may decide: a request must be within one of them. Within is
	// the same of single groups of theirs. See Say.
	Bounds []scopes.Set          `json:"-"` // empty = whatever is asked
	Within map[string]scopes.Set `json:"-"` // by group; one that is not named has no limit of its own
	// AuthAt is when the holder of the access token authenticated (auth_time), Until when the
	// token ends. Both are zero where there is no token, or it does not say.
	AuthAt time.Time `json:"-"`
	Until  time.Time `json:"-"`

	doubt error // its proof could not be checked for replay: it may only end things
}

// Possession is what the pipeline proved about the caller's key, once per
// request, before anything else looked at it.
type Possession struct {
	Proof *dpop.Proof // RFC 9449 proof that passed, or nil
	X5T   string      // thumbprint of the TLS client certificate, or ""
	Key   attest.Key  // the same as handed to attestors
	// From is where the caller is, as far as the listener and its proxies know: an
	// address, the /64 of IPv6, or the local user. It shares out; it proves nothing.
	From string
}

// Binding is the confirmation method a token for p gets: DPoP when a proof was
// sent, else the certificate.
func (p Possession) Binding() provider.Binding {
	if p.Proof != nil {
		return provider.Binding{JKT: p.Proof.JKT}
	}
	return provider.Binding{X5T: p.X5T}
}

// TaskSpec is what a runner asks for when it opens a task.
type TaskSpec struct {
	Name      string            `json:"name"`
	Kind      string            `json:"kind"`
	Owner     string            `json:"owner"`
	Labels    map[string]string `json:"labels,omitempty"`
	TTL       Seconds           `json:"ttl_seconds"` // deadline from now
	Ceiling   scopes.Set        `json:"ceiling"`
	Caps      Caps              `json:"caps,omitzero"`
	Expect    Expect            `json:"sandbox_expected"`
	Heartbeat Seconds           `json:"heartbeat_seconds,omitempty"`
	Ticket    bool              `json:"ticket,omitempty"` // also return an enrolment ticket

	Delegation *Delegation `json:"delegation,omitempty"` // nil: the sandbox may not delegate
}

// Ticket is a single-use enrolment ticket (I10). Only its hash is stored.
type Ticket struct {
	Ticket    provider.Secret
	ExpiresAt time.Time
}

// Enrolment is the answer to accepted evidence: a DPoP-bound task token.
type Enrolment struct {
	Token     provider.Secret // typ ebb-task+jwt
	ExpiresAt time.Time
	Task      Task
}

// Subject is who asks for a token, before it was judged. Exactly one of Evidence,
// Assertion and AccessToken is set.
type Subject struct {
	TaskID      string           // named by the client; may be "" when the credential names it
	Evidence    *attest.Evidence // Attestor "" = the one the task's runner registered
	Assertion   string           // private_key_jwt of an enrolled sandbox (RFC 7523 section 2.2)
	AccessToken string           // own token, only to narrow it
	ClientID    string           // form parameter, must equal the subject when sent
	Channel     attest.Channel
	Fault       Kind // what a bad credential is called: RFC 8693 says invalid_request, RFC 7523 invalid_grant or invalid_client
}

// TokenRequest asks for one credential.
type TokenRequest struct {
	Subject    Subject
	Possession Possession
	Scopes     scopes.Set // scope and authorization_details merged
	Details    bool       // authorization_details were used: answer with them
	Resources  []string   // RFC 8707, at most one distinct target per token
	Audiences  []string   // RFC 8693 logical names: a provider's name
	TTL        time.Duration
	Deferred   bool // the client can wait for a person
	Tool       string
	Reason     agenttext.Untrusted
	PublicKey  string // what a provider is to certify, in its own format; at most 16 KiB, printable
	// Delivery is how the credential is to get to where it is used, policy.DeliveryToken or
	// policy.DeliveryEgress; "" = by egress when its provider can and ebb runs it.
	Delivery string
}

// Token is the answer to a TokenRequest.
type Token struct {
	Token     provider.Secret
	Type      string // "DPoP", "Bearer", or "N_A" (RFC 8693 section 2.2.1) when it is no access token
	Format    string // issued_token_type (RFC 8693 section 3); "" = an access token
	ExpiresIn Seconds
	Scopes    scopes.Set
	Details   []scopes.Detail // only when asked with them
	LeaseID   string
	RequestID string
	Class     provider.Class     // how it can be taken back; "" for own tokens, which are refused at once
	Endpoint  *provider.Endpoint // where a placeholder opens sessions; nil = it is for requests, or none
	API       string             // scope of a token for the API: the roles; Scopes is then empty
}

// Revoker is who asks for the end of a token (RFC 7009): a principal, or the
// sandbox that holds the key of the token.
type Revoker struct {
	Principal  *Principal
	Subject    *Subject
	Possession Possession
}

// Completion is the outcome of a task's end: nothing of it is alive.
type Completion struct {
	Task           Task    `json:"task"`
	Already        bool    `json:"already_complete"` // an earlier call ended it
	Revoked        int     `json:"revoked"`          // were live at that moment
	AlreadyExpired int     `json:"already_expired"`
	Withdrawn      int     `json:"withdrawn_pending"`
	Credentials    []Lease `json:"credentials"` // newest first, at most 100; the rest at /v1/leases?task_id=
	// Delegated is how many tasks that were delegated below it, at any depth, ended with
	// it: Revoked and AlreadyExpired count what was theirs too. Owed and Receipt tell of
	// those that had ended before as well.
	Delegated int `json:"delegated_tasks,omitempty"`
	// Owed is how many third-party credentials are not yet known to be dead: they
	// are refused by everything of ebb's, and the lane works on them.
	Owed int `json:"owed"`
	// Receipt says the same of each of them, signed (JWS, RFC 7515); "" without any, and while no key can sign.
	Receipt string `json:"receipt,omitempty"`
}

// Introspection is the RFC 7662 answer; the zero value is inactive.
type Introspection struct {
	Active bool
	Claims json.RawMessage // the claims of the token as a JSON object, nil when inactive
	Type   string          // token_type
}

// Verdict is what an approver posts.
type Verdict struct {
	Approve bool
	Digest  string     // of the facts the approver saw; required to approve
	Scopes  scopes.Set // narrower, or empty
	TTL     Seconds    // shorter, or 0
	Code    DenyCode
	Note    string
	Seen    string // JSON of what the approver was shown; "" = by the API or the command line
	Proof   string // JSON of what proves that the approver wanted this; "" = the session alone
	Choice  string // with a proof: what was signed, in the console's word
	Passkey string // with a proof: by which passkey, its id in hex
	Target  string // the name of the request's target, as the person typed it
	// Present says that the person has just proved who they are, as strongly as the risk asks;
	// only the console sets it.
	Present bool
	// BreakGlass is the period under which the yes is given alone; only the console sets it.
	BreakGlass string
}
