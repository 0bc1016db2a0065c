package broker

import (
	"context"
	"slices"

	"ebb/broker/agenttext"
)

// Requests lists requests that who may see: approvers those of their groups,
// runners those of their tasks, viewers, auditors and operators all.
func (b *Broker) Requests(ctx context.Context, who Principal, f RequestFilter) ([]Request, error) {
	if err := allow(who, false, RoleApprover, RoleAuditor, RoleOperator, RoleRunner, RoleViewer); err != nil {
		return nil, err
	}
	f.Sight = sightOf(who)
	rs, err := b.cfg.Desk.Requests(ctx, f)
	if err != nil {
		return nil, unavailable(err)
	}
	return b.asSeenBy(who, rs), nil
}

// asSeenBy are requests as who may see them.
func (b *Broker) asSeenBy(who Principal, rs []Request) []Request {
	for i := range rs {
		rs[i].Match, rs[i].Votes = MatchCode(rs[i].ID), shownVotes(who, rs[i])
		if !ReadsWords(who, rs[i]) {
			rs[i].Reason = agenttext.Untrusted{}
		}
	}
	return rs
}

// ReadsWords reports whether who is shown what the agent wrote to a request: not somebody
// who has nothing but the right to look, because nobody knows what is in it.
func ReadsWords(who Principal, r Request) bool {
	return who.Has(RoleAuditor, RoleOperator) || who.Has(RoleApprover) && meet(r.Groups, who.Groups) || who.Has(RoleRunner) && r.Runner == who.ID
}

// Waiting is what waits for people, of what who may see, and how much of it there is by
// Rank. The members Now and Sight of f are set here. mine: only what who has a say in.
func (b *Broker) Waiting(ctx context.Context, who Principal, mine bool, f WaitFilter) ([]Request, map[int]int, error) {
	if err := allow(who, false, RoleApprover, RoleAuditor, RoleOperator, RoleRunner, RoleViewer); err != nil {
		return nil, nil, err
	}
	f.Now, f.Sight = b.now(), sightOf(who)
	if mine {
		f.NotOf, f.Sight = who.names(), &Sight{Groups: who.Groups}
		if !who.Has(RoleApprover) {
			return nil, nil, nil
		}
	}
	if f.TaskID == "" {
		var err error
		if f.Without, err = b.heldRoots(ctx); err != nil {
			return nil, nil, err
		}
	}
	if mine && who.Limited() {
		return b.waitingWithin(ctx, who, f)
	}
	rs, err := b.cfg.Desk.Waiting(ctx, f)
	if err != nil {
		return nil, nil, unavailable(err)
	}
	n, err := b.cfg.Desk.CountWaiting(ctx, f)
	if err != nil {
		return nil, nil, unavailable(err)
	}
	return b.asSeenBy(who, rs), n, nil
}

// waitingLook is how many requests that wait for the groups of a limited approver are
// looked through for those within the limits, which no index finds.
const waitingLook = 10_000

// waitingWithin is Waiting of one who may decide some scopes only.
func (b *Broker) waitingWithin(ctx context.Context, who Principal, f WaitFilter) (out []Request, n map[int]int, err error) {
	after, limit := f.After, f.Limit
	if limit == 0 {
		limit = 50
	}
	n, f.After, f.Limit = map[int]int{}, Place{}, 1000
	for range waitingLook / f.Limit {
		rs, err := b.cfg.Desk.Waiting(ctx, f)
		if err != nil {
			return nil, nil, unavailable(err)
		}
		for _, r := range rs {
			if MayDecide(who, r) != nil {
				continue
			}
			n[r.Rank]++
			if len(out) < limit && (after.ID == "" || r.Place().after(after)) {
				out = append(out, r)
			}
		}
		if len(rs) < f.Limit {
			break
		}
		f.After = rs[len(rs)-1].Place()
	}
	return b.asSeenBy(who, out), n, nil
}

// sightOf is what of requests a person may see; nil = all.
func sightOf(who Principal) *Sight {
	if who.Has(RoleAuditor, RoleOperator, RoleViewer) {
		return nil
	}
	s := &Sight{Runner: who.ID}
	if who.Has(RoleApprover) {
		s.Groups = who.Groups
	}
	return s
}

// Request shows one request.
func (b *Broker) Request(ctx context.Context, who Principal, id string) (Request, error) {
	if !validID(requestPrefix, id) {
		return Request{}, E(NotFound, "There is no such request.", nil)
	}
	rs, err := b.Requests(ctx, who, RequestFilter{IDs: []string{id}})
	if err != nil {
		return Request{}, err
	}
	if len(rs) == 0 {
		return Request{}, E(NotFound, "There is no such request.", nil)
	}
	return rs[0], nil
}

// shownVotes hides the first answer from an approver who has not answered yet; from one
// who audits too, as far as they have a say in it. Who may only look sees answers when
// nobody waits for another one any more.
func shownVotes(who Principal, r Request) []Vote {
	looks := who.Has(RoleViewer) && !who.Has(RoleAuditor, RoleOperator)
	if r.State != RequestPending || !looks && (!who.Has(RoleApprover) || who.Has(RoleAuditor) && MayDecide(who, r) != nil) {
		return r.Votes
	}
	if slices.ContainsFunc(r.Votes, func(v Vote) bool { return v.By == who.ID }) {
		return r.Votes
	}
	return nil
}
