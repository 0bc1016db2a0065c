package broker

import (
	"bytes"
	"context"

	"ebb/attest"
	"ebb/attest/enroll"
	"ebb/broker/audit"
	"ebb/broker/provider"
)

// enrollName is the name under which the enroll attestor must be configured: it
// is the broker's own and there is one.
const enrollName = "enroll"

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
	a, err := b.identify(ctx, toMint, taskID, ev, p, InvalidEvidence)
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
