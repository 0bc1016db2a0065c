package identity

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/broker/provider"
)

// Authenticator authenticates the caller of a request: by evidence, by a client assertion (RFC
// 7523) or by one of ebb's own tokens.
type Authenticator struct {
	issuerURL  string
	keys       *keys.Ring
	liveStore  broker.LiveStore
	limits     broker.Limits
	live       *kernel.LiveState
	principals map[string]*broker.PrincipalConfig
	revoked    *kernel.RevokedSet

	admission *kernel.Admitter
	clock     *kernel.Timekeeper
	evidence  *Evidence
	log       *kernel.Recorder

	verified *expirable.LRU[[32]byte, *kernel.OwnToken]
	decoys   jose.KeySource
}

// Open initializes the internal state. Call it once, after the other fields are set.
func (au *Authenticator) Open() {
	au.verified = expirable.NewLRU[[32]byte, *kernel.OwnToken](8192, nil, time.Minute)
}

// Ask authenticates the caller of a token request by exactly one of: evidence, a client
// assertion of an enrolled sandbox, or an own token to be narrowed. All three lead to the same
// task, sandbox and proved key, and the issued token is bound to that key.
func (au *Authenticator) Ask(ctx context.Context, why kernel.Purpose, s broker.Subject, p broker.Possession) (kernel.Caller, error) {
	if p.Key.JKT == "" && !s.Alone(p) {
		return kernel.Caller{}, broker.E(broker.InvalidProof, "Prove your key: send a DPoP proof or a client certificate.", nil)
	}
	var a kernel.Caller
	var err error
	switch {
	case s.Evidence != nil:
		ev := *s.Evidence
		ev.Key, ev.Channel = p.Key, s.Channel
		a, err = au.evidence.identify(ctx, why, s.TaskID, ev, p, s.Fault)
	case s.Assertion != "":
		a, err = au.askByAssertion(ctx, why, s, p)
	case s.AccessToken != "":
		a, err = au.askByToken(ctx, why, s, p)
	default:
		err = broker.E(broker.Unauthenticated, "Authenticate: send a subject token or a client assertion.", nil)
	}
	if err != nil {
		return kernel.Caller{}, err
	}
	// A client authentication method of an attestor uses the evidence's subject as client id.
	own := s.Evidence != nil && s.Evidence.Method != "" && s.ClientID == a.Sandbox.Subject
	if s.ClientID != "" && s.ClientID != a.Sandbox.ID && !own {
		return kernel.Caller{}, broker.E(broker.Unauthenticated, "client_id differs from the sandbox that was authenticated.", nil)
	}
	if s.TaskID != "" && s.TaskID != a.Live.ID {
		return kernel.Caller{}, broker.E(s.Fault, "task_id differs from the task of the credential.", nil)
	}
	a.Bind, a.Backchannel = p.Binding(), s.Backchannel
	if s.Alone(p) {
		a.Bind = provider.Binding{JKT: a.Sandbox.JKT}
	}
	return a, nil
}

// askByAssertion authenticates an enrolled sandbox by private_key_jwt with the key that it
// enrolled. Sandboxes of other attestors must present their evidence each time, because
// otherwise the key would stay valid longer than the evidence.
func (au *Authenticator) askByAssertion(ctx context.Context, why kernel.Purpose, s broker.Subject, p broker.Possession) (kernel.Caller, error) {
	sandbox, err := au.AssertedSandbox(ctx, s.Assertion, p)
	if err != nil {
		return kernel.Caller{}, err
	}
	if sandbox.JKT != p.Key.JKT && !s.Alone(p) {
		return kernel.Caller{}, broker.E(broker.InvalidProof, "The DPoP proof must be made with the key of the sandbox.", nil)
	}
	live, err := au.admission.Admit(ctx, why, broker.TaskOf(sandbox.ID), p, broker.Unauthenticated)
	if err != nil {
		return kernel.Caller{}, err
	}
	return kernel.Caller{Live: live, Sandbox: sandbox}, nil
}

// AssertedSandbox verifies a client assertion of an enrolled sandbox.
func (au *Authenticator) AssertedSandbox(ctx context.Context, assertion string, p broker.Possession) (broker.Sandbox, error) {
	unverified, err := jose.Parse(assertion, jose.Limits{})
	if err != nil {
		return broker.Sandbox{}, broker.E(broker.Unauthenticated, "The client assertion is not an acceptable JWT.", err)
	}
	id := unverified.Claims().Subject
	// The live store knows every sandbox that may make requests. The caller is not
	// authenticated yet: random names in its requests must not cause database reads.
	if au.live.Incomplete.Load() {
		return broker.Sandbox{}, broker.StoreError(broker.ErrLost)
	}
	var t broker.Live
	if broker.ValidID(broker.SandboxPrefix, id) {
		if t, err = au.liveStore.Admit(ctx, broker.Admission{TaskID: broker.TaskOf(id)}); err != nil && !errors.Is(err, broker.ErrNotFound) {
			return broker.Sandbox{}, broker.StoreError(err)
		}
	}
	keys, holder := noClient, false
	if err == nil && t.Sandbox != nil && t.Sandbox.Attestor == broker.EnrollName {
		key, err := jose.ParseJWK([]byte(t.Sandbox.JWK))
		if err != nil {
			return broker.Sandbox{}, broker.StoreError(err)
		}
		keys, holder = func(jose.Header) (jose.Key, error) { return key, nil }, au.admission.ProvesKey(p, key)
	}
	err = au.verifyAssertion(ctx, assertion, id, keys, holder,
		broker.Rate{Key: "assert:" + t.ID, Limit: 2 * max(kernel.EndsPerMinute, t.Caps.MintsPerMinute), Per: time.Minute})
	if err != nil {
		return broker.Sandbox{}, err
	}
	return *t.Sandbox, nil
}

// askByToken lets a sandbox narrow one of its own tokens. The token must be live, and the
// result is never wider, longer or for another resource (see frame).
func (au *Authenticator) askByToken(ctx context.Context, why kernel.Purpose, s broker.Subject, p broker.Possession) (kernel.Caller, error) {
	t, err := au.VerifyOwn(s.AccessToken, "", au.clock.Now())
	if err != nil {
		if e := broker.AsError(err); e.Kind == broker.Unavailable {
			return kernel.Caller{}, e
		}
		return kernel.Caller{}, broker.E(s.Fault, broker.AsError(err).Public, err)
	}
	if t.TaskID == "" || t.Scopes.Empty() {
		return kernel.Caller{}, broker.E(s.Fault, "A token without a task or without scopes cannot be exchanged.", nil)
	}
	if err := t.BoundTo(p); err != nil {
		return kernel.Caller{}, broker.E(s.Fault, broker.AsError(err).Public, err)
	}
	live, err := au.admission.Admit(ctx, why, t.TaskID, p, s.Fault)
	if err != nil {
		return kernel.Caller{}, err
	}
	if len(t.Lineage) > kernel.MaxLineage {
		return kernel.Caller{}, broker.E(s.Fault, "The token was narrowed too many times in a row. Narrow an earlier one.", nil)
	}
	alive, err := au.AliveToken(ctx, t)
	if err != nil {
		return kernel.Caller{}, broker.StoreError(err)
	}
	if !alive || live.Sandbox == nil || live.Sandbox.ID != t.ClientID {
		return kernel.Caller{}, broker.E(s.Fault, "The token is revoked or its task is complete.", nil)
	}
	return kernel.Caller{Live: live, Sandbox: *live.Sandbox, NotAfter: t.Exp, Parent: t, Lineage: t.Lineage}, nil
}
