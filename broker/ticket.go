package broker

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"ebb/attest"
	"ebb/attest/enroll"
	"ebb/broker/audit"
	"ebb/broker/provider"
)

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

func (b *Broker) issueTicket(ctx context.Context, taskID string) (Ticket, error) {
	text, hash := enroll.NewTicket()
	until := b.now().Add(b.cfg.Limits.TicketTTL)
	if err := b.putTicket(ctx, hash, taskID, until); err != nil {
		return Ticket{}, unavailable(err)
	}
	if err := b.cfg.Journal.Append(ctx, Record{Entries: []audit.Entry{
		b.taskEntry(audit.TaskTicket, self, taskID, map[string]any{"hash": hash, "until": until}),
	}}); err != nil {
		return Ticket{}, unavailable(err)
	}
	return Ticket{Ticket: provider.NewSecret(text), ExpiresAt: until}, nil
}
