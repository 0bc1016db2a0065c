package identity

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/enroll"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
)

// Evidence runs the attestor that a request names, and compares the identity with the sandbox
// that the runner registered for the task.
type Evidence struct {
	attestors       map[string]attest.Attestor
	evidenceHeaders map[string]string
	store           broker.Store
	liveStore       broker.LiveStore
	liveness        map[string]broker.Liveness
	logger          *slog.Logger
	judged          *Judged
	live            *kernel.LiveState
	m               *kernel.Metrics
	people          map[string]bool
	silent          *kernel.AttestorOutages

	accounts  *Accounts
	admission *kernel.Admitter
	clock     *kernel.Timekeeper
	log       *kernel.Recorder
	sandboxes sandboxes
	tasks     tasks
	tickets   *Enroller

	taskTokens *expirable.LRU[[32]byte, attest.Identity]
}

// Open initializes the internal state. Call it once, after the other fields are set.
func (ej *Evidence) Open() {
	ej.taskTokens = expirable.NewLRU[[32]byte, attest.Identity](4096, nil, time.Minute)
}

// identify runs the steps of package attest: attest, key binding, replay, comparison with the
// registered sandbox, and the task's one sandbox. fault is the protocol's error code for bad
// evidence.
func (ej *Evidence) identify(ctx context.Context, why kernel.Purpose, taskID string, ev attest.Evidence, p broker.Possession, fault broker.Kind) (who kernel.Caller, err error) {
	if ev.Attestor == "" {
		t, err := ej.tasks.TaskByID(ctx, taskID)
		if err != nil && broker.AsError(err).Kind == broker.Unavailable {
			return kernel.Caller{}, err
		}
		if err != nil {
			return kernel.Caller{}, broker.E(fault, "Name the task with task_id: this evidence does not name one.", err)
		}
		ev.Attestor = t.Expect.Attestor
	}
	if err := ej.takesMethod(ev); err != nil {
		return kernel.Caller{}, ej.refuseEvidence(ctx, taskID, ev, fault, err)
	}
	if err := ej.comesRight(ev); err != nil {
		return kernel.Caller{}, ej.refuseEvidence(ctx, taskID, ev, fault, err)
	}
	id, err := ej.attest(ej.bounded(ctx, ev.Attestor, taskID, p, false), ev, p)
	if err != nil {
		return kernel.Caller{}, ej.refuseEvidence(ctx, taskID, ev, fault, err)
	}
	defer func() {
		if err != nil && (broker.AsError(err).Kind == broker.Unavailable || broker.AsError(err).Kind == broker.UseNonce) {
			ej.tickets.giveBack(ctx, ev)
		}
	}()
	if err := ej.sandboxes.Stale(id); err != nil {
		return kernel.Caller{}, ej.refuseEvidence(ctx, taskID, ev, fault, err)
	}
	if id.TaskID != "" {
		if taskID != "" && taskID != id.TaskID {
			return kernel.Caller{}, ej.refuseEvidence(ctx, taskID, ev, fault, attest.Reject(attest.ReasonClaims, "the evidence is for another task", nil))
		}
		taskID = id.TaskID
	}
	if !broker.ValidID(broker.TaskPrefix, taskID) {
		return kernel.Caller{}, broker.E(fault, "Name the task with task_id: this evidence does not name one.", nil)
	}
	if err := ej.foreign(ctx, taskID, id, p, fault); err != nil {
		return kernel.Caller{}, ej.refuseEvidence(ctx, taskID, ev, fault, err)
	}
	live, err := ej.admission.Admit(ctx, why, taskID, p, fault, kernel.EvidenceClaim(id, p.Key.JKT)...)
	if err != nil {
		return kernel.Caller{}, err
	}
	if err := matches(live, id, p); err != nil {
		return kernel.Caller{}, ej.refuseEvidence(ctx, taskID, ev, fault, err)
	}
	sandbox, err := ej.bind(ctx, &live, id, p)
	if err != nil {
		switch {
		case errors.Is(err, attest.ErrRejected):
			return kernel.Caller{}, ej.refuseEvidence(ctx, taskID, ev, fault, err)
		case errors.Is(err, broker.ErrTaskClosed):
			return kernel.Caller{}, kernel.ClosedFor(fault, broker.Task{}) // ended since live was read
		}
		return kernel.Caller{}, err
	}
	until := ej.sandboxes.Believed(id)
	ej.sandboxes.Attested(ctx, live.ID, id, until)
	return kernel.Caller{Live: live, Sandbox: sandbox, NotAfter: until, Fresh: id.TaskID == ""}, nil
}

