package broker

import (
	"context"
	"errors"
	"net"
	"time"

	"ebb/broker/audit"
	"ebb/broker/pace"
	"ebb/broker/provider"
)

// retries is how long the lane waits after failures at one lease.
var retries = pace.Backoff{Min: time.Second, Max: 5 * time.Minute}

// fail plans the next attempt. It gives up only when the credential is dead by its
// own expiry, and says so; never one that was seen alive after that.
func (a *attempt) fail(err error) {
	now := a.b.now()
	if errors.Is(err, errNotToday) { // nobody tried
		wait := max(a.u.quiet.left(now), a.u.ending.Retry(now).Sub(now), 0)
		a.up.NextAt = now.Add(wait + time.Duration(jitter()*float64(time.Second)))
		return
	}
	a.up.Attempts++
	a.up.LastError = failure(err)
	a.b.cfg.Logger.Warn("a credential could not be taken back yet", "lease_id", a.c.ID, "provider", a.u.name, "attempts", a.up.Attempts, "error", err)
	a.u.logged.failed(err)
	if a.over() && !a.outlived() {
		a.dead(ProofExpired)
		a.end = LeaseUnconfirmed
		return
	}
	wait := retries.Wait(a.up.Attempts, jitter())
	if busy, is := errors.AsType[*provider.BusyError](err); is {
		wait = max(wait, busy.After)
	}
	if errors.Is(err, errSealed) || errors.Is(err, errNoWay) || a.outlived() {
		wait = retries.Max
	}
	a.up.NextAt = now.Add(wait)
	lost := errors.Is(err, provider.ErrLost) // trying again does not help, time does
	if !a.up.DiesAt.IsZero() && !a.over() && (lost || a.up.NextAt.After(a.overAt())) {
		a.up.NextAt = a.overAt() // the last one
	}
	if a.up.Attempts%10 == 1 || a.outlived() && !outlived(*a.c.Upstream) {
		a.log(audit.LeaseStuck, map[string]any{"attempts": a.up.Attempts, "why": a.up.LastError, "next_attempt_at": a.up.NextAt})
	}
}

// failure says what went wrong in one sentence that holds nothing of the provider's
// own words.
func failure(err error) string {
	var op *net.OpError
	_, busy := errors.AsType[*provider.BusyError](err)
	switch {
	case errors.Is(err, errAlive):
		return "The provider still accepts it after it was revoked."
	case errors.Is(err, errOutlived):
		return "The provider still accepts it after its own expiry. End it there, then force it here."
	case errors.Is(err, errDoubt):
		return "The provider accepted it after it was revoked, and cannot tell whether it still does."
	case errors.Is(err, errSealed):
		return "Its revocation handle cannot be opened: the sealing key is not here."
	case errors.Is(err, errNoWay):
		return "The provider can neither revoke it nor does it expire. End it there, then force it here."
	case errors.Is(err, provider.ErrLost):
		return "The provider's answer was lost, and it knows no lease by name. Whatever it made dies by its own expiry."
	case busy:
		return "The provider limits how often it may be asked."
	case errors.Is(err, provider.ErrRefused):
		return refusal(err)
	case errors.Is(err, context.DeadlineExceeded):
		return "The provider did not answer in time."
	case errors.As(err, &op):
		return "The provider cannot be reached."
	}
	return "The provider answered with an error."
}

// dead is the end: what is known, since when, and how.
func (a *attempt) dead(p Proof) {
	a.up.DeadAt, a.up.Proof = a.b.now(), p
	if p == ProofExpired {
		a.up.DeadAt = a.overAt()
	}
	a.end = LeaseRevoked
	if a.cause() == CauseExpired || !a.c.RevokedAt.IsZero() && !a.c.RevokedAt.Before(a.c.ExpiresAt) {
		a.end = LeaseExpired
	}
	if a.c.State == LeaseIntent && a.c.Class == provider.ClassTTLOnly {
		a.end = LeaseUnconfirmed // nobody knows whether it ever was
	}
	if a.unread() { // and until when it is accepted was a guess
		a.end, a.up.DeadAt, a.up.Proof, a.up.LastError = LeaseUnconfirmed, time.Time{}, ProofNone, answerUnread
	}
}

// unread reports whether an answer may have made the credential that nobody has read: then
// nobody knows of its own expiry either. With what was read its handle is on the record.
func (a *attempt) unread() bool {
	_, seals := a.u.Driver.(provider.AnswerSealer)
	return seals && a.up.Handle == ""
}

const answerUnread = "The answer that may have made it was lost or withheld. If there is such a credential, nobody here knows how long it lives."

// cause is why the credential ends: a live one in the lane had its whole time.
func (a *attempt) cause() Cause {
	if a.c.State == LeaseLive {
		return CauseExpired
	}
	return a.c.Cause
}

func (a *attempt) log(kind string, data any) {
	a.note = append(a.note, a.b.leaseEntry(kind, self, a.c.Lease, data))
}

func (a *attempt) final() bool { return a.end != LeaseRevoking }

// settle writes down what came of the attempt. When that fails the claim ends by
// itself and somebody does it again: every step can be repeated.
func (a *attempt) settle() {
	b := a.b
	if a.final() {
		a.up.NextAt = time.Time{}
		kind := audit.LeaseDead
		if a.end == LeaseUnconfirmed {
			kind = audit.LeaseUnconfirmed
		}
		data := map[string]any{"state": a.end, "proof": a.up.Proof, "attempts": a.up.Attempts, "provider": a.u.name}
		if !a.up.DeadAt.IsZero() {
			data["dead_at"] = a.up.DeadAt
		}
		a.log(kind, data)
	}
	ctx, cancel := context.WithTimeout(context.Background(), failTime)
	defer cancel()
	up := a.up
	up.Handle = "" // leaves the stored one
	if kept := b.kept.get(a.c.ID); !kept.Empty() && !a.final() {
		up.Handle, _ = b.cfg.Sealer.Seal(a.c.ID, kept) // what a mint could not make durable
	}
	moved := a.u.held.move()
	err := b.cfg.Journal.Append(ctx, Record{
		SettleLease: &LeaseMove{ID: a.c.ID, Fence: a.c.Fence, State: a.end, At: b.now(), By: self, Cause: a.cause(), Upstream: up},
		Entries:     a.note,
	})
	if err == nil && a.final() {
		moved(-1)
	} else {
		moved(0)
	}
	if errors.Is(err, ErrDone) {
		return // another replica has it, or a person forced it
	}
	if err != nil {
		b.cfg.Logger.Warn("what came of a revocation could not be recorded; it is done again", "lease_id", a.c.ID, "error", err)
		return
	}
	if a.final() || up.Handle != "" {
		b.kept.drop(a.c.ID)
	}
	if a.final() {
		a.u.logged.ended(a.end, a.up.Proof, a.since(), a.up.DeadAt)
		b.rang.ring(a.c.TaskID)
	}
}

// since is from when on the end was owed.
func (a *attempt) since() time.Time {
	if a.c.RevokedAt.IsZero() {
		return a.c.ExpiresAt
	}
	return a.c.RevokedAt
}
