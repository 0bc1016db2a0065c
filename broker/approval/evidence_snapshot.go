package approval

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
)

// MaxSnapshot bounds an evidence snapshot, in bytes.
const MaxSnapshot = 64 << 10

// EvidenceSnapshot returns a request and the vote of one voter with its evidence snapshot, to auditors,
// operators and the voter.
func (ve *Verdicts) EvidenceSnapshot(ctx context.Context, who broker.Principal, id, voter string) (broker.Request, broker.Vote, error) {
	if _, err := ve.listings.Request(ctx, who, id); err != nil {
		return broker.Request{}, broker.Vote{}, err
	}
	none := broker.E(broker.NotFound, "No person of that name has voted on this request, or you may not see the evidence of that vote.", nil)
	if who.ID != voter && !who.Has(broker.RoleAuditor, broker.RoleOperator) {
		return broker.Request{}, broker.Vote{}, none
	}
	rs, err := ve.approvalStore.Requests(ctx, broker.RequestFilter{IDs: []string{id}, Snapshots: true})
	if err != nil {
		return broker.Request{}, broker.Vote{}, broker.StoreError(err)
	}
	if len(rs) == 0 {
		return broker.Request{}, broker.Vote{}, none
	}
	r := rs[0]
	r.Match = broker.MatchCode(r.ID)
	i := slices.IndexFunc(r.Votes, func(v broker.Vote) bool { return v.By == voter })
	// Auditors with the role approver see the other votes only after their own.
	shown := kernel.ShownVotes(who, r)
	if i < 0 || !slices.ContainsFunc(shown, func(v broker.Vote) bool { return v.By == voter }) {
		return broker.Request{}, broker.Vote{}, none
	}
	return r, r.Votes[i], nil
}

// Kept returns the evidence snapshots and proofs of the votes among these entries, for an export of
// the audit log. If one of the votes is hidden from the principal, it returns a Conflict error.
func (ve *Verdicts) Kept(ctx context.Context, who broker.Principal, entries []audit.Entry) ([]audit.Kept, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleAuditor, broker.RoleOperator); err != nil {
		return nil, err
	}
	answers := map[audit.Kept]bool{} // with the hashes of the texts
	var out []audit.Kept
	var ids []string
	for _, e := range entries {
		switch e.Kind {
		case audit.RequestVoted:
			var data struct {
				Snapshot string `json:"seen_sha256"`
				Proof    string `json:"proof_sha256"`
			}
			if err := json.Unmarshal(e.Data, &data); err != nil {
				return nil, broker.E(broker.Internal, "An entry of the audit log cannot be read. Export the audit log and check it with 'ebb audit verify'.", err)
			}
			if data.Snapshot != "" || data.Proof != "" {
				answers[audit.Kept{RequestID: e.RequestID, By: e.Actor, Snapshot: data.Snapshot, Proof: data.Proof}] = true
				ids = append(ids, e.RequestID)
			}
		case audit.BreakGlassBegun:
			g, err := ve.begun(ctx, e)
			if err != nil {
				return nil, err
			}
			if g.Proof != "" {
				out = append(out, audit.Kept{RequestID: g.ID, By: g.Person, Proof: g.Proof})
			}
		}
	}
	slices.Sort(ids)
	for some := range slices.Chunk(slices.Compact(ids), keptAtOnce) {
		rs, err := ve.approvalStore.Requests(ctx, broker.RequestFilter{IDs: some, Snapshots: true, Page: broker.Page{Limit: len(some)}})
		if err != nil {
			return nil, broker.StoreError(err)
		}
		for _, r := range rs {
			kept, err := keptOf(who, r, answers)
			if err != nil {
				return nil, err
			}
			out = append(out, kept...)
		}
	}
	return out, nil
}

