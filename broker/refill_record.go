package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"ebb/attest/jose"
	"ebb/broker/audit"
)

// refillEvidence ties evidence to the keys again that a person logged in with or a
// sandbox was bound by, as far as it is still valid.
func (b *Broker) refillEvidence(ctx context.Context, now time.Time) error {
	for _, kind := range []string{audit.PrincipalAuthenticated, audit.SandboxEnrolled} {
		for e, err := range b.cfg.Journal.Entries(ctx, EntryFilter{Kind: kind, From: now.Add(-jose.DefaultMaxLifetime)}) {
			if err != nil {
				return err
			}
			var data struct {
				Evidence *usedEvidence `json:"evidence"`
			}
			if err := json.Unmarshal(e.Data, &data); err != nil {
				return fmt.Errorf("audit entry %s/%d: %w", e.Writer, e.Seq, err)
			}
			if data.Evidence == nil || !data.Evidence.Until.After(now) {
				continue
			}
			_, err = b.cfg.Ledger.Admit(ctx, Admission{Claims: []Claim{{
				Key: data.Evidence.Key, Value: data.Evidence.JKT, Until: data.Evidence.Until, Again: true,
			}}})
			if err != nil && !errors.Is(err, ErrClaimed) {
				return err
			}
		}
	}
	return nil
}

// refillSuspects finishes what a process that died between an approver's verdict
// "suspicious" and the end of the task left undone.
func (b *Broker) refillSuspects(ctx context.Context, now time.Time) error {
	f := RequestFilter{State: RequestDenied, Since: now.Add(-b.cfg.Limits.MaxTaskTTL), Page: Page{Limit: 1000}}
	for {
		rs, err := b.cfg.Desk.Requests(ctx, f)
		if err != nil {
			return err
		}
		for _, r := range rs {
			if r.Code != Suspicious {
				continue
			}
			m := suspicion(r, now)
			m.ID = b.rootOf(ctx, r.TaskID)
			ts, err := b.cfg.Journal.Tasks(ctx, TaskFilter{IDs: []string{m.ID}, Open: true})
			if err != nil {
				return err
			}
			if len(ts) == 1 {
				b.owe(m)
			}
		}
		if len(rs) < f.Page.Limit {
			return nil
		}
		f.Page.After = rs[len(rs)-1].ID
	}
}

// refillAPI remembers again which tokens for the API were revoked: they are of no
// task and no lease.
func (b *Broker) refillAPI(ctx context.Context, now time.Time) error {
	for e, err := range b.cfg.Journal.Entries(ctx, EntryFilter{Kind: audit.LeaseRevoked, From: now.Add(-b.cfg.Limits.PrincipalTTL)}) {
		if err != nil {
			return err
		}
		if e.TaskID == "" {
			b.tombs.add(e.LeaseID, e.At.Add(b.cfg.Limits.PrincipalTTL))
		}
	}
	return nil
}

// records counts again, from the audit chain, what policy holds against tasks:
// losing the ledger must not give anybody a clean slate.
func (b *Broker) records(ctx context.Context, now time.Time) (map[string]Live, error) {
	out := map[string]Live{}
	for _, kind := range []string{audit.TokenDenied, audit.RequestDenied, audit.TokenReplayed, audit.TaskTainted} {
		for e, err := range b.cfg.Journal.Entries(ctx, EntryFilter{Kind: kind, From: now.Add(-b.cfg.Limits.MaxTaskTTL)}) {
			if err != nil {
				return nil, err
			}
			l := out[e.TaskID]
			switch kind {
			case audit.TokenReplayed:
				l.Violations++
			case audit.TaskTainted:
				var t taint
				if err := json.Unmarshal(e.Data, &t); err != nil {
					return nil, fmt.Errorf("audit entry %s/%d: %w", e.Writer, e.Seq, err)
				}
				l.Taint = AddTaint(l.Taint, t.Sources)
			default:
				l.Denials++
			}
			out[e.TaskID] = l
		}
	}
	return out, b.rollUp(ctx, out)
}

// rollUp counts what delegates did for those above them too (see countAll). What
// they have read is on the record of each.
func (b *Broker) rollUp(ctx context.Context, records map[string]Live) error {
	own := maps.Clone(records)
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(own)), refillPage) {
		ts, err := b.cfg.Journal.Tasks(ctx, TaskFilter{IDs: ids, Page: Page{Limit: refillPage}})
		if err != nil {
			return err
		}
		for _, t := range ts {
			for _, id := range t.Ancestors {
				l := records[id]
				l.Denials += own[t.ID].Denials
				l.Violations += own[t.ID].Violations
				records[id] = l
			}
		}
	}
	return nil
}
