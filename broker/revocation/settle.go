package revocation

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/internal/thirdparty"
	"github.com/ebb-broker/ebb/broker/pace"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// retries is the waiting time of the queue after failed attempts for one lease.
var retries = pace.Backoff{Min: time.Second, Max: 5 * time.Minute}

// fail plans the next attempt. It settles the lease as unconfirmed only when the credential's
// expiry has passed, and never when the credential was accepted after that.
func (a *attempt) fail(err error) {
	now := a.b.clock.Sure()
	if errors.Is(err, kernel.ErrNotToday) { // the provider was not called
		wait := max(a.u.Quiet.Left(now), a.u.Ending.Retry(now).Sub(now), 0)
		a.up.NextAt = now.Add(wait + time.Duration(thirdparty.Jitter()*float64(time.Second)))
		return
	}
	a.up.Attempts++
	a.up.LastError = failure(err)
	a.b.logger.Warn("a credential could not be revoked yet", "lease_id", a.c.ID, "provider", a.u.Name, "attempts", a.up.Attempts, "error", err)
	a.u.Logged.Failed(err)
	if a.over() && !a.outlived(a.up) {
		a.dead(broker.ProofExpired)
		a.end = broker.LeaseUnconfirmed
		return
	}
	wait := retries.Wait(a.up.Attempts, thirdparty.Jitter())
	if busy, is := errors.AsType[*provider.BusyError](err); is {
		wait = max(wait, min(busy.After, provider.MaxWait))
	}
	if errors.Is(err, kernel.ErrSealed) || errors.Is(err, errNoWay) || a.outlived(a.up) {
		wait = retries.Max
	}
	a.up.NextAt = now.Add(wait)
	lost := errors.Is(err, provider.ErrLost) // a retry does not help; the credential expires
	if last := a.overAt(); last.After(now) && (lost || a.up.NextAt.After(last)) {
		a.up.NextAt = last
	}
	if a.up.Attempts%10 == 1 || a.outlived(a.up) && !a.outlived(*a.c.Upstream) {
		a.log(audit.LeaseStuck, map[string]any{"attempts": a.up.Attempts, "why": a.up.LastError, "next_attempt_at": a.up.NextAt})
	}
}

// failure describes the error in one sentence without any text of the provider.
func failure(err error) string {
	var op *net.OpError
	_, busy := errors.AsType[*provider.BusyError](err)
	switch {
	case errors.Is(err, kernel.ErrAlive):
		return "The provider still accepts it after it was revoked."
	case errors.Is(err, kernel.ErrOutlived):
		return "The provider still accepts it after its own expiry. End it there, then force it here."
	case errors.Is(err, errDoubt):
		return "The provider accepted it after it was revoked, and cannot tell whether it still does."
	case errors.Is(err, kernel.ErrSealed):
		return "Its revocation handle cannot be opened: the sealing key is missing."
	case errors.Is(err, errNoWay):
		return "The provider cannot revoke it, and it never expires. End it there, then force it here."
	case errors.Is(err, provider.ErrLost):
		return "The provider's response was lost, and it cannot find a credential by lease. If it made one, that ends at its own expiry."
	case busy:
		return "The provider limits the rate of requests."
	case errors.Is(err, provider.ErrRefused):
		return thirdparty.Refusal(err)
	case errors.Is(err, context.DeadlineExceeded):
		return "The provider did not answer in time."
	case errors.As(err, &op):
		return "The provider cannot be reached."
	}
	return "The provider answered with an error."
}

// dead settles the lease: the outcome, its time and its proof.
func (a *attempt) dead(p broker.Proof) {
	a.up.DeadAt, a.up.Proof = a.b.clock.Sure(), p
	if p == broker.ProofExpired {
		a.up.DeadAt = a.overAt()
	}
	a.end = broker.LeaseRevoked
	if a.cause() == broker.CauseExpired || !a.c.RevokedAt.IsZero() && !a.c.RevokedAt.Before(a.c.ExpiresAt) {
		a.end = broker.LeaseExpired
	}
	if a.c.State == broker.LeaseIntent && a.c.Class == provider.ClassTTLOnly {
		a.end = broker.LeaseUnconfirmed // unknown whether it was ever minted
	}
	if a.unread() { // its expiry is an estimate
		a.end, a.up.DeadAt, a.up.Proof, a.up.LastError = broker.LeaseUnconfirmed, time.Time{}, broker.ProofNone, answerUnread
	}
}

// unread reports whether a response that was not read may have created the credential: its
// expiry is then unknown too. If the response was read, the handle is recorded.
func (a *attempt) unread() bool {
	_, seals := a.u.Driver.(provider.AnswerSealer)
	return seals && a.up.Handle == ""
}

const answerUnread = "The response that may have contained it was lost or withheld. If the credential exists, its expiry is unknown."

// cause returns why the credential ends: a live lease in the queue had its whole lifetime.
func (a *attempt) cause() broker.Cause {
	if a.c.State == broker.LeaseLive {
		return broker.CauseExpired
	}
	return a.c.Cause
}

func (a *attempt) log(kind string, data any) {
	a.note = append(a.note, a.b.upstream.LeaseEntry(kind, kernel.Self, a.c.Lease, data))
}

