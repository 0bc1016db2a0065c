package broker

import (
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"ebb/broker/audit"
)

// Entries reads the record, but for what is hidden from who.
func (b *Broker) Entries(ctx context.Context, who Principal, f EntryFilter) (iter.Seq2[audit.Entry, error], error) {
	entries, err := b.entriesOf(ctx, who, f)
	if err != nil {
		return nil, err
	}
	return b.shownTo(ctx, who, entries, nil), nil
}

func (b *Broker) entriesOf(ctx context.Context, who Principal, f EntryFilter) (iter.Seq2[audit.Entry, error], error) {
	if err := allow(who, certain, RoleAuditor, RoleOperator, RoleRunner); err != nil {
		return nil, err
	}
	if !who.Has(RoleAuditor, RoleOperator) {
		if _, err := b.mine(ctx, who, certain, f.TaskID); err != nil {
			return nil, err
		}
	}
	return b.cfg.Journal.Entries(ctx, f), nil
}

// Checkpoints lists the signed checkpoints of the record.
func (b *Broker) Checkpoints(ctx context.Context, who Principal) ([]audit.Checkpoint, error) {
	if err := allow(who, certain, RoleAuditor, RoleOperator); err != nil {
		return nil, err
	}
	cs, err := b.cfg.Journal.Checkpoints(ctx)
	if err != nil {
		return nil, unavailable(err)
	}
	return cs, nil
}

// Checkpoint signs where the chains stand and stores it: every chain the first
// time and with each new signing key, afterwards those that have grown since. Without growth it does nothing.
func (b *Broker) Checkpoint(ctx context.Context) error {
	b.signedMu.Lock()
	defer b.signedMu.Unlock()
	signer, kid, _, err := b.cfg.Keys.Signer(b.now())
	if err != nil {
		return err
	}
	if err := b.noteKeys(ctx); err != nil {
		b.cfg.Logger.WarnContext(ctx, "the signing keys were not named on the audit log", "error", err)
	}
	last, err := b.cfg.Journal.Heads(ctx)
	if err != nil {
		return err
	}
	if err := b.noteHeads(ctx, last); err != nil {
		return err
	}
	heads := map[string]audit.Head{}
	for _, e := range last {
		if h := (audit.Head{Seq: e.Seq, Hash: e.Hash}); b.signed[e.Writer] != h || b.signedBy != kid {
			heads[e.Writer] = h
		}
	}
	if len(heads) == 0 {
		return nil
	}
	c, err := audit.SignCheckpoint(signer, kid, b.now(), heads)
	if err != nil {
		return err
	}
	if err := b.cfg.Journal.AddCheckpoint(ctx, c); err != nil {
		return err
	}
	maps.Copy(b.signed, heads)
	b.signedBy = kid
	return nil
}

// Follow reads the revocation feed. It names tasks and leases of everybody, and
// nothing else: ids are random and mean nothing to who does not hold the token.
func (b *Broker) Follow(ctx context.Context, who Principal, cursor string, limit int, wait time.Duration) ([]Event, string, error) {
	if err := allow(who, certain, RoleResourceServer, RoleOperator, RoleAuditor); err != nil {
		return nil, "", err
	}
	if b.down.Load() {
		return nil, "", unavailable(ErrLost)
	}
	evs, next, err := b.cfg.Ledger.Follow(ctx, cursor, limit, wait)
	if err != nil {
		return nil, "", unavailable(err)
	}
	// A pause revokes nothing.
	return slices.DeleteFunc(evs, func(e Event) bool { return e.LeaseID == PauseMark }), next, nil
}
