package identity

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/enroll"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/broker/secret"
)

// Enroller issues tickets for tasks, and a task token to the one sandbox that redeems a ticket.
type Enroller struct {
	issuerURL string
	store     broker.Store
	keys      *keys.Ring
	liveStore broker.LiveStore
	limits    broker.Limits
	logger    *slog.Logger

	clock    *kernel.Timekeeper
	evidence *Evidence
	log      *kernel.Recorder
}

// Tickets redeems enrolment tickets for the enroll attestor.
type Tickets struct{ Gate broker.Gate }

// Redeem takes a ticket by the hash of its text. Of concurrent callers exactly one gets it.
func (t Tickets) Redeem(ctx context.Context, hash, _ string) (enroll.Ticket, error) {
	taskID, err := t.Gate.Take(ctx, "tkt:"+hash)
	if errors.Is(err, broker.ErrNotFound) {
		return enroll.Ticket{}, attest.Reject(attest.ReasonUsed, "the ticket is unknown, used or has expired; ask the runner for a new one", err)
	}
	if err != nil {
		return enroll.Ticket{}, err
	}
	return enroll.Ticket{TaskID: taskID, SandboxID: broker.SandboxID(taskID)}, nil
}

// giveBack makes a redeemed ticket valid again until its own expiry, for a sandbox that may
// need it again. If the task has its sandbox by then, the ticket works only with that sandbox's
// key.
func (e *Enroller) giveBack(ctx context.Context, ev attest.Evidence) {
	if ev.Attestor != broker.EnrollName || !bytes.HasPrefix(ev.Document, []byte(enroll.TicketPrefix)) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	hash := enroll.TicketHash(string(ev.Document))
	note, err := e.liveStore.Take(ctx, "tku:"+hash)
	if err == nil {
		taskID, ms, _ := strings.Cut(note, " ")
		var end int64
		if end, err = strconv.ParseInt(ms, 10, 64); err == nil {
			err = e.PutTicket(ctx, hash, taskID, time.UnixMilli(end))
		}
	}
	if err != nil {
		e.logger.WarnContext(ctx, "a ticket could not be made valid again; a sandbox without a response needs a new one from its runner", "error", err)
	}
}

// PutTicket stores a ticket and, for giveBack, its task and expiry.
func (e *Enroller) PutTicket(ctx context.Context, hash, taskID string, until time.Time) error {
	if err := e.liveStore.Put(ctx, "tku:"+hash, taskID+" "+strconv.FormatInt(until.UnixMilli(), 10), until); err != nil {
		return err
	}
	return e.liveStore.Put(ctx, "tkt:"+hash, taskID, until)
}

// IssueTicket issues a ticket that lives as long as asked (0 = the default), and never longer than its task.
func (e *Enroller) IssueTicket(ctx context.Context, t broker.Task, asked broker.Seconds) (broker.Ticket, error) {
	life, err := e.limits.TicketLife(asked)
	if err != nil {
		return broker.Ticket{}, err
	}
	text, hash := enroll.NewTicket()
	until := broker.Earliest(e.clock.Now().Add(life), t.Deadline)
	if err := e.PutTicket(ctx, hash, t.ID, until); err != nil {
		return broker.Ticket{}, broker.StoreError(err)
	}
	if err := e.store.Append(ctx, broker.Record{Entries: []audit.Entry{
		e.log.TaskEntry(audit.TaskTicket, kernel.Self, t.ID, map[string]any{"hash": hash, "until": until, "ttl_seconds": broker.Seconds(life / time.Second)}),
	}}); err != nil {
		return broker.Ticket{}, broker.StoreError(err)
	}
	return broker.Ticket{Ticket: secret.New(text), ExpiresAt: until}, nil
}

// Enrol exchanges evidence for a task token. From then on the sandbox authenticates with its
// key alone. taskID may be empty when the evidence names the task.
func (e *Enroller) Enrol(ctx context.Context, taskID string, ev attest.Evidence, p broker.Possession) (broker.Enrolment, error) {
	if p.Key.JKT == "" {
		return broker.Enrolment{}, broker.E(broker.InvalidProof, "Enrolling needs a DPoP proof of the sandbox's key.", nil)
	}
	ev.Key = p.Key
	if ev.Attestor == "" && bytes.HasPrefix(ev.Document, []byte(enroll.TicketPrefix)) {
		ev.Attestor = broker.EnrollName
	}
	a, err := e.evidence.identify(ctx, kernel.ToMint, taskID, ev, p, broker.InvalidEvidence)
	if err != nil {
		return broker.Enrolment{}, err
	}
	en, err := e.taskToken(ctx, a)
	// When this response is lost the sandbox asks again with the same
	// ticket, which now works with its key alone (see matches).
	e.giveBack(ctx, ev)
	return en, err
}

// taskToken issues the task token of a sandbox.
func (e *Enroller) taskToken(ctx context.Context, a kernel.Caller) (broker.Enrolment, error) {
	exp := a.Live.Deadline
	if !a.NotAfter.IsZero() && a.NotAfter.Before(exp) {
		exp = a.NotAfter
	}
	signer, kid, _, err := e.keys.Signer(e.clock.Now())
	if err != nil {
		return broker.Enrolment{}, broker.StoreError(err)
	}
	token, err := enroll.IssueTaskToken(signer, kid, enroll.TaskToken{
		Issuer: e.issuerURL, SandboxID: a.Sandbox.ID, TaskID: a.Live.ID, JKT: a.Sandbox.JKT,
		IssuedAt: e.clock.Now(), ExpiresAt: exp, ID: broker.NewID("ttk_"),
	})
	if err != nil {
		return broker.Enrolment{}, broker.StoreError(err)
	}
	if err := e.store.Append(ctx, broker.Record{Entries: []audit.Entry{
		e.log.TaskEntry(audit.SandboxToken, a.Sandbox.ID, a.Live.ID, map[string]any{"until": exp}),
	}}); err != nil {
		return broker.Enrolment{}, broker.StoreError(err)
	}
	return broker.Enrolment{Token: secret.New(token), ExpiresAt: exp, Task: a.Live.Task}, nil
}
