package broker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"ebb/attest"
	"ebb/attest/enroll"
	"ebb/broker/audit"
)

// asker is who asks, after the pipeline: a live task, its one sandbox, and what
// limits this request beyond policy.
type asker struct {
	live     Live
	sandbox  Sandbox
	notAfter time.Time // end of the evidence, zero = says nothing
	fresh    bool      // evidence was shown with the request, and not a token that was given for some
	parent   *ownToken // token to be narrowed, or nil
	lineage  []string  // leases that what is minted dies with, oldest first: the parent's own and it
}

// identify runs the pipeline of package attest: attest, key binding, replay,
// match with what the runner registered, and the task's one sandbox. fault is
// what the protocol at hand calls bad evidence.
func (b *Broker) identify(ctx context.Context, why purpose, taskID string, ev attest.Evidence, p Possession, fault Kind) (who asker, err error) {
	if ev.Attestor == "" {
		t, err := b.taskByID(ctx, taskID)
		if err != nil && AsError(err).Kind == Unavailable {
			return asker{}, err
		}
		if err != nil {
			return asker{}, E(fault, "Name the task with task_id: this evidence does not.", err)
		}
		ev.Attestor = t.Expect.Attestor
	}
	if err := b.takesMethod(ev); err != nil {
		return asker{}, b.refuseEvidence(ctx, taskID, ev, fault, err)
	}
	if err := b.comesRight(ev); err != nil {
		return asker{}, b.refuseEvidence(ctx, taskID, ev, fault, err)
	}
	id, err := b.attest(b.bounded(ctx, ev.Attestor, taskID, p, false), ev, p)
	if err != nil {
		return asker{}, b.refuseEvidence(ctx, taskID, ev, fault, err)
	}
	defer func() {
		if err != nil && AsError(err).Kind == Unavailable {
			b.giveBack(ctx, ev)
		}
	}()
	if err := b.stale(id); err != nil {
		return asker{}, b.refuseEvidence(ctx, taskID, ev, fault, err)
	}
	if id.TaskID != "" {
		if taskID != "" && taskID != id.TaskID {
			return asker{}, b.refuseEvidence(ctx, taskID, ev, fault, attest.Reject(attest.ReasonClaims, "the evidence is for another task", nil))
		}
		taskID = id.TaskID
	}
	if !validID(taskPrefix, taskID) {
		return asker{}, E(fault, "Name the task with task_id: this evidence does not.", nil)
	}
	if err := b.foreign(ctx, taskID, id, p, fault); err != nil {
		return asker{}, b.refuseEvidence(ctx, taskID, ev, fault, err)
	}
	live, err := b.admit(ctx, why, taskID, p, fault, evidenceClaim(id, p.Key.JKT)...)
	if err != nil {
		return asker{}, err
	}
	if err := matches(live, id, p); err != nil {
		return asker{}, b.refuseEvidence(ctx, taskID, ev, fault, err)
	}
	sandbox, err := b.bind(ctx, &live, id, p)
	if err != nil {
		switch {
		case errors.Is(err, attest.ErrRejected):
			return asker{}, b.refuseEvidence(ctx, taskID, ev, fault, err)
		case errors.Is(err, ErrTaskClosed):
			return asker{}, E(fault, "The task is complete. Nothing mints for it again.", err)
		}
		return asker{}, err
	}
	until := b.believed(id)
	b.attested(ctx, live.ID, id, until)
	return asker{live: live, sandbox: sandbox, notAfter: until, fresh: id.TaskID == ""}, nil
}

// attest asks the named attestor. Verified task tokens are remembered for a
// minute by hash and key: only the pure part is cached, the task's state is not.
func (b *Broker) attest(ctx context.Context, ev attest.Evidence, p Possession) (attest.Identity, error) {
	a, known := b.cfg.Attestors[ev.Attestor]
	if !known || b.people[ev.Attestor] {
		return attest.Identity{}, attest.Reject(attest.ReasonUnknownAttestor, "the attestor is not configured for sandboxes here", nil)
	}
	cacheable := ev.Attestor == enrollName && !bytes.HasPrefix(ev.Document, []byte(enroll.TicketPrefix))
	if !cacheable {
		id, err := a.Attest(ctx, ev)
		b.silent.note(ctx, ev.Attestor, p, b.now(), err)
		return id, err
	}
	h := sha256.New()
	h.Write([]byte(ev.Key.JKT))
	h.Write(ev.Document)
	sum := [32]byte(h.Sum(nil))
	if id, hit := b.taskTokens.Get(sum); hit && b.now().Before(id.NotAfter) {
		return id, nil
	}
	id, err := a.Attest(ctx, ev)
	if err == nil && id.NotAfter.After(b.now()) {
		b.taskTokens.Add(sum, id)
	}
	return id, err
}

// foreign looks before it counts: where the caller and not the evidence names
// the task, a stranger must not be able to spend another task's rate or to put
// violations on its record.
func (b *Broker) foreign(ctx context.Context, taskID string, id attest.Identity, p Possession, fault Kind) error {
	if id.TaskID != "" {
		return nil
	}
	if b.down.Load() {
		return unavailable(ErrLost)
	}
	live, err := b.cfg.Ledger.Admit(ctx, Admission{TaskID: taskID})
	if errors.Is(err, ErrNotFound) {
		return E(fault, "There is no such task, or it is complete.", err)
	}
	if err != nil {
		return unavailable(err)
	}
	return matches(live, id, p)
}

// refuseEvidence records the attempt. It is not counted as a violation: whoever
// fails here has not shown that it belongs to the task at all.
func (b *Broker) refuseEvidence(ctx context.Context, taskID string, ev attest.Evidence, fault Kind, err error) error {
	if !errors.Is(err, attest.ErrRejected) {
		if e, ok := errors.AsType[*Error](err); ok {
			return e
		}
		return unavailable(err)
	}
	label := ev.Attestor
	if _, known := b.cfg.Attestors[label]; !known {
		label = "unknown"
	}
	b.m.rejected.WithLabelValues(label).Inc()
	why := attest.Reason("")
	if r, ok := errors.AsType[*attest.Rejection](err); ok {
		why = r.Reason
	}
	e := b.entry(audit.SandboxRejected, unknown, map[string]any{"attestor": label, "reason": why})
	if validID(taskPrefix, taskID) {
		e.TaskID = taskID
	}
	b.note(ctx, e)
	return E(fault, publicOf(err, "The evidence was refused."), err)
}

// matches compares an identity with what the runner registered and with the
// sandbox that the task has already, and the key that the evidence is bound to
// with the one that was proved.
func matches(live Live, id attest.Identity, p Possession) error {
	if id.Key != "" && id.Key != p.Key.JKT {
		return attest.Reject(attest.ReasonKeyBinding, "the evidence is bound to another key", nil)
	}
	if live.Sandbox != nil {
		if err := live.Sandbox.is(id, p); err != nil {
			return err
		}
	}
	if id.TaskID != "" {
		// A task token speaks for the sandbox that was matched when it enrolled.
		// A ticket comes before any sandbox, and only for tasks that expect one.
		if live.Sandbox == nil && live.Expect.Attestor != id.Attestor {
			return attest.Reject(attest.ReasonSelectors, "the task expects another attestor", nil)
		}
		if len(live.Expect.Selectors) == 0 || live.Sandbox != nil {
			return nil
		}
	}
	if id.Attestor != live.Expect.Attestor {
		return attest.Reject(attest.ReasonSelectors, "the task expects another attestor", nil)
	}
	return attest.SelectorMatch(live.Expect.Selectors, id)
}