// attest calls the named attestor. Verified task tokens are cached for a minute by hash and
// key: only the signature check is cached, the task's state is not.
func (ej *Evidence) attest(ctx context.Context, ev attest.Evidence, p broker.Possession) (attest.Identity, error) {
	a, known := ej.attestors[ev.Attestor]
	if !known || ej.people[ev.Attestor] {
		return attest.Identity{}, attest.Reject(attest.ReasonUnknownAttestor, "the attestor "+broker.Quoted(ev.Attestor)+" is not configured for sandboxes here", nil)
	}
	cacheable := ev.Attestor == broker.EnrollName && !bytes.HasPrefix(ev.Document, []byte(enroll.TicketPrefix))
	if !cacheable {
		id, err := a.Attest(ctx, ev)
		ej.silent.Note(ctx, ev.Attestor, p, ej.clock.Now(), err)
		return id, err
	}
	h := sha256.New()
	h.Write([]byte(ev.Key.JKT))
	h.Write(ev.Document)
	sum := [32]byte(h.Sum(nil))
	if id, hit := ej.taskTokens.Get(sum); hit && ej.clock.Now().Before(id.NotAfter) {
		return id, nil
	}
	id, err := a.Attest(ctx, ev)
	if err == nil && id.NotAfter.After(ej.clock.Now()) {
		ej.taskTokens.Add(sum, id)
	}
	return id, err
}

// foreign compares the evidence with the task before the request is counted. If the caller
// names the task and the evidence does not, a stranger could otherwise use up another task's
// rate or add violations to it.
func (ej *Evidence) foreign(ctx context.Context, taskID string, id attest.Identity, p broker.Possession, fault broker.Kind) error {
	if id.TaskID != "" {
		return nil
	}
	if ej.live.Incomplete.Load() {
		return broker.StoreError(broker.ErrLost)
	}
	live, err := ej.liveStore.Admit(ctx, broker.Admission{TaskID: taskID})
	if errors.Is(err, broker.ErrNotFound) {
		return broker.E(fault, "There is no task "+broker.Quoted(taskID)+", or it has ended.", err).Then("ask the runner for a new task")
	}
	if err != nil {
		return broker.StoreError(err)
	}
	return matches(live, id, p)
}

// refuseEvidence records the attempt. It is not counted as a violation, because the caller has
// not proved that it belongs to the task.
func (ej *Evidence) refuseEvidence(ctx context.Context, taskID string, ev attest.Evidence, fault broker.Kind, err error) error {
	if !errors.Is(err, attest.ErrRejected) {
		if e, ok := errors.AsType[*broker.Error](err); ok {
			return e
		}
		return broker.StoreError(err)
	}
	label := ev.Attestor
	if _, known := ej.attestors[label]; !known {
		label = "unknown"
	}
	ej.m.Rejected.WithLabelValues(label).Inc()
	why := attest.Reason("")
	if r, ok := errors.AsType[*attest.Rejection](err); ok {
		why = r.Reason
	}
	e := ej.log.NewEntry(audit.SandboxRejected, kernel.Unknown, map[string]any{"attestor": label, "reason": why})
	if broker.ValidID(broker.TaskPrefix, taskID) {
		e.TaskID = taskID
	}
	ej.log.Note(ctx, e)
	return broker.E(fault, broker.PublicOf(err, "The evidence was refused."), err)
}

