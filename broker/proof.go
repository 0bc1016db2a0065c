package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"ebb/broker/audit"
	"ebb/broker/receipt"
)

// Receipt proves how the credentials of a closed task ended at third parties, as
// far as that is known now. jws is what `ebb task receipt verify` checks.
func (b *Broker) Receipt(ctx context.Context, who Principal, taskID string) (r receipt.Receipt, jws string, err error) {
	if err := allow(who, certain, RoleRunner, RoleOperator, RoleAuditor, RoleApprover); err != nil {
		return r, "", err
	}
	t, err := b.Task(ctx, who, taskID)
	if err != nil {
		return r, "", err
	}
	if t.State != TaskClosed {
		return r, "", E(Conflict, "The task is not complete: there is no receipt yet. Complete it first.", nil)
	}
	if t.Delegation != nil {
		open, err := b.cfg.Journal.Tasks(ctx, TaskFilter{Below: t.ID, Open: true, Page: Page{Limit: 1}})
		if err != nil {
			return r, "", unavailable(err)
		}
		if len(open) > 0 {
			return r, "", E(Conflict, "Tasks that were delegated below this one are still being ended: there is no receipt yet. Ask again in a moment.", nil)
		}
	}
	if r, err = b.receiptOf(ctx, t); err == nil {
		jws, err = b.signReceipt(r)
	}
	if err != nil {
		return r, "", unavailable(err)
	}
	return r, jws, nil
}

func (b *Broker) signReceipt(r receipt.Receipt) (string, error) {
	signer, kid, _, err := b.cfg.Keys.Signer(b.now())
	if err != nil {
		return "", err
	}
	return receipt.Sign(signer, kid, r)
}

// receiptOf reads how every credential of a tree of tasks at a third party ended. A
// task without any costs one look.
func (b *Broker) receiptOf(ctx context.Context, t Task) (receipt.Receipt, error) {
	out := receipt.Receipt{Issuer: b.cfg.Issuer, IssuedAt: b.now().Unix(), Task: t.ID, ClosedAt: t.ClosedAt, Cause: string(t.Cause)}
	if err := b.countedAtEnd(ctx, t.ID, &out); err != nil {
		return out, err
	}
	f := upstreamOf(t)
	if t.Delegation != nil {
		var sum sync.Mutex
		var err error
		_, err = b.eachBelow(ctx, TaskFilter{Below: t.ID, ClosedFrom: t.ClosedAt}, func(ctx context.Context, c Task) error {
			if c.Cause != CauseParent {
				return nil // it was over by itself; its credentials are named all the same
			}
			sum.Lock()
			defer sum.Unlock()
			out.Delegated++
			return b.countedAtEnd(ctx, c.ID, &out)
		})
		if err != nil {
			return out, err
		}
	}
	build := receipt.NewBuilder(out)
	for f.Page = (Page{Limit: refillPage}); ; {
		f.Now = b.now()
		ls, err := b.cfg.Journal.Leases(ctx, f)
		if err != nil {
			return out, err
		}
		for _, l := range ls {
			if err := build.Add(proofOf(t, l)); err != nil {
				return out, err
			}
		}
		if len(ls) < refillPage {
			return build.Receipt(), nil
		}
		f.Page.After = ls[len(ls)-1].ID
	}
}

// upstreamOf selects the credentials at third parties of a task and of what was
// delegated below it.
func upstreamOf(t Task) LeaseFilter {
	if t.Delegation == nil {
		return LeaseFilter{TaskID: t.ID, Upstream: true}
	}
	return LeaseFilter{Tree: t.ID, Upstream: true}
}

// countedAtEnd adds what was live when a task was closed: the ledger forgets it,
// the record does not.
func (b *Broker) countedAtEnd(ctx context.Context, taskID string, out *receipt.Receipt) error {
	for e, err := range b.cfg.Journal.Entries(ctx, EntryFilter{TaskID: taskID, Kind: audit.TaskClosed, Limit: 1}) {
		if err != nil {
			return err
		}
		var n struct {
			Live    int  `json:"live"`
			Expired int  `json:"expired"`
			Ledger  bool `json:"ledger"`
		}
		if err := json.Unmarshal(e.Data, &n); err != nil {
			return fmt.Errorf("audit entry %s/%d: %w", e.Writer, e.Seq, err)
		}
		out.Uncounted = out.Uncounted || !n.Ledger
		out.Live += n.Live
		out.Expired += n.Expired
	}
	return nil
}

// proofOf names the task of a credential that is not that of the receipt.
func proofOf(t Task, l Lease) receipt.Credential {
	u, task := l.Upstream, ""
	if l.TaskID != t.ID {
		task = l.TaskID
	}
	return receipt.Credential{
		Task: task,

		Lease: l.ID, Provider: l.Provider, Scope: l.Scopes.String(), Class: string(l.Class), Bound: int64(u.Bound), State: string(l.State),
		RevokedAt: l.RevokedAt, AcceptedAt: u.AcceptedAt, DeadAt: u.DeadAt, Proof: string(u.Proof), ProbedAt: u.ProbedAt, Attempts: u.Attempts,
	}
}
