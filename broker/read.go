package broker

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"ebb/attest/jose"
	"ebb/broker/audit"
	"ebb/broker/provider"
	"ebb/scopes/policy"
)

// Task shows one task: its runner's, or any to auditors, approvers and operators.
func (b *Broker) Task(ctx context.Context, who Principal, id string) (Task, error) {
	if err := allow(who, false, RoleRunner, RoleOperator, RoleAuditor, RoleApprover); err != nil {
		return Task{}, err
	}
	t, err := b.taskByID(ctx, id)
	if err == nil && t.Runner != who.ID && !who.Has(RoleOperator, RoleAuditor, RoleApprover) {
		return Task{}, notFoundTask()
	}
	return t, err
}

// Tasks lists tasks by the same rule.
func (b *Broker) Tasks(ctx context.Context, who Principal, f TaskFilter) ([]Task, error) {
	if err := allow(who, false, RoleRunner, RoleOperator, RoleAuditor, RoleApprover); err != nil {
		return nil, err
	}
	if !who.Has(RoleOperator, RoleAuditor, RoleApprover) {
		f.Runner = who.ID
	}
	ts, err := b.cfg.Journal.Tasks(ctx, f)
	if err != nil {
		return nil, unavailable(err)
	}
	return ts, nil
}

// Leases lists credentials, issued and revoked. A runner sees those of one of
// its tasks and names it.
func (b *Broker) Leases(ctx context.Context, who Principal, f LeaseFilter) ([]Lease, error) {
	if err := allow(who, false, RoleAuditor, RoleOperator, RoleRunner); err != nil {
		return nil, err
	}
	if !who.Has(RoleAuditor, RoleOperator) {
		if _, err := b.mine(ctx, who, false, f.TaskID); err != nil {
			return nil, err
		}
	}
	f.Now = b.now()
	ls, err := b.cfg.Journal.Leases(ctx, f)
	if err != nil {
		return nil, unavailable(err)
	}
	return ls, nil
}

// Lease shows one credential.
func (b *Broker) Lease(ctx context.Context, who Principal, id string) (Lease, error) {
	return b.leaseFor(ctx, who, false, id)
}

// leaseFor loads a lease that who may see, or end.
func (b *Broker) leaseFor(ctx context.Context, who Principal, ends bool, id string) (Lease, error) {
	roles := []Role{RoleOperator, RoleRunner}
	if !ends {
		roles = append(roles, RoleAuditor)
	}
	if err := allow(who, ends, roles...); err != nil {
		return Lease{}, err
	}
	none := E(NotFound, "There is no such credential.", nil)
	if !validID(leasePrefix, id) {
		return Lease{}, none
	}
	ls, err := b.cfg.Journal.Leases(ctx, LeaseFilter{IDs: []string{id}, Now: b.now()})
	if err != nil {
		return Lease{}, unavailable(err)
	}
	if len(ls) == 0 {
		return Lease{}, none
	}
	if !who.Has(RoleOperator) && (ends || !who.Has(RoleAuditor)) {
		if _, err := b.mine(ctx, who, ends, ls[0].TaskID); err != nil {
			return Lease{}, none
		}
	}
	return ls[0], nil
}

// RevokeLease ends one credential.
func (b *Broker) RevokeLease(ctx context.Context, who Principal, id, reason string) (Lease, error) {
	if utf8.RuneCountInString(reason) > 500 || !jose.Plain(reason) {
		return Lease{}, E(Invalid, "reason must be at most 500 printable characters.", nil)
	}
	l, err := b.leaseFor(ctx, who, true, id)
	if err != nil {
		return Lease{}, err
	}
	return b.endLease(ctx, l, who.ID, reason)
}