// matches compares an identity with the registered sandbox and with the task's current sandbox,
// and the key that the evidence is bound to with the proved key.
func matches(live broker.Live, id attest.Identity, p broker.Possession) error {
	if id.Key != "" && id.Key != p.Key.JKT {
		return attest.Reject(attest.ReasonKeyBinding, "the evidence is bound to another key", nil)
	}
	if live.Sandbox != nil {
		if err := live.Sandbox.Is(id, p); err != nil {
			return err
		}
	}
	if id.TaskID != "" {
		// A task token stands for the sandbox that was compared when it enrolled.
		// A ticket comes before the task has a sandbox, and only for tasks that expect a ticket.
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

// bind fixes the sandbox of a task durably at its first accepted evidence. After that it
// refuses every other sandbox and every other key.
func (ej *Evidence) bind(ctx context.Context, live *broker.Live, id attest.Identity, p broker.Possession) (broker.Sandbox, error) {
	if live.Sandbox == nil {
		s, err := ej.newSandbox(live.ID, id, p)
		if err != nil {
			return broker.Sandbox{}, err
		}
		err = ej.store.Append(ctx, broker.Record{
			BindSandbox: &broker.SandboxOf{TaskID: live.ID, Sandbox: s},
			Entries: []audit.Entry{ej.log.TaskEntry(audit.SandboxEnrolled, s.ID, live.ID, map[string]any{
				"attestor": s.Attestor, "subject": s.Subject, "class": s.Class, "jkt": s.JKT, "selectors": s.Selectors,
				"evidence": kernel.Used(id, s.JKT),
			})},
		})
		switch {
		case err == nil:
			live.Sandbox = &s
			ej.sandboxes.Arrived(live.ID, s.Attestor)
		case errors.Is(err, broker.ErrDone): // another evidence was first, or the task has ended
			t, err := ej.tasks.TaskByID(ctx, live.ID)
			if err != nil {
				return broker.Sandbox{}, err
			}
			if t.State == broker.TaskClosed {
				return broker.Sandbox{}, kernel.ClosedError(t)
			}
			live.Sandbox = t.Sandbox
		default:
			return broker.Sandbox{}, kernel.TaskError(err)
		}
		if live.Sandbox != nil { // also when an earlier attempt wrote only to the database
			_, err := ej.liveStore.Touch(ctx, live.ID, broker.Touch{Sandbox: live.Sandbox})
			if err != nil && !errors.Is(err, broker.ErrClaimed) {
				return broker.Sandbox{}, kernel.LiveStoreError(err)
			}
		}
	}
	if live.Sandbox == nil {
		return broker.Sandbox{}, broker.StoreError(errors.New("the database reports a bound sandbox and does not return it"))
	}
	return *live.Sandbox, live.Sandbox.Is(id, p)
}

func (ej *Evidence) newSandbox(taskID string, id attest.Identity, p broker.Possession) (broker.Sandbox, error) {
	if p.Key.JKT == "" || p.Key.Public == nil {
		return broker.Sandbox{}, broker.E(broker.InvalidProof, "Prove the sandbox's key first: send a DPoP proof or a client certificate.", nil)
	}
	k, err := jose.NewKey("", p.Key.Public)
	if err != nil {
		return broker.Sandbox{}, broker.E(broker.InvalidProof, "This kind of key is not accepted.", err)
	}
	jwk, err := jose.MarshalPublicJWK(k)
	if err != nil {
		return broker.Sandbox{}, broker.E(broker.InvalidProof, "This kind of key is not accepted.", err)
	}
	return broker.Sandbox{
		ID: broker.SandboxID(taskID), Attestor: id.Attestor, Subject: id.Subject, Class: string(id.Class),
		JKT: p.Key.JKT, JWK: string(jwk), Selectors: id.Selectors, At: ej.clock.Now(),
	}, nil
}
