package broker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"ebb/attest"
	"ebb/attest/enroll"
	"ebb/attest/jose"
	"ebb/broker/audit"
	"ebb/broker/provider"
)

// enrollName is the name under which the enroll attestor must be configured: it
// is the broker's own and there is one.
const enrollName = "enroll"

// Tickets redeems enrolment tickets for the enroll attestor.
type Tickets struct{ Gate Gate }

// Redeem takes a ticket by the hash of its text. Exactly one caller wins.
func (t Tickets) Redeem(ctx context.Context, hash, _ string) (enroll.Ticket, error) {
	taskID, err := t.Gate.Take(ctx, "tkt:"+hash)
	if errors.Is(err, ErrNotFound) {
		return enroll.Ticket{}, attest.Reject(attest.ReasonUsed, "the ticket is unknown, used or older than a minute; ask the runner for a new one", err)
	}
	if err != nil {
		return enroll.Ticket{}, err
	}
	return enroll.Ticket{TaskID: taskID, SandboxID: sandboxOf(taskID)}, nil
}

// giveBack puts a redeemed ticket back until its own end, when the sandbox may need
// it again. Should the task have its sandbox by now, then it serves that sandbox's
// key alone.
func (b *Broker) giveBack(ctx context.Context, ev attest.Evidence) {
	if ev.Attestor != enrollName || !bytes.HasPrefix(ev.Document, []byte(enroll.TicketPrefix)) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	hash := enroll.TicketHash(string(ev.Document))
	note, err := b.cfg.Ledger.Take(ctx, "tku:"+hash)
	if err == nil {
		taskID, ms, _ := strings.Cut(note, " ")
		var end int64
		if end, err = strconv.ParseInt(ms, 10, 64); err == nil {
			err = b.putTicket(ctx, hash, taskID, time.UnixMilli(end))
		}
	}
	if err != nil {
		b.cfg.Logger.WarnContext(ctx, "a ticket could not be put back; a sandbox that has no answer yet needs another from its runner", "error", err)
	}
}

// putTicket stores a ticket and, for giveBack, whose it is and until when.
func (b *Broker) putTicket(ctx context.Context, hash, taskID string, until time.Time) error {
	if err := b.cfg.Ledger.Put(ctx, "tku:"+hash, taskID+" "+strconv.FormatInt(until.UnixMilli(), 10), until); err != nil {
		return err
	}
	return b.cfg.Ledger.Put(ctx, "tkt:"+hash, taskID, until)
}

// Enrol exchanges evidence for a task token: from then on the sandbox proves
// itself with its key alone. taskID may be empty when the evidence names it.
func (b *Broker) Enrol(ctx context.Context, taskID string, ev attest.Evidence, p Possession) (Enrolment, error) {
	if p.Key.JKT == "" {
		return Enrolment{}, E(InvalidProof, "Enrolling needs a DPoP proof of the sandbox's key.", nil)
	}
	ev.Key = p.Key
	if ev.Attestor == "" && bytes.HasPrefix(ev.Document, []byte(enroll.TicketPrefix)) {
		ev.Attestor = enrollName
	}
	a, err := b.identify(ctx, mints, taskID, ev, p, InvalidEvidence)
	if err != nil {
		return Enrolment{}, err
	}
	en, err := b.taskToken(ctx, a)
	// When this answer is lost on its way the sandbox asks again with the same
	// ticket. By now that serves its key alone (see matches).
	b.giveBack(ctx, ev)
	return en, err
}

// taskToken issues the task token of a sandbox.
func (b *Broker) taskToken(ctx context.Context, a asker) (Enrolment, error) {
	exp := a.live.Deadline
	if !a.notAfter.IsZero() && a.notAfter.Before(exp) {
		exp = a.notAfter
	}
	signer, kid, _, err := b.cfg.Keys.Signer(b.now())
	if err != nil {
		return Enrolment{}, unavailable(err)
	}
	token, err := enroll.IssueTaskToken(signer, kid, enroll.TaskToken{
		Issuer: b.cfg.Issuer, SandboxID: a.sandbox.ID, TaskID: a.live.ID, JKT: a.sandbox.JKT,
		IssuedAt: b.now(), ExpiresAt: exp, ID: newID("ttk_"),
	})
	if err != nil {
		return Enrolment{}, unavailable(err)
	}
	if err := b.cfg.Journal.Append(ctx, Record{Entries: []audit.Entry{
		b.taskEntry(audit.SandboxToken, a.sandbox.ID, a.live.ID, map[string]any{"until": exp}),
	}}); err != nil {
		return Enrolment{}, unavailable(err)
	}
	return Enrolment{Token: provider.NewSecret(token), ExpiresAt: exp, Task: a.live.Task}, nil
}

// asker is who asks, after the pipeline: a live task, its one sandbox, and what
// limits this request beyond policy.
type asker struct {
	live     Live
	sandbox  Sandbox
	notAfter time.Time // end of the evidence, zero = says nothing
	parent   *ownToken // token to be narrowed, or nil
	lineage  []string  // leases that what is minted dies with, oldest first: the parent's own and it
}

