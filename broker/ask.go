package broker

import (
	"context"
	"errors"
	"time"

	"ebb/attest/jose"
)

// ask finds out who asks for a token: exactly one of evidence, a client
// assertion of an enrolled sandbox, or an own token to be narrowed. All three
// end at the same task, the same sandbox and the same proved key.
func (b *Broker) ask(ctx context.Context, why purpose, s Subject, p Possession) (asker, error) {
	if p.Key.JKT == "" {
		return asker{}, E(InvalidProof, "Prove your key: send a DPoP proof or a client certificate.", nil)
	}
	var a asker
	var err error
	switch {
	case s.Evidence != nil:
		ev := *s.Evidence
		ev.Key, ev.Channel = p.Key, s.Channel
		a, err = b.identify(ctx, why, s.TaskID, ev, p, s.Fault)
	case s.Assertion != "":
		a, err = b.askByAssertion(ctx, why, s, p)
	case s.AccessToken != "":
		a, err = b.askByToken(ctx, why, s, p)
	default:
		err = E(Unauthenticated, "Say who you are: send a subject token or a client assertion.", nil)
	}
	if err != nil {
		return asker{}, err
	}
	// A method of the evidence's own has client ids of its own: the subject's.
	own := s.Evidence != nil && s.Evidence.Method != "" && s.ClientID == a.sandbox.Subject
	if s.ClientID != "" && s.ClientID != a.sandbox.ID && !own {
		return asker{}, E(Unauthenticated, "client_id differs from the sandbox that was authenticated.", nil)
	}
	if s.TaskID != "" && s.TaskID != a.live.ID {
		return asker{}, E(s.Fault, "task_id differs from the task of the credential.", nil)
	}
	return a, nil
}

// askByAssertion authenticates an enrolled sandbox by private_key_jwt with the
// key it enrolled. Sandboxes of other attestors have to show their evidence
// each time, or a key would outlive what vouched for it.
func (b *Broker) askByAssertion(ctx context.Context, why purpose, s Subject, p Possession) (asker, error) {
	sandbox, err := b.assertedSandbox(ctx, s.Assertion)
	if err != nil {
		return asker{}, err
	}
	if sandbox.JKT != p.Key.JKT {
		return asker{}, E(InvalidProof, "The DPoP proof must be made with the key of the sandbox.", nil)
	}
	live, err := b.admit(ctx, why, taskOf(sandbox.ID), p, Unauthenticated)
	if err != nil {
		return asker{}, err
	}
	return asker{live: live, sandbox: sandbox}, nil
}

// assertedSandbox verifies a client assertion of an enrolled sandbox.
func (b *Broker) assertedSandbox(ctx context.Context, assertion string) (Sandbox, error) {
	unverified, err := jose.Parse(assertion, jose.Limits{})
	if err != nil {
		return Sandbox{}, E(Unauthenticated, "The client assertion is not an acceptable JWT.", err)
	}
	id := unverified.Claims().Subject
	// The ledger knows every sandbox that can ask for something. Nobody is known
	// yet: whoever sends names at random must not make the journal read.
	if b.down.Load() {
		return Sandbox{}, unavailable(ErrLost)
	}
	var t Live
	if validID(sandboxPrefix, id) {
		if t, err = b.cfg.Ledger.Admit(ctx, Admission{TaskID: taskOf(id)}); err != nil && !errors.Is(err, ErrNotFound) {
			return Sandbox{}, unavailable(err)
		}
	}
	keys := noClient
	if err == nil && t.Sandbox != nil && t.Sandbox.Attestor == enrollName {
		key, err := jose.ParseJWK([]byte(t.Sandbox.JWK))
		if err != nil {
			return Sandbox{}, unavailable(err)
		}
		keys = func(jose.Header) (jose.Key, error) { return key, nil }
	}
	err = b.verifyAssertion(ctx, assertion, id, keys,
		Rate{Key: "assert:" + t.ID, Limit: 2 * max(endsPerMinute, t.Caps.MintsPerMinute), Per: time.Minute})
	if err != nil {
		return Sandbox{}, err
	}
	return *t.Sandbox, nil
}

// maxLineage bounds how many leases a token is narrowed from one after the other:
// it names all of them, and whoever judges it asks for each.
const maxLineage = 16

// askByToken lets a sandbox narrow a token of its own: never another's, never a
// dead one, and never wider, longer or for another resource (see frame).
func (b *Broker) askByToken(ctx context.Context, why purpose, s Subject, p Possession) (asker, error) {
	t, err := b.verifyOwn(s.AccessToken, "")
	if err != nil {
		if e := AsError(err); e.Kind == Unavailable {
			return asker{}, e
		}
		return asker{}, E(s.Fault, AsError(err).Public, err)
	}
	if t.taskID == "" || t.scopes.Empty() {
		return asker{}, E(s.Fault, "A token without a task or without scopes cannot be exchanged.", nil)
	}
	if err := t.boundTo(p); err != nil {
		return asker{}, E(s.Fault, AsError(err).Public, err)
	}
	live, err := b.admit(ctx, why, t.taskID, p, s.Fault)
	if err != nil {
		return asker{}, err
	}
	if len(t.lineage) > maxLineage {
		return asker{}, E(s.Fault, "The token was narrowed too many times in a row. Narrow an earlier one.", nil)
	}
	alive, err := b.aliveToken(ctx, t)
	if err != nil {
		return asker{}, unavailable(err)
	}
	if !alive || live.Sandbox == nil || live.Sandbox.ID != t.clientID {
		return asker{}, E(s.Fault, "The token is revoked or its task is complete.", nil)
	}
	return asker{live: live, sandbox: *live.Sandbox, notAfter: t.exp, parent: t, lineage: t.lineage}, nil
}

var errWider = errors.New("issued scope is not covered by its frame")
