package broker

import (
	"context"
	"errors"
	"slices"

	"ebb/broker/risk"
)

// MaxTogether is how many requests one answer is for.
const MaxTogether = 5

// Shown is one request of several that are approved together, as it was shown.
type Shown struct {
	ID     string
	Digest string // of the facts the approver saw
	Seen   string // JSON of what the approver was shown
}

// Together reports whether requests may be approved by one answer: two to five different
// ones of one task at one provider, none of high risk, all of them understood.
func Together(rs []Request) error {
	switch {
	case len(rs) < 2 || len(rs) > MaxTogether:
		return E(Invalid, "Two to five requests are approved together.", nil)
	case !alike(rs):
		return E(Invalid, "Only requests of one task at one provider are approved together, each once.", nil)
	}
	for _, r := range rs {
		f, err := r.Sheet()
		if err != nil || !f.Understood() {
			return E(NotUnderstood, "One of these is not understood. It can be denied, not approved; look at each by itself.", err)
		}
		if f.Level() == risk.High {
			return E(Invalid, "One of these is of high risk: it is decided by itself.", nil)
		}
	}
	return nil
}

func alike(rs []Request) bool {
	for i, r := range rs {
		if r.TaskID != rs[0].TaskID || r.Provider != rs[0].Provider || slices.ContainsFunc(rs[:i], func(o Request) bool { return o.ID == r.ID }) {
			return false
		}
	}
	return true
}

// ApproveTogether says yes to several requests as they were asked: to all of them or to
// none. Each keeps what was shown of it and the one proof, of which alone proof tells and
// which is of the whole list in its order. When the facts of one have changed that one is withdrawn, and nothing is
// granted.
func (b *Broker) ApproveTogether(ctx context.Context, who Principal, items []Shown, proof Verdict) ([]Request, error) {
	if err := allow(who, certain, RoleApprover); err != nil {
		return nil, err
	}
	if len(items) > MaxTogether {
		return nil, E(Invalid, "Two to five requests are approved together.", nil)
	}
	var rs []Request
	var ids []string
	for _, it := range items {
		r, err := b.requestByID(ctx, it.ID)
		if err != nil {
			return nil, err
		}
		if err := MayDecide(who, r); err != nil {
			return nil, err
		}
		rs, ids = append(rs, r), append(ids, r.ID)
	}
	if err := Together(rs); err != nil {
		return nil, err
	}
	var ballots []Ballot
	for i, r := range rs {
		vote, err := b.checkVerdict(r, who, Verdict{Approve: true, Digest: items[i].Digest, Seen: items[i].Seen, Proof: proof.Proof})
		if err != nil {
			return nil, err
		}
		ballots = append(ballots, b.ballot(who, r, vote, proof, ids))
	}
	for _, r := range rs {
		if err := b.stillTrue(ctx, r); err != nil {
			return nil, err
		}
		if err := b.demand(r, proof); err != nil {
			return nil, err
		}
	}
	out, err := b.cfg.Desk.VoteAll(ctx, ballots)
	if err != nil {
		return nil, voteError(err)
	}
	var after error
	for i := range out {
		out[i].Match = MatchCode(out[i].ID)
		after = errors.Join(after, b.afterVote(ctx, out[i]))
	}
	return out, after
}
