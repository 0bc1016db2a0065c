package broker

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/broker/agenttext"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// EnrollName is the name under which the enroll attestor must be configured. It is built into
// the broker, and there is one.
const EnrollName = "enroll"

// Action is ebb's action when a sandbox exits (on_sandbox_exit) or misses its re-attestation
// deadline.
type Action string

// Actions. A zero Action means nothing at a missed re-attestation deadline, because minting has
// stopped by then, and complete at a sandbox exit.
const (
	ActionNothing  Action = "nothing"
	ActionPause    Action = "pause"    // no token is issued until the task's runner resumes it; live tokens stay
	ActionComplete Action = "complete" // the task ends, and every credential with it
)

// Liveness configures how long the evidence of one attestor is valid, and the actions
// afterwards.
type Liveness struct {
	// OnSandboxExit is the action when the attestor sees a sandbox exit, or when its control
	// connection ends (Hold); "" = complete.
	OnSandboxExit Action
	// Reattest is how long a sandbox may go on without fresh evidence; 0 = as long as its
	// evidence is valid. After it no token is issued until the sandbox enrols again with the
	// same key.
	Reattest time.Duration
	// OnMissedAttestation is the action when the sandbox has not enrolled again in time; "" = nothing more.
	OnMissedAttestation Action
}

// MinReattest is the shortest re-attestation interval that leaves a sandbox time to enrol
// again.
const MinReattest = 10 * time.Second

// Dependency is the state of one system that the broker needs.
type Dependency struct {
	Name    string
	Err     error  // why it cannot be used; for the log
	Warning string // it works, and the operator should look at it; may be shown
	Detail  string
}

// Role is what a principal may do. Roles are configured, never taken from a token's claims.
type Role string

// Roles of principals.
const (
	RoleViewer         Role = "viewer"          // sees tasks, requests and credentials; neither the audit log nor the agents' texts
	RoleRunner         Role = "runner"          // opens, heartbeats and completes its own tasks
	RoleApprover       Role = "approver"        // decides requests of its groups
	RoleAuditor        Role = "auditor"         // reads everything, changes nothing
	RoleOperator       Role = "operator"        // everything except deciding requests
	RoleResourceServer Role = "resource_server" // introspects, and follows the revocation feed, for its audiences
)

// Principal is an authenticated operator, runner, approver, auditor or resource
// server. Sandboxes are never principals.
type Principal struct {
	ID        string   `json:"id"`
	Roles     []Role   `json:"roles"`
	Groups    []string `json:"groups,omitempty"`    // of an approver
	Audiences []string `json:"audiences,omitempty"` // resource URIs of a resource server
	// Also are other names of the same person, by which a task may name its owner. They grant
	// nothing; they only keep the person from deciding their own requests.
	Also []string `json:"-"`
	// Bounds limit an approver: a request must be within one of them. Within limits single
	// groups of theirs. See Say.
	Bounds []scopes.Set          `json:"-"` // empty = no limit
	Within map[string]scopes.Set `json:"-"` // by group; a group that is not named has no limit of its own
	// AuthAt is when the holder of the access token authenticated (auth_time), Until when the
	// token ends. Both are zero without a token, or when the token does not name them.
	AuthAt time.Time `json:"-"`
	Until  time.Time `json:"-"`

	Doubt error // why its proof could not be checked for replay: it may only end tasks and credentials; nil = it was checked
}

// Possession is the proof of the caller's key, checked once for each request and before
// anything else.
type Possession struct {
	Proof *dpop.Proof // RFC 9449 proof that passed, or nil
	X5T   string      // thumbprint of the TLS client certificate, or ""
	Key   attest.Key  // the key as passed to attestors
	// From is the address of the caller, as far as the listener and its proxies know it: an
	// IPv4 address, the /64 of IPv6, or the local user. It divides rate limits; it proves
	// nothing.
	From string
}

// Binding returns the confirmation method (cnf) of a token for p: the DPoP key when a proof was
// sent, otherwise the certificate.
func (p Possession) Binding() provider.Binding {
	if p.Proof != nil {
		return provider.Binding{JKT: p.Proof.JKT}
	}
	return provider.Binding{X5T: p.X5T}
}

// TaskSpec is a runner's request to open a task.
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

