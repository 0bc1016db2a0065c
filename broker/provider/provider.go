package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// Class is how a credential can be revoked. The zero value is the weakest class.
type Class string

// The classes. A driver must never claim a stronger class than is true.
const (
	ClassTTLOnly  Class = "ttl-only" // ends only by expiry
	ClassEventual Class = "eventual" // refused at most Bound after Revoke returned
	ClassInstant  Class = "instant"  // refused from the moment Revoke returned
)

// Revocability is a Class and, when it is eventual, its bound.
type Revocability struct {
	Class Class
	Bound time.Duration // ClassEventual: whole seconds, more than 0; otherwise 0
}

// Binding is the proof-of-possession key a credential is tied to. Exactly one
// member is set (RFC 7800 with one confirmation method).
type Binding struct {
	JKT string `json:"jkt,omitempty"`      // RFC 7638 SHA-256 thumbprint, base64url (RFC 9449 section 6.1)
	X5T string `json:"x5t#S256,omitempty"` // SHA-256 of the DER certificate, base64url (RFC 8705 section 3.1)
}

// Actor is the acting party (RFC 8693 section 4.1): the sandbox, with the sandbox that
// delegated to it inside.
type Actor struct {
	Subject string `json:"sub"`
	Issuer  string `json:"iss"`
	Actor   *Actor `json:"act,omitempty"` // the previous actor; not used for access decisions
}

// Grant is the result of a policy decision. The driver mints exactly this and nothing more.
type Grant struct {
	LeaseID   string            // becomes part of the upstream name, or jti, so that an orphan can be traced back
	Instance  string            // 8 hex digits that name this installation of ebb; see Name
	TaskID    string            // the credential ends with this task
	Sandbox   string            // client_id: the sandbox that requested and will use the credential
	Subject   string            // the task's owner, or the sandbox itself
	Scopes    scopes.Set        // not empty, all of one provider
	Resource  string            // RFC 8707 resource URI, the aud of own tokens
	Binding   Binding           // the key to which the credential must be bound, if the provider supports it
	IssuedAt  time.Time         // the broker's clock
	ExpiresAt time.Time         // the latest expiry; a driver may mint a shorter credential, never a longer one, see Traits.Floor
	Details   bool              // include authorization_details (RFC 9396) in the response
	Txn       string            // correlates request, approval, token, use and revocation
	Actor     *Actor            // RFC 8693 act claim, nil when the sandbox acts for itself
	Claims    map[string]string // collision-resistant private claims (task id, request id)

	// PublicKey is the caller's key to certify, in the driver's own format (ssh: one line of
	// authorized_keys); empty for all other drivers.
	PublicKey string

	// Injected means that the credential stays in ebb: egress adds it to requests, or opens
	// sessions with it. The Handle then holds everything that Inject or Connect needs.
	Injected bool

	// Save stores a handle durably before Mint returns. A driver that makes its credential
	// in several steps calls it before each step whose result could not be found by the
	// lease id. After an error of Save, Mint deletes the credential and returns an error.
	// nil for ebb's own tokens.
	Save func(ctx context.Context, handle secret.Secret) error
}

// Credential is the result of Mint.
type Credential struct {
	Token     secret.Secret // the caller's result: the token itself, or a JSON document of the kind that Format names
	Type      string        // token_type of RFC 6749: "DPoP", "Bearer", or "N_A" (RFC 8693 section 2.2.1) for other than access tokens
	Format    string        // issued_token_type (RFC 8693 section 3); "" = an access token
	ExpiresAt time.Time     // never after Grant.ExpiresAt; from then on ebb refuses the credential and revokes it
	DiesAt    time.Time     // when the provider itself expires it; zero for never
	Handle    secret.Secret // the input of Revoke and Probe; empty when the lease id is sufficient
	// Revocability replaces that of the Traits for this credential when it is weaker; zero
	// means that of the Traits.
	Revocability Revocability
}

// Target is the broker's stored state of a credential, or of a Mint whose result is unknown.
type Target struct {
	LeaseID   string
	Instance  string
	TaskID    string
	Scopes    scopes.Set
	Handle    secret.Secret // from Save or the Credential; empty for none
	IssuedAt  time.Time     //
	ExpiresAt time.Time     // of the lease
	DiesAt    time.Time     // zero when the provider never expires it
	// AcceptedAt is the latest time at which Revoke can have succeeded; zero if Revoke has not succeeded or the
	// time is unknown.
	// Another replica uses it to compute the time from which the revocation holds everywhere.
	AcceptedAt time.Time
	// Now is the wall clock's time for a request that uses the credential. For Revoke and Probe, Now is a time that
	// has certainly passed, so that no credential counts as expired because the clock is ahead.
	Now time.Time
}