func (a *attempt) final() bool { return a.end != broker.LeaseRevoking }

// settle writes the outcome of the attempt. If that fails the claim expires and another attempt
// follows: every step can be repeated.
func (a *attempt) settle() {
	b := a.b
	if a.final() {
		a.up.NextAt = time.Time{}
		kind := audit.LeaseDead
		if a.end == broker.LeaseUnconfirmed {
			kind = audit.LeaseUnconfirmed
		}
		data := map[string]any{"state": a.end, "proof": a.up.Proof, "attempts": a.up.Attempts, "provider": a.u.Name}
		if !a.up.DeadAt.IsZero() {
			data["dead_at"] = a.up.DeadAt
		}
		a.log(kind, data)
	}
	ctx, cancel := context.WithTimeout(context.Background(), broker.FailTime)
	defer cancel()
	up := a.up
	up.Handle = "" // keeps the stored one
	if kept := b.kept.Get(a.c.ID); !kept.Empty() && !a.final() {
		up.Handle, _ = b.sealer.Seal(a.c.ID, kept) // a handle that a mint could not make durable
	}
	moved := a.u.Held.Move()
	err := b.store.Append(ctx, broker.Record{
		SettleLease: &broker.LeaseMove{ID: a.c.ID, Fence: a.c.Fence, State: a.end, At: b.clock.Sure(), By: kernel.Self, Cause: a.cause(), Upstream: up},
		Entries:     a.note,
	})
	if err == nil && a.final() {
		moved(-1)
	} else {
		moved(0)
	}
	if errors.Is(err, broker.ErrDone) {
		return // another replica has claimed it, or a person forced it
	}
	if err != nil {
		b.logger.Warn("the outcome of a revocation could not be recorded; the attempt is repeated", "lease_id", a.c.ID, "error", err)
		return
	}
	if a.final() || up.Handle != "" {
		b.kept.Drop(a.c.ID)
	}
	if a.final() {
		a.u.Logged.Ended(a.end, a.up.Proof, a.since(), a.up.DeadAt)
		b.rang.Ring(a.c.TaskID)
	}
}

// since returns when the revocation became pending.
func (a *attempt) since() time.Time {
	if a.c.RevokedAt.IsZero() {
		return a.c.ExpiresAt
	}
	return a.c.RevokedAt
}

// lateCredentials are late credentials: minted after the queue had settled their intents, and not
// revoked at once. No stored lease keeps their revocation pending, so that this process does
// until they are revoked; the sweep finds them as well.
type lateCredentials struct {
	mu sync.Mutex
	m  map[string]lateCredential // by lease
}

type lateCredential struct {
	u      *thirdparty.Upstream
	lease  broker.Lease
	handle secret.Secret
}

func (g *lateCredentials) all() []lateCredential {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Values(g.m))
}

// count returns the number of late credentials at each provider.
func (g *lateCredentials) count() map[string]int {
	out := map[string]int{}
	for _, one := range g.all() {
		out[one.u.Name]++
	}
	return out
}

// KeepLate takes a late credential. gone means that it is revoked already; otherwise its handle
// is kept in memory until reclaim has revoked it.
func (q *Queue) KeepLate(ctx context.Context, u *thirdparty.Upstream, l broker.Lease, handle secret.Secret, gone bool) {
	if gone {
		q.reportLate(ctx, u, l)
		return
	}
	q.lateCredentials.mu.Lock()
	defer q.lateCredentials.mu.Unlock()
	if q.lateCredentials.m == nil {
		q.lateCredentials.m = map[string]lateCredential{}
	}
	q.lateCredentials.m[l.ID] = lateCredential{u, l, handle}
}

// reclaim revokes the late credentials, one after the other.
func (q *Queue) reclaim(ctx context.Context) {
	for _, g := range q.lateCredentials.all() {
		if ctx.Err() != nil {
			return
		}
		call, cancel := context.WithTimeout(ctx, broker.CallTime)
		err := g.u.Revoke(call, q.upstream.RevocationTarget(g.lease, g.handle))
		cancel()
		if err != nil {
			q.logger.ErrorContext(ctx, "a late credential could not be revoked yet", "lease_id", g.lease.ID, "error", err)
			continue
		}
		q.lateCredentials.mu.Lock()
		delete(q.lateCredentials.m, g.lease.ID)
		q.lateCredentials.mu.Unlock()
		q.reportLate(ctx, g.u, g.lease)
	}
}

// reportLate reports a revoked late credential as an orphan if its lease is in a final state.
// Otherwise the queue still works on the lease and reports its end.
func (q *Queue) reportLate(ctx context.Context, u *thirdparty.Upstream, l broker.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), broker.FailTime)
	defer cancel()
	ls, err := q.store.Leases(ctx, broker.LeaseFilter{IDs: []string{l.ID}, Now: q.clock.Sure()})
	if err != nil || len(ls) != 1 {
		q.logger.WarnContext(ctx, "the lease of a late credential could not be read", "lease_id", l.ID, "error", err)
	} else if l = ls[0]; !l.State.Final() {
		return
	}
	if q.sweeper.firstOf(ctx, l.ID) {
		q.sweeper.tellOrphan(ctx, u, l, true, true)
	}
}