// Completion is the outcome of a task's end: none of its credentials is accepted any more.
type Completion struct {
	Task           Task
	Already        bool // an earlier call ended it
	Revoked        int  // credentials that were live at that moment
	AlreadyExpired int
	Withdrawn      int
	Credentials    []Lease // newest first, at most 100; the rest at /v1/leases?task_id=
	// Delegated is the number of tasks delegated below it, at any depth, that ended with it.
	// Revoked and AlreadyExpired include their credentials. PendingRevocations and Receipt also cover
	// delegated tasks that had ended before.
	Delegated int
	// PendingRevocations is the number of third-party credentials whose revocation is pending. ebb refuses
	// them everywhere, and the revocation queue works on them.
	PendingRevocations int
	// Receipt lists the outcome of each credential, signed (JWS, RFC 7515); "" without
	// credentials, or while no key can sign.
	Receipt string
}

// Introspection is the RFC 7662 answer; the zero value is inactive.
type Introspection struct {
	Active bool
	Claims json.RawMessage // the claims of the token as a JSON object, nil when inactive
	Type   string          // token_type
}

// Verdict is the decision that an approver submits.
type Verdict struct {
	Approve bool
	Digest  string     // of the facts the approver saw; required to approve
	Scopes  scopes.Set // narrower, or empty
	TTL     Seconds    // shorter, or 0
	Code    DenyCode
	Note    string
	Seen    string // evidence snapshot: JSON of what the approver was shown; "" = decided by the API or the command line
	Proof   string // JSON of the approver's proof of intent; "" = the session alone
	Choice  string // with Proof: the decision that was signed, in the console's word
	Passkey string // with Proof: id of the passkey, in hex
	Target  string // the name of the request's target, as the person typed it
	// Present means that the person has just proved their presence, as strongly as the risk
	// demands. Only the console sets it.
	Present  bool
	Presence Presence // with Present: how they proved it
	// BreakGlass is the period under which the person approves alone; only the console sets it.
	BreakGlass string
}

// Provider is a configured provider instance. Its name is the first part of
// every scope it serves.
type Provider struct {
	Driver   provider.Driver
	Kind     string         // kind of driver, e.g. "jwt"
	Resource string         // RFC 8707 resource URI, the aud of its tokens
	Words    provider.Words // the operator's description of which effects can be undone
	MaxTTL   time.Duration  // longest lifetime of a credential; 0 = Limits.MaxTTL

	// For third parties only. Mints and revocations have Parallel calls each.
	Parallel int // concurrent calls; 0 = 16
	MaxLive  int // credentials in no final state; 0 = no limit. Replicas count them every few seconds
}

func (l Liveness) Check(name string) error {
	switch {
	case !slices.Contains([]Action{"", ActionNothing, ActionPause, ActionComplete}, l.OnSandboxExit):
		return fmt.Errorf("attestor %s: on_sandbox_exit must be complete, pause or nothing", name)
	case !slices.Contains([]Action{"", ActionNothing, ActionComplete}, l.OnMissedAttestation):
		return fmt.Errorf("attestor %s: on_missed_attestation must be complete or nothing", name)
	case l.OnMissedAttestation == ActionComplete && l.Reattest == 0:
		return fmt.Errorf("attestor %s: on_missed_attestation complete needs reattest: set reattest to the interval", name)
	case l.Reattest < 0 || l.Reattest > 0 && l.Reattest < MinReattest:
		return fmt.Errorf("attestor %s: reattest must be at least %s", name, MinReattest)
	case l.Reattest > 0 && name == EnrollName:
		return fmt.Errorf("attestor %s: an enrolment ticket can be used once, so that its sandbox cannot attest again: leave out reattest", name)
	}
	return nil
}

// Sealer encrypts revocation handles at rest (I8). A sealed handle names its key and opens only
// for the lease for which it was sealed.
type Sealer interface {
	// Seal encrypts s with the newest key. sealed is printable ASCII; the key's id stands
	// between its only two dots.
	Seal(leaseID string, s secret.Secret) (sealed string, err error)
	// Open fails when the key is missing, or when sealed was made for another lease or was
	// altered.
	Open(leaseID, sealed string) (secret.Secret, error)
	// KeyID returns the id of the key that Seal uses now, as it appears in sealed handles.
	KeyID() string
	// Err returns why sealing or opening fails now, or will fail after the next start.
	Err() error
}