// identify runs the pipeline of package attest: attest, key binding, replay,
// match with what the runner registered, and the task's one sandbox. fault is
// what the protocol at hand calls bad evidence.
func (b *Broker) identify(ctx context.Context, l lane, taskID string, ev attest.Evidence, p Possession, fault Kind) (who asker, err error) {
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
	id, err := b.attest(ctx, ev)
	if err != nil {
		return asker{}, b.refuseEvidence(ctx, taskID, ev, fault, err)
	}
	defer func() {
		if err != nil && AsError(err).Kind == Unavailable {
			b.giveBack(ctx, ev)
		}
	}()
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
	live, err := b.admit(ctx, l, taskID, p, fault, evidenceClaim(id, p.Key.JKT)...)
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
	return asker{live: live, sandbox: sandbox, notAfter: id.NotAfter}, nil
}

// attest asks the named attestor. Verified task tokens are remembered for a
// minute by hash and key: only the pure part is cached, the task's state is not.
func (b *Broker) attest(ctx context.Context, ev attest.Evidence) (attest.Identity, error) {
	a, known := b.cfg.Attestors[ev.Attestor]
	if !known || b.people[ev.Attestor] {
		return attest.Identity{}, attest.Reject(attest.ReasonUnknownAttestor, "the attestor is not configured for sandboxes here", nil)
	}
	cacheable := ev.Attestor == enrollName && !bytes.HasPrefix(ev.Document, []byte(enroll.TicketPrefix))
	if !cacheable {
		return a.Attest(ctx, ev)
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

// is refuses every sandbox and every key but the bound one.
func (s Sandbox) is(id attest.Identity, p Possession) error {
	if s.JKT != p.Key.JKT || (id.TaskID == "" && (s.Attestor != id.Attestor || s.Subject != id.Subject)) {
		return attest.Reject(attest.ReasonKeyBinding, "the task belongs to another sandbox or another key", nil)
	}
	return nil
}

// bind fixes the sandbox of a task at its first accepted evidence, durably, and
// afterwards refuses every other sandbox and every other key.
func (b *Broker) bind(ctx context.Context, live *Live, id attest.Identity, p Possession) (Sandbox, error) {
	if live.Sandbox == nil {
		s, err := b.newSandbox(live.ID, id, p)
		if err != nil {
			return Sandbox{}, err
		}
		err = b.cfg.Journal.Append(ctx, Record{
			BindSandbox: &SandboxOf{TaskID: live.ID, Sandbox: s},
			Entries: []audit.Entry{b.taskEntry(audit.SandboxEnrolled, s.ID, live.ID, map[string]any{
				"attestor": s.Attestor, "subject": s.Subject, "class": s.Class, "jkt": s.JKT, "selectors": s.Selectors,
				"evidence": used(id, s.JKT),
			})},
		})
		switch {
		case err == nil:
			live.Sandbox = &s
		case errors.Is(err, ErrDone): // another evidence was first, or the task has ended
			t, err := b.taskByID(ctx, live.ID)
			if err != nil {
				return Sandbox{}, err
			}
			if t.State == TaskClosed {
				return Sandbox{}, closedError()
			}
			live.Sandbox = t.Sandbox
		default:
			return Sandbox{}, taskError(err)
		}
		if live.Sandbox != nil { // also when an earlier attempt came no further than the journal
			_, err := b.cfg.Ledger.Touch(ctx, live.ID, Touch{Sandbox: live.Sandbox})
			if err != nil && !errors.Is(err, ErrClaimed) {
				return Sandbox{}, ledgerError(err)
			}
		}
	}
	if live.Sandbox == nil {
		return Sandbox{}, unavailable(errors.New("the journal knows of a sandbox and does not show it"))
	}
	return *live.Sandbox, live.Sandbox.is(id, p)
}

func (b *Broker) newSandbox(taskID string, id attest.Identity, p Possession) (Sandbox, error) {
	if p.Key.JKT == "" || p.Key.Public == nil {
		return Sandbox{}, E(InvalidProof, "Prove the sandbox's key first: send a DPoP proof or a client certificate.", nil)
	}
	k, err := jose.NewKey("", p.Key.Public)
	if err != nil {
		return Sandbox{}, E(InvalidProof, "This kind of key is not accepted.", err)
	}
	jwk, err := jose.MarshalPublicJWK(k)
	if err != nil {
		return Sandbox{}, E(InvalidProof, "This kind of key is not accepted.", err)
	}
	return Sandbox{
		ID: sandboxOf(taskID), Attestor: id.Attestor, Subject: id.Subject, Class: string(id.Class),
		JKT: p.Key.JKT, JWK: string(jwk), Selectors: id.Selectors, At: b.now(),
	}, nil
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

// hashOf is the fixed-size key of a list of strings.
func hashOf(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte{byte(len(p) >> 8), byte(len(p))})
		h.Write([]byte(p))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
