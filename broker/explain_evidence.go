package broker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"ebb/attest"
	"ebb/attest/enroll"
	"ebb/attest/jose"
)

// EvidenceQuery is evidence that an operator wants explained. It is judged as if
// whoever made it had shown it now, with the keys that JWK and X5T name: nothing is
// proved, claimed, spent or counted, and nobody enrols.
type EvidenceQuery struct {
	Evidence string `json:"evidence"`
	TaskID   string `json:"task_id,omitempty"` // also say whether it would serve for this task
	X5T      string `json:"x5t,omitempty"`     // x5t#S256 of the sandbox's certificate

	JWK json.RawMessage `json:"jwk,omitempty"` // public key of the sandbox, RFC 7517
}

// Verdicts on evidence.
const (
	EvidenceAccepted = "accepted"
	EvidenceRefused  = "refused"
	EvidenceUnjudged = "unjudged" // what is needed to judge it is down: callers get 503
)

// EvidenceExplanation is how evidence is judged, step by step.
type EvidenceExplanation struct {
	Attestor string           `json:"attestor"`
	Verdict  string           `json:"verdict"`
	Reason   string           `json:"reason,omitempty"` // of a refusal, one of a fixed set
	Why      string           `json:"why,omitempty"`
	Steps    []EvidenceStep   `json:"steps"` // those that passed, in their order
	Identity *EvidenceOf      `json:"identity,omitempty"`
	Task     *EvidenceForTask `json:"task,omitempty"`
}

// EvidenceStep is one check that passed. Found is data of the evidence.
type EvidenceStep struct {
	Check string `json:"check"`
	Found string `json:"found,omitempty"`
}

// EvidenceOf is what accepted evidence says.
type EvidenceOf struct {
	Subject   string            `json:"subject"`
	Class     string            `json:"class"`
	Proves    string            `json:"proves"` // what stands behind the class
	Selectors map[string]string `json:"selectors"`
	NotAfter  time.Time         `json:"not_after,omitzero"` // nothing issued on it lives longer
	Key       string            `json:"key,omitempty"`      // the key it is bound to; "" = the first that uses it
}

// EvidenceForTask is whether evidence would serve for a task.
type EvidenceForTask struct {
	ID        string             `json:"id"`
	Accepted  bool               `json:"accepted"`
	Why       string             `json:"why,omitempty"`
	Selectors []EvidenceSelector `json:"selectors"`
}

// EvidenceSelector is one selector that the runner registered.
type EvidenceSelector struct {
	Name       string `json:"name"`
	Registered string `json:"registered"`
	Shown      string `json:"shown"`
	Equal      bool   `json:"equal"`
}

// ExplainEvidence says how evidence is judged and why it would be refused.
func (b *Broker) ExplainEvidence(ctx context.Context, who Principal, attestor string, q EvidenceQuery) (EvidenceExplanation, error) {
	none := EvidenceExplanation{}
	if err := allow(who, certain, RoleOperator); err != nil {
		return none, err
	}
	a, known := b.attestor(attestor)
	if !known {
		return none, E(NotFound, "There is no such attestor. The configured ones are "+strings.Join(slices.Sorted(maps.Keys(b.cfg.Attestors)), ", ")+".", nil)
	}
	key := attest.Key{X5T: q.X5T}
	if len(q.JWK) > 0 {
		k, err := jose.ParseJWK(q.JWK)
		if err == nil {
			key.Public = k.Public
			key.JKT, err = jose.Thumbprint(k.Public)
		}
		if err != nil {
			return none, E(Invalid, "jwk is not the public key of a sandbox.", err)
		}
	}
	ev := attest.Evidence{Attestor: attestor, Document: []byte(q.Evidence), Key: key}
	if bytes.HasPrefix(ev.Document, []byte(enroll.TicketPrefix)) {
		return none, E(Invalid, "A ticket is spent by judging it. Let its sandbox enrol.", nil)
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
		b.cfg.Logger.WarnContext(ctx, "evidence that an operator asked about could not be judged", "attestor", attestor, "error", err)
		out.Verdict, out.Why = EvidenceUnjudged, "what is needed to judge it does not answer; see the log of ebb"
		return out, nil
	}
	out.Verdict = EvidenceAccepted
	out.Identity = &EvidenceOf{Subject: id.Subject, Class: string(id.Class), Proves: id.Class.Proves(), Selectors: id.Selectors, NotAfter: b.believed(id), Key: id.Key}
	if stale, is := errors.AsType[*attest.Rejection](b.stale(id)); is {
		out.Verdict, out.Reason, out.Why = EvidenceRefused, string(stale.Reason), stale.Public
	}
	if id.Key != "" && id.Key != key.JKT {
		out.Verdict, out.Reason, out.Why = EvidenceRefused, string(attest.ReasonKeyBinding), "the evidence is bound to another key than the one named"
	}
	if taskID := cmp.Or(id.TaskID, q.TaskID); taskID != "" {
		out.Task, err = b.forTask(ctx, taskID, q.TaskID, key, id)
	}
	return out, err
}

func (b *Broker) forTask(ctx context.Context, taskID, named string, key attest.Key, id attest.Identity) (*EvidenceForTask, error) {
	t, err := b.taskByID(ctx, taskID)
	if err != nil {
		return nil, err
	}
	out := &EvidenceForTask{ID: taskID, Selectors: []EvidenceSelector{}}
	for _, name := range slices.Sorted(maps.Keys(t.Expect.Selectors)) {
		want, got := t.Expect.Selectors[name], id.Selectors[name]
		out.Selectors = append(out.Selectors, EvidenceSelector{Name: name, Registered: want, Shown: got, Equal: want == got})
	}
	switch err := matches(Live{Task: t}, id, Possession{Key: key}); {
	case named != "" && named != taskID:
		out.Why = "the evidence is for another task than the one named"
	case t.State == TaskClosed:
		out.Why = "the task is over"
	case err != nil:
		out.Why = publicOf(err, "the evidence does not fit the task")
	default:
		out.Accepted = true
	}
	return out, nil
}

// AttestorState is a configured attestor as operators see it.
type AttestorState struct {
	Name       string  `json:"name"`
	Challenges bool    `json:"challenges"` // its evidence answers POST /v1/challenge
	Watches    bool    `json:"watches"`    // it sees sandboxes die
	People     bool    `json:"people"`     // it recognises principals, and no sandboxes
	OnDeath    Sequel  `json:"on_death"`
	Reattest   Seconds `json:"reattest_seconds"` // 0 = as long as the evidence says
	OnLapse    Sequel  `json:"on_lapse"`
}

// Attestors lists the configured attestors by name.
func (b *Broker) Attestors(_ context.Context, who Principal) ([]AttestorState, error) {
	if err := allow(who, certain, RoleOperator, RoleAuditor, RoleRunner); err != nil {
		return nil, err
	}
	out := []AttestorState{}
	for _, name := range slices.Sorted(maps.Keys(b.cfg.Attestors)) {
		a, l := b.cfg.Attestors[name], b.cfg.Liveness[name]
		_, challenges := a.(attest.Challenger)
		_, watches := a.(attest.Watcher)
		out = append(out, AttestorState{
			Name: name, Challenges: challenges, Watches: watches, People: b.people[name],
			OnDeath: cmp.Or(l.OnDeath, SequelComplete), Reattest: Seconds(l.Reattest / time.Second), OnLapse: cmp.Or(l.OnLapse, SequelNothing),
		})
	}
	return out, nil
}