// Traits are the properties of a driver that the broker needs before the first mint.
type Traits struct {
	Revocability Revocability
	// ThirdParty means that Mint makes a credential outside ebb. Then an intent must be
	// durable before Mint, and a revocation is pending afterwards (I3). It is false for
	// ebb's own tokens.
	ThirdParty bool
	// Floor is the shortest lifetime that the provider can issue, such as one hour at GitHub. If
	// the lease ends earlier, the broker revokes the credential then.
	Floor time.Duration
	// InjectOnly means that Mint returns a placeholder. The secret leaves ebb only in requests
	// that egress sends (Injector). Any other delivery is refused.
	InjectOnly bool
	// Credentialless means that requests of its leases get no credential and need no placeholder,
	// except for leases that a response has made (Seals). It requires InjectOnly.
	Credentialless bool
	// Seals means that responses to requests of a lease can create credentials (AnswerSealer).
	// Each has a lease and a pending revocation of its own, as credentials of third parties have.
	// The promised revocability is that of the weakest.
	Seals bool
	// Lasting means that the provider never expires credentials (such as a database role),
	// so the broker never gives up a revocation.
	Lasting bool
}

// Driver mints and revokes credentials of one provider. Implementations are safe for concurrent
// use, keep no state that a restart would need, and honour the deadline of every context.
//
// Check wraps ErrUnsupported if it cannot express a scope exactly. Any other error means that it
// could not decide.
//
// Mint must not leave a credential behind when its error wraps ErrRefused or is a *BusyError: both
// mean that nothing was made. After any other error the broker keeps a pending revocation, with
// the handle that was saved or is returned beside the error. A token beside an error is never
// issued: it states that a credential of this class exists until DiesAt.
//
// Revoke is idempotent: an unknown, expired or dead credential is success, as is a lease that was
// never minted. It wraps ErrLost if it cannot know that. Success is the promise of the class: with
// ClassInstant the credential is refused from now on.
type Driver interface {
	Check(scopes.Set) error
	Mint(context.Context, Grant) (Credential, error)
	Revoke(context.Context, Target) error
	Traits() Traits
}

// Upgrader is an Injector whose requests may become WebSockets (RFC 6455). Messages in a WebSocket
// are not checked.
type Upgrader interface {
	// Upgrades reports whether a request that Inject has accepted may.
	Upgrades(*http.Request, Target) bool
}

// Injector is implemented by drivers whose credentials the egress proxy can add
// to a request after it has left the sandbox.
type Injector interface {
	// Injects reports whether Inject knows requests for each of these scopes, all of which
	// Check accepts.
	Injects(scopes.Set) bool
	// Inject adds the credential of a lease to a request and replaces any credential from the
	// sandbox. It uses only the stored Target, so that any replica can do it after any restart.
	// The caller checks that the lease is live. The error wraps ErrElsewhere if the credential is
	// not for this request. After any error the request is unchanged and must not be sent. The
	// caller must not write the URL and headers of the request to a log or a store afterwards.
	Inject(context.Context, *http.Request, Target) error
	// ScopesFor returns scopes of the provider of this name. A lease with any single one of
	// them would let Inject accept the request. It returns none when the driver knows no
	// such scope.
	ScopesFor(name string, r *http.Request) []scopes.Scope
}

// Prober is implemented by drivers that can test whether a credential still works: they use it, or
// look it up by name, and expect a refusal. An error that wraps errors.ErrUnsupported means that
// the state is unknown now and nothing failed. This is the case if only a handle names the
// credential and there is none: then nothing was tested.
type Prober interface {
	Probe(context.Context, Target) (alive bool, err error)
}

// Lister is implemented by drivers that can list the objects that they made. The sweep compares
// the list with the database and revokes unknown objects.
type Lister interface {
	// List yields every object with a name of this instance. A Target holds only the members that
	// Revoke needs.
	List(ctx context.Context, instance string, yield func(Target) error) error
}

// Runner is implemented by drivers that have background work, such as a file that hosts
// read, or keys that rotate. Run returns nil when ctx is done, and an error only when ebb
// cannot continue. It logs and retries other failures.
type Runner interface {
	Run(context.Context) error
}

// Checker is implemented by drivers that can find problems of their configuration at the provider
// without minting. `ebb providers check` calls it first.
type Checker interface {
	CheckSetup(context.Context) []Finding
}

// Certifier is implemented by drivers that certify a key of the caller.
type Certifier interface {
	// SampleKey returns a Grant.PublicKey for a self-test; its private key is discarded.
	SampleKey() (string, error)
}

// Finding is one result of CheckSetup.
type Finding struct {
	Fatal  bool   // nothing can be minted, or credentials cannot be revoked
	What   string // one sentence without secrets
	Remedy string // the next step, as a command where possible
}

// namePrefix is the prefix of all names that ebb gives to objects at a provider.
const namePrefix = "ebb-"

// leasePrefix is the prefix of the broker's lease ids. Names omit it, because some providers
// allow no underscore in names.
const leasePrefix = "lse_"