// endLease refuses a credential from now on: here and in the ledger first, then
// on the record. Ending what is dead already is no error, and finishes an earlier
// end that a store had not taken. What fails is owed.
func (b *Broker) endLease(ctx context.Context, l Lease, by, reason string) (Lease, error) {
	ended, dead := l.State == LeaseRevoked || l.State == LeaseRevoking, LeaseRevoked
	if l.Upstream != nil {
		dead = LeaseRevoking // here; that it is there is the lane's to say
	}
	if l.Cause != "" || !b.now().Before(l.ExpiresAt) || !ended && l.State != LeaseLive && l.State != LeaseIntent {
		b.paidLease(l.ID)
		return l, nil // dead with its task, or by itself
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	now := b.now()
	b.tombs.add(l.ID, l.ExpiresAt)
	live := LiveLease{ID: l.ID, TaskID: l.TaskID, ExpiresAt: l.ExpiresAt}
	endLedger := func() error {
		ctx, cancel := context.WithTimeout(ctx, ledgerTime)
		defer cancel()
		_, err := b.cfg.Ledger.EndLease(ctx, live, now)
		return err
	}
	lerr := endLedger()
	var jerr error
	if !ended {
		e := b.taskEntry(audit.LeaseRevoked, by, l.TaskID, map[string]string{"reason": reason})
		e.LeaseID = l.ID
		rec := Record{EndLease: &LeaseEnd{ID: l.ID, State: dead, By: by, At: now}, Entries: []audit.Entry{e}}
		if l.TaskID == l.ID { // a token for the API is no lease
			rec.EndLease, rec.Entries[0].TaskID = nil, ""
		}
		jerr = b.cfg.Journal.Append(ctx, rec)
		if errors.Is(jerr, ErrDone) || errors.Is(jerr, ErrNotFound) {
			jerr = nil // ended before, or signed and never recorded: nobody has it
		}
	}
	if lerr == nil && jerr == nil { // once more, as in tryClose
		lerr = errors.Join(endLedger(), b.endNarrowed(ctx, l, now))
	}
	if err := errors.Join(lerr, jerr); err != nil {
		b.oweLease(owedLease{l, by, reason})
		return l, &Error{Kind: Unavailable, Cause: err, RetryAfter: 2 * time.Second,
			Public: "The revocation could not be recorded everywhere yet. The token is refused here, and the broker goes on trying. Ask again to confirm."}
	}
	b.paidLease(l.ID)
	if !ended {
		l.State, l.RevokedAt, l.RevokedBy = dead, now, by
	}
	b.nudge(l.Provider)
	return l, nil
}

// endNarrowed tells the ledger, and so the feed, of the ends that follow from the
// end of l: of what was narrowed from it, at any depth. Whatever is minted later
// finds l dead and is never delivered. A token names what it was narrowed from, so
// that until this is done introspection refuses it all the same.
func (b *Broker) endNarrowed(ctx context.Context, l Lease, now time.Time) error {
	level := []string{l.ID}
	for depth := 0; len(level) > 0 && depth < maxLineage && l.TaskID != l.ID; depth++ {
		var mu sync.Mutex
		var next []string
		for parents := range slices.Chunk(level, refillPage) {
			_, err := b.eachLease(ctx, LeaseFilter{Parents: parents}, func(c Lease) error {
				mu.Lock()
				next = append(next, c.ID)
				mu.Unlock()
				if !c.ExpiresAt.After(now) {
					return nil
				}
				if c.Upstream != nil { // nothing follows at a third party by itself
					_, err := b.endLease(ctx, c, self, "narrowed from what was ended")
					return err
				}
				b.tombs.add(c.ID, c.ExpiresAt)
				_, err := b.cfg.Ledger.EndLease(ctx, LiveLease{ID: c.ID, TaskID: c.TaskID, ExpiresAt: c.ExpiresAt}, now)
				return err
			})
			if err != nil {
				return err
			}
		}
		level = next
	}
	return nil
}

// Entries reads the record.
func (b *Broker) Entries(ctx context.Context, who Principal, f EntryFilter) (iter.Seq2[audit.Entry, error], error) {
	if err := allow(who, false, RoleAuditor, RoleOperator, RoleRunner); err != nil {
		return nil, err
	}
	if !who.Has(RoleAuditor, RoleOperator) {
		if _, err := b.mine(ctx, who, false, f.TaskID); err != nil {
			return nil, err
		}
	}
	return b.cfg.Journal.Entries(ctx, f), nil
}

// Checkpoints lists the signed checkpoints of the record.
func (b *Broker) Checkpoints(ctx context.Context, who Principal) ([]audit.Checkpoint, error) {
	if err := allow(who, false, RoleAuditor, RoleOperator); err != nil {
		return nil, err
	}
	cs, err := b.cfg.Journal.Checkpoints(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	return cs, nil
}

// Checkpoint signs where the chains stand and stores it: every chain the first
// time, afterwards those that have grown since. Without growth it does nothing.
func (b *Broker) Checkpoint(ctx context.Context) error {
	last, err := b.cfg.Journal.Heads(ctx)
	if err != nil {
		return err
	}
	b.signedMu.Lock()
	defer b.signedMu.Unlock()
	heads := map[string]audit.Head{}
	for _, e := range last {
		if h := (audit.Head{Seq: e.Seq, Hash: e.Hash}); b.signed[e.Writer] != h {
			heads[e.Writer] = h
		}
	}
	if len(heads) == 0 {
		return nil
	}
	signer, kid, _, err := b.cfg.Keys.Signer(b.now())
	if err != nil {
		return err
	}
	c, err := audit.SignCheckpoint(signer, kid, b.now(), heads)
	if err != nil {
		return err
	}
	if err := b.cfg.Journal.AddCheckpoint(ctx, c); err != nil {
		return err
	}
	maps.Copy(b.signed, heads)
	return nil
}

// Follow reads the revocation feed. It names tasks and leases of everybody, and
// nothing else: ids are random and mean nothing to who does not hold the token.
func (b *Broker) Follow(ctx context.Context, who Principal, cursor string, limit int, wait time.Duration) ([]Event, string, error) {
	if err := allow(who, false, RoleResourceServer, RoleOperator, RoleAuditor); err != nil {
		return nil, "", err
	}
	if b.down.Load() {
		return nil, "", unavailable(ErrLost)
	}
	evs, next, err := b.cfg.Ledger.Follow(ctx, cursor, limit, wait)
	if err != nil {
		return nil, "", unavailable(err)
	}
	return evs, next, nil
}

// Explain says what policy would decide and why.
func (b *Broker) Explain(_ context.Context, who Principal, q policy.Query) (policy.Explanation, error) {
	if err := allow(who, false, RoleOperator, RoleAuditor, RoleApprover); err != nil {
		return policy.Explanation{}, err
	}
	if q.Revocability == "" { // as it would be for these scopes
		r := provider.Revocability{Class: provider.ClassInstant}
		for _, name := range q.Scopes.Providers() {
			p, known := b.cfg.Providers[name]
			if !known {
				r = provider.Revocability{Class: provider.ClassTTLOnly}
				break
			}
			r = weaker(r, promised(p))
		}
		q.Revocability, q.Bound = string(r.Class), r.Bound
	}
	x, err := b.cfg.Policy.Current().Explain(q)
	if err != nil {
		return x, E(Invalid, "The query cannot be judged: it lacks a member or policy does not understand it.", err)
	}
	return x, nil
}