// keptOf returns the kept texts of those votes on r that answers names, including votes that a
// later vote replaced.
func keptOf(who broker.Principal, r broker.Request, answers map[audit.Kept]bool) (out []audit.Kept, err error) {
	shown := len(kernel.ShownVotes(who, r)) == len(r.Votes)
	for _, v := range slices.Concat(r.Replaced, r.Votes) {
		k := audit.Kept{RequestID: r.ID, By: v.By, Snapshot: hashIf(v.Snapshot), Proof: hashIf(v.Proof)}
		switch {
		case !answers[k]:
		case !shown:
			return nil, kernel.ErrGap
		default:
			k.Snapshot, k.Proof = v.Snapshot, v.Proof
			out = append(out, k)
		}
	}
	return out, nil
}

func hashIf(s string) string {
	if s == "" {
		return ""
	}
	return broker.TextHash(s)
}

// begun returns the period whose beginning an entry records.
func (ve *Verdicts) begun(ctx context.Context, e audit.Entry) (broker.BreakGlass, error) {
	var data struct {
		ID string `json:"break_glass"`
	}
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return broker.BreakGlass{}, broker.E(broker.Internal, "An entry of the audit log cannot be read. Export the audit log and check it with 'ebb audit verify'.", err)
	}
	return ve.emergencies.breakGlass(ctx, data.ID)
}

// keptAtOnce is the number of requests read at one time. Each of their votes has up to
// 2*MaxSnapshot bytes.
const keptAtOnce = 50

// Signature returns the signature of a vote as the audit log describes it, compared with the
// kept proof; nil for a vote without a signature. Callers must have got the vote from EvidenceSnapshot.
func (ve *Verdicts) Signature(ctx context.Context, v broker.Vote) (*audit.Signature, error) {
	return ve.signature(ctx, audit.Kept{RequestID: v.RequestID, By: v.By, Snapshot: v.Snapshot, Proof: v.Proof}, v.At, broker.EntryFilter{Kind: audit.RequestVoted, Actor: v.By, RequestID: v.RequestID})
}

// BreakGlassSignature is Signature for the beginning of a period.
func (ve *Verdicts) BreakGlassSignature(ctx context.Context, g broker.BreakGlass) (*audit.Signature, error) {
	return ve.signature(ctx, audit.Kept{RequestID: g.ID, By: g.Person, Proof: g.Proof}, g.BegunAt, broker.EntryFilter{Kind: audit.BreakGlassBegun, Actor: g.Person, From: g.BegunAt.Add(-time.Minute), To: g.BegunAt.Add(time.Minute)})
}

// BreakGlassRecorded compares a period with the audit entry of its beginning: Conflict when the
// entry differs or is missing. It verifies no proof.
func (ve *Verdicts) BreakGlassRecorded(ctx context.Context, g broker.BreakGlass) error {
	for e, err := range ve.store.Entries(ctx, broker.EntryFilter{Kind: audit.BreakGlassBegun, Actor: g.Person, From: g.BegunAt.Add(-time.Minute), To: g.BegunAt.Add(time.Minute)}) {
		if err != nil {
			return broker.StoreError(err)
		}
		var said struct {
			ID       string    `json:"break_glass"`
			Digest   string    `json:"digest"`
			ProvedAt time.Time `json:"proved_at"`
			ACR      string    `json:"acr"`
		}
		if json.Unmarshal(e.Data, &said) == nil && said.ID == g.ID && said.Digest == g.Digest() && said.ProvedAt.Equal(g.AuthAt) && said.ACR == g.ACR {
			return nil
		}
	}
	return broker.E(broker.Conflict, "The audit entry of the break-glass period's beginning is missing or differs from the stored period.", nil)
}

func (ve *Verdicts) signature(ctx context.Context, k audit.Kept, at time.Time, answer broker.EntryFilter) (*audit.Signature, error) {
	var known audit.Answers
	for _, f := range []broker.EntryFilter{{Kind: "passkey.", Actor: k.By, To: at.Add(time.Millisecond)}, answer} {
		for e, err := range ve.store.Entries(ctx, f) {
			if err == nil {
				err = known.Read(e)
			}
			if err != nil {
				return nil, broker.StoreError(err)
			}
		}
	}
	s, err := known.Judge(k)
	if err != nil {
		return nil, broker.E(broker.Conflict, "The stored proof of this vote differs from the audit log: "+err.Error()+".", err)
	}
	return s, nil
}