// nameForm is ebb-<instance>-<lease>: 45 characters that are a DNS label (RFC
// 1123 section 2.1), a PostgreSQL identifier (at most 63 bytes), an STS session
// name ([\w+=,.@-]{2,64}) and a Kubernetes object name.
var nameForm = lazyregexp.New(`^ebb-([0-9a-f]{8})-([0-9a-f]{32})$`)

// Name returns the name of a lease's object at the provider. It allows the object to be
// found by the lease id alone, and distinguishes it from those of other installations. It
// returns "" when either argument is malformed.
func Name(instance, leaseID string) string {
	n := namePrefix + instance + "-" + strings.TrimPrefix(leaseID, leasePrefix)
	if !strings.HasPrefix(leaseID, leasePrefix) || !nameForm.MatchString(n) {
		return ""
	}
	return n
}

// Name returns the name of the grant's lease at the provider. It refuses a grant without a
// lifetime or without the parts of the name, because the object could not be found again.
func (g Grant) Name() (string, error) {
	n := Name(g.Instance, g.LeaseID)
	if n == "" || !g.ExpiresAt.After(g.IssuedAt) {
		return "", Refused("The grant is incomplete.", errors.New("no lease, no instance or no lifetime"))
	}
	return n, nil
}

// SavedName is Name for drivers that save a handle: a grant without Save is refused, too.
func (g Grant) SavedName() (string, error) {
	if g.Save == nil {
		return "", Refused("The grant is incomplete.", errors.New("nothing saves a handle"))
	}
	return g.Name()
}

// LeaseOf is the inverse of Name. ok is false for names of other installations and other
// objects.
func LeaseOf(instance, name string) (leaseID string, ok bool) {
	m := nameForm.FindStringSubmatch(name)
	if m == nil || m[1] != instance {
		return "", false
	}
	return leasePrefix + m[2], true
}

var (
	// ErrUnsupported is wrapped by Check when the driver cannot express a scope exactly: the
	// provider does not have what the caller requested.
	ErrUnsupported = errors.New("scope not supported by this provider")

	// ErrRefused is wrapped by Mint if the provider evaluated the request and refused it, or if
	// ebb's own login is unusable and nothing was sent. In both cases no credential exists, and a
	// retry fails in the same way until a person changes the configuration. Wrapped by Revoke or
	// Probe, it means that nothing was sent and the revocation is still pending. See Refused.
	ErrRefused = errors.New("the provider refused")

	// ErrElsewhere is wrapped by Inject when a credential is not for this request: it has
	// another host, method or path, or can be read in more than one way.
	ErrElsewhere = errors.New("the credential is not for this request")

	// ErrLost is wrapped by Revoke if the credential that Mint may have made cannot be named: the
	// response of Mint was lost, and the provider does not know lease ids. A retry does not help.
	// The credential expires at the Target's DiesAt, and until then it must not be reported as
	// dead.
	ErrLost = errors.New("a credential may have been minted, but its id at the provider is unknown")
)

// ElsewhereError is an ErrElsewhere with its reason.
type ElsewhereError struct {
	Why string // a clause such as "its host ...", without text from the sandbox
}

// Elsewhere returns an ElsewhereError.
func Elsewhere(why string) error { return &ElsewhereError{why} }

// Error implements error.
func (e *ElsewhereError) Error() string { return ErrElsewhere.Error() + ": " + e.Why }

// Unwrap returns ErrElsewhere.
func (e *ElsewhereError) Unwrap() error { return ErrElsewhere }

// RefusedError is an ErrRefused with a sentence for the caller.
type RefusedError struct {
	Public string // one sentence in ASCII without secrets, with the next step
	Cause  error  // for the log
}

// Refused returns a RefusedError.
func Refused(public string, cause error) error { return &RefusedError{Public: public, Cause: cause} }

// Inexact returns the refusal of scopes that the driver cannot express exactly.
func Inexact(cause error) error {
	return Refused("The provider cannot express a scope exactly. Ask for one it documents.", cause)
}

// Error implements error.
func (e *RefusedError) Error() string {
	if e.Cause == nil {
		return e.Public
	}
	return fmt.Sprintf("%s: %v", e.Public, e.Cause)
}

// Unwrap returns ErrRefused and the cause.
func (e *RefusedError) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrRefused}
	}
	return []error{ErrRefused, e.Cause}
}

// BusyError means that the provider limits the rate and has done nothing. After is the wait
// before the next call (Retry-After of RFC 9110 section 10.2.3, or the provider's
// equivalent). From Mint it delays mints, from List lists, and from any other method every
// call.
type BusyError struct {
	After time.Duration // more than 0
	Cause error
}

// Error implements error.
func (e *BusyError) Error() string { return fmt.Sprintf("busy for %s: %v", e.After, e.Cause) }

// Unwrap returns the cause.
func (e *BusyError) Unwrap() error { return e.Cause }
