package identity

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/enroll"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
)

// EvidenceQuery is evidence that an operator wants explained. It is checked as if its sandbox
// had sent it now, with the keys that JWK and X5T name. Nothing is proved, claimed, used up or
// counted, and no sandbox enrols.
type EvidenceQuery struct {
	Evidence string
	TaskID   string // also report whether it would be accepted for this task
	X5T      string // x5t#S256 of the sandbox's certificate

	JWK json.RawMessage // public key of the sandbox, RFC 7517
}

// Results of an evidence check.
const (
	EvidenceAccepted = "accepted"
	EvidenceRefused  = "refused"
	EvidenceUnjudged = "unjudged" // the attestor or a dependency is down: callers get 503
)

// EvidenceExplanation describes an evidence check step by step.
type EvidenceExplanation struct {
	Attestor string
	Verdict  string
	Reason   string // of a refusal, one of a fixed set
	Why      string
	Steps    []EvidenceStep // passed checks, in their order
	Identity *EvidenceOf
	Task     *EvidenceForTask
}

// EvidenceStep is one passed check. Found is data of the evidence.
type EvidenceStep struct {
	Check string
	Found string
}

// EvidenceOf is the identity in accepted evidence.
type EvidenceOf struct {
	Subject   string
	Class     string
	Proves    string // what the class proves, in words
	Selectors map[string]string
	NotAfter  time.Time // latest expiry of a token issued for it
	Key       string    // the key that it is bound to; "" = the first key that uses it
}

// EvidenceForTask reports whether evidence would be accepted for a task.
type EvidenceForTask struct {
	ID        string
	Accepted  bool
	Why       string
	Selectors []EvidenceSelector
}

// EvidenceSelector is one selector that the runner registered.
type EvidenceSelector struct {
	Name       string
	Registered string
	Shown      string
	Equal      bool
}

// ExplainEvidence describes how evidence is checked and why it would be refused.
func (ej *Evidence) ExplainEvidence(ctx context.Context, who broker.Principal, attestor string, q EvidenceQuery) (EvidenceExplanation, error) {
	none := EvidenceExplanation{}
	if err := broker.Allow(who, broker.Certain, broker.RoleOperator); err != nil {
		return none, err
	}
	a, known := ej.accounts.attestor(attestor)
	if !known {
		return none, broker.E(broker.NotFound, "There is no attestor "+broker.Quoted(attestor)+". Configured: "+broker.Named(slices.Collect(maps.Keys(ej.attestors)))+".", nil).
			Then("check the name with 'ebb attest list'")
	}
	key := attest.Key{X5T: q.X5T}
	if len(q.JWK) > 0 {
		k, err := jose.ParseJWK(q.JWK)
		if err == nil {
			key.Public = k.Public
			key.JKT, err = jose.Thumbprint(k.Public)
		}
		if err != nil {
			return none, broker.E(broker.Invalid, "jwk is not the public key of a sandbox.", err)
		}
	}
	ev := attest.Evidence{Attestor: attestor, Document: []byte(q.Evidence), Key: key}
	if bytes.HasPrefix(ev.Document, []byte(enroll.TicketPrefix)) {
		return none, broker.E(broker.Invalid, "A ticket cannot be explained, because checking it uses it up. Let its sandbox enrol.", nil)
	}
	out := EvidenceExplanation{Attestor: attestor, Steps: []EvidenceStep{}}
	id, err := a.Attest(attest.WithTrace(ctx, func(s attest.Step) {
		out.Steps = append(out.Steps, EvidenceStep(s))
	}), ev)
	if rejected, ok := errors.AsType[*attest.Rejection](err); ok {
		out.Verdict, out.Reason, out.Why = EvidenceRefused, string(rejected.Reason), rejected.Public
		return out, nil
	}
	if err != nil {
		ej.logger.WarnContext(ctx, "the evidence of an operator's query could not be checked", "attestor", attestor, "error", err)
		out.Verdict, out.Why = EvidenceUnjudged, "the attestor or a dependency does not answer; see the log of ebb"
		return out, nil
	}
	out.Verdict = EvidenceAccepted
	out.Identity = &EvidenceOf{Subject: id.Subject, Class: string(id.Class), Proves: id.Class.Proves(), Selectors: id.Selectors, NotAfter: ej.sandboxes.Believed(id), Key: id.Key}
	if stale, is := errors.AsType[*attest.Rejection](ej.sandboxes.Stale(id)); is {
		out.Verdict, out.Reason, out.Why = EvidenceRefused, string(stale.Reason), stale.Public
	}
	if id.Key != "" && id.Key != key.JKT {
		out.Verdict, out.Reason, out.Why = EvidenceRefused, string(attest.ReasonKeyBinding), "the evidence is bound to another key than the one named"
	}
	if taskID := cmp.Or(id.TaskID, q.TaskID); taskID != "" {
		out.Task, err = ej.forTask(ctx, taskID, q.TaskID, key, id)
	}
	return out, err
}

func (ej *Evidence) forTask(ctx context.Context, taskID, named string, key attest.Key, id attest.Identity) (*EvidenceForTask, error) {
	t, err := ej.tasks.TaskByID(ctx, taskID)
	if err != nil {
		return nil, err
	}
	out := &EvidenceForTask{ID: taskID, Selectors: []EvidenceSelector{}}
	for _, name := range slices.Sorted(maps.Keys(t.Expect.Selectors)) {
		want, got := t.Expect.Selectors[name], id.Selectors[name]
		out.Selectors = append(out.Selectors, EvidenceSelector{Name: name, Registered: want, Shown: got, Equal: want == got})
	}
	switch err := matches(broker.Live{Task: t}, id, broker.Possession{Key: key}); {
	case named != "" && named != taskID:
		out.Why = "the evidence is for another task than the one named"
	case t.State == broker.TaskClosed:
		out.Why = "the task has ended"
	case err != nil:
		out.Why = broker.PublicOf(err, "the evidence does not fit the task")
	default:
		out.Accepted = true
	}
	return out, nil
}

// AttestorState is a configured attestor as shown to operators.
type AttestorState struct {
	Name                string
	Challenges          bool // its evidence answers a challenge of POST /v1/challenge
	Watches             bool // it detects sandbox exits
	People              bool // it recognises principals, not sandboxes
	OnSandboxExit       broker.Action
	Reattest            broker.Seconds // 0 = as long as the evidence is valid
	OnMissedAttestation broker.Action
}

// Attestors lists the configured attestors by name.
func (ej *Evidence) Attestors(_ context.Context, who broker.Principal) ([]AttestorState, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleOperator, broker.RoleAuditor, broker.RoleRunner); err != nil {
		return nil, err
	}
	out := []AttestorState{}
	for _, name := range slices.Sorted(maps.Keys(ej.attestors)) {
		a, l := ej.attestors[name], ej.liveness[name]
		_, challenges := a.(attest.Challenger)
		_, watches := a.(attest.Watcher)
		out = append(out, AttestorState{
			Name: name, Challenges: challenges, Watches: watches, People: ej.people[name],
			OnSandboxExit: cmp.Or(l.OnSandboxExit, broker.ActionComplete), Reattest: broker.Seconds(l.Reattest / time.Second), OnMissedAttestation: cmp.Or(l.OnMissedAttestation, broker.ActionNothing),
		})
	}
	return out, nil
}
