package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// Class says how a credential can be taken back. The zero value is the weakest
// promise.
type Class string

// Revocability classes. Never claim more than is true.
const (
	ClassTTLOnly  Class = "ttl-only" // dies by expiry alone
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

// Actor is who acts for the subject (RFC 8693 section 4.1): the sandbox, and inside
// it the one that delegated to it.
type Actor struct {
	Subject string `json:"sub"`
	Issuer  string `json:"iss"`
	Actor   *Actor `json:"act,omitempty"` // who acted before; nobody judges by it
}

// Grant is the result of a policy decision. The driver mints exactly this and nothing more.
type Grant struct {
	LeaseID   string            // becomes part of the upstream name, or jti, so that an orphan can be traced back
	Instance  string            // 8 hex digits that name this installation of ebb; see Name
	TaskID    string            // task the credential dies with
	Sandbox   string            // client_id: who asked and will use it
	Subject   string            // on whose behalf: the task's owner, or the sandbox itself
	Scopes    scopes.Set        // never empty, all of one provider
	Resource  string            // RFC 8707 resource URI, the aud of own tokens
	Binding   Binding           // key the credential must be bound to where the provider can
	IssuedAt  time.Time         // the broker's clock
	ExpiresAt time.Time         // hard end; a driver may mint shorter, never longer, see Traits.Floor
	Details   bool              // answer with authorization_details (RFC 9396) too
	Txn       string            // joins request, approval, token, use and revocation
	Actor     *Actor            // RFC 8693 act claim, nil when the sandbox acts for itself
	Claims    map[string]string // collision-resistant private claims (task id, request id)

	// PublicKey is what the caller wants certified, in the driver's own format
	// (ssh: one line of authorized_keys); empty for all other drivers.
	PublicKey string

	// Injected means that the credential stays in ebb: egress adds it to requests, or opens
	// sessions with it. The Handle then holds everything that Inject or Connect needs.
	Injected bool

	// Save makes a handle durable before Mint returns. A driver whose credential
	// comes into being in several steps calls it before each step whose result
	// could not be found again by the lease id; after an error it takes back what
	// it has made and gives up. nil for own tokens.
	Save func(ctx context.Context, handle secret.Secret) error
}

// Credential is what a driver minted.
type Credential struct {
	Token     secret.Secret // what the caller gets: the token itself, or a JSON document of the kind Format names
	Type      string        // token_type of RFC 6749: "DPoP", "Bearer", or "N_A" (RFC 8693 section 2.2.1) when it is no access token
	Format    string        // issued_token_type (RFC 8693 section 3); "" = an access token
	ExpiresAt time.Time     // never after Grant.ExpiresAt: from then on ebb refuses it and takes it back
	DiesAt    time.Time     // when the provider refuses it by itself, whatever ebb does; zero = never
	Handle    secret.Secret // what Revoke and Probe need; empty when the lease id alone is enough
	// Revocability replaces that of the Traits for this one credential, when it is
	// weaker; zero = as in the Traits.
	Revocability Revocability
}

// Target is the broker's stored state of a credential, or of a Mint whose result is unknown.
type Target struct {
	LeaseID   string
	Instance  string
	TaskID    string
	Scopes    scopes.Set
	Handle    secret.Secret // of Save or of the Credential; empty when there was none
	IssuedAt  time.Time     //
	ExpiresAt time.Time     // of the lease
	DiesAt    time.Time     // zero = never by itself
	// AcceptedAt is the time at which Revoke succeeded; zero if it has not or the time is unknown.
	// Another replica uses it to compute the time from which the revocation holds everywhere.
	AcceptedAt time.Time
	Now        time.Time // the broker's clock
}

// Traits is what the broker must know of a driver before the first mint.
type Traits struct {
	Revocability Revocability
	// ThirdParty: something comes into being outside ebb, so that an intent must
	// be durable first and an end is pending afterwards (I3). Own tokens are false.
	ThirdParty bool
	// Floor is the shortest lifetime that the provider can issue, such as one hour at GitHub. If
	// the lease ends earlier, the broker revokes the credential then.
	Floor time.Duration
	// InjectOnly means that Mint returns a placeholder. The secret leaves ebb only in requests
	// that egress sends (Injector). Any other delivery is refused.
	InjectOnly bool
	// Bare: nothing is added to the requests that its leases are for, and none has to hold a
	// placeholder, but for leases that an answer has made (Seals). It is InjectOnly too.
	Bare bool
	// Seals means that responses to requests of a lease can create credentials (AnswerSealer).
	// Each has a lease and a pending revocation of its own, as credentials of third parties have.
	// The promised revocability is that of the weakest.
	Seals bool
	// Lasting credentials never die by themselves (a database role): the broker
	// never gives up revoking one.
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
	// ScopesFor returns scopes of the provider of this name, each of which alone makes a lease that the
	// request is for as Inject judges it; none = the driver knows no such scope.
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

// Runner is implemented by drivers that look after something while ebb runs: a
// file that hosts read, keys that rotate. Run returns nil when ctx is done, and an
// error only when ebb cannot go on; what fails it logs and tries again.
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
	// SampleKey returns a Grant.PublicKey for a self-test; its private half is thrown away.
	SampleKey() (string, error)
}

// Finding is one thing that CheckSetup found.
type Finding struct {
	Fatal  bool   // nothing can be minted, or what is minted cannot be revoked
	What   string // one sentence without secrets
	Remedy string // what to do, to paste where that is possible
}

// namePrefix begins every name that ebb gives to something at a provider.
const namePrefix = "ebb-"

// leasePrefix is how the broker's lease ids begin; it is left out of names, which
// some providers allow no underscore in.
const leasePrefix = "lse_"

// nameForm is ebb-<instance>-<lease>: 45 characters that are a DNS label (RFC
// 1123 section 2.1), a PostgreSQL identifier (at most 63 bytes), an STS session
// name ([\w+=,.@-]{2,64}) and a Kubernetes object name.
var nameForm = regexp.MustCompile(`^ebb-([0-9a-f]{8})-([0-9a-f]{32})$`)

// Name is what a driver calls the upstream object of a lease, so that it can be
// found again with the lease id alone and no other installation takes it for its
// own. It returns "" when either part has not the form of one.
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

// LeaseOf is the inverse of Name. ok is false for names of others.
func LeaseOf(instance, name string) (leaseID string, ok bool) {
	m := nameForm.FindStringSubmatch(name)
	if m == nil || m[1] != instance {
		return "", false
	}
	return leasePrefix + m[2], true
}

var (
	// ErrUnsupported is wrapped by Check when a driver cannot express a scope
	// exactly. The caller asked for something this provider does not have.
	ErrUnsupported = errors.New("scope not supported by this provider")

	// ErrRefused is wrapped by Mint if the provider evaluated the request and refused it, or if
	// ebb's own login is unusable and nothing was sent. In both cases no credential exists, and a
	// retry fails in the same way until a person changes the configuration. Wrapped by Revoke or
	// Probe, it means that nothing was sent and the revocation is still pending. See Refused.
	ErrRefused = errors.New("the provider refused")

	// ErrElsewhere is wrapped by Inject when a credential is not for this request:
	// another host, method or path, or one that can be read in more than one way.
	ErrElsewhere = errors.New("the credential is not for this request")

	// ErrLost is wrapped by Revoke if the credential that Mint may have made cannot be named: the
	// response of Mint was lost, and the provider does not know lease ids. A retry does not help.
	// The credential expires at the Target's DiesAt, and until then it must not be reported as
	// dead.
	ErrLost = errors.New("what may have been minted cannot be named")
)

// ElsewhereError is an ErrElsewhere and why.
type ElsewhereError struct {
	Why string // half a sentence ("its host ..."), which holds nothing that the sandbox wrote
}

// Elsewhere makes an ElsewhereError.
func Elsewhere(why string) error { return &ElsewhereError{why} }

// Error implements error.
func (e *ElsewhereError) Error() string { return ErrElsewhere.Error() + ": " + e.Why }

// Unwrap makes errors.Is(err, ErrElsewhere) hold.
func (e *ElsewhereError) Unwrap() error { return ErrElsewhere }

// RefusedError is an ErrRefused with a sentence for the caller.
type RefusedError struct {
	Public string // one sentence, ASCII, no secrets, says what to do next
	Cause  error  // for the log
}

// Refused makes a RefusedError.
func Refused(public string, cause error) error { return &RefusedError{Public: public, Cause: cause} }

// Inexact refuses scopes that the driver cannot express exactly.
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

// Unwrap makes errors.Is(err, ErrRefused) hold.
func (e *RefusedError) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrRefused}
	}
	return []error{ErrRefused, e.Cause}
}

// BusyError says that the provider limits the rate: nothing was made, and After
// is how long to wait before the next call (Retry-After of RFC 9110 section 10.2.3,
// or what the provider has in its place). From Mint it keeps mints waiting, from
// List lists; from all else, every call.
type BusyError struct {
	After time.Duration // more than 0
	Cause error
}

// Error implements error.
func (e *BusyError) Error() string { return fmt.Sprintf("busy for %s: %v", e.After, e.Cause) }

// Unwrap gives the cause.
func (e *BusyError) Unwrap() error { return e.Cause }
