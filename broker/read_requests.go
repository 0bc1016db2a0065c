package broker

import (
	"context"
	"slices"
)

// Requests lists requests that who may see: approvers those of their groups,
// runners those of their tasks, auditors and operators all.
func (b *Broker) Requests(ctx context.Context, who Principal, f RequestFilter) ([]Request, error) {
	if err := allow(who, false, RoleApprover, RoleAuditor, RoleOperator, RoleRunner); err != nil {
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
	}
	return rs
}

// Waiting is what waits for people, of what who may see, and how much of it there is by
// Rank. The members Now and Sight of f are set here. mine: only what who has a say in.
func (b *Broker) Waiting(ctx context.Context, who Principal, mine bool, f WaitFilter) ([]Request, map[int]int, error) {
	if err := allow(who, false, RoleApprover, RoleAuditor, RoleOperator, RoleRunner); err != nil {
		return nil, nil, err
	}
	f.Now, f.Sight = b.now(), sightOf(who)
	if mine {
		f.NotOf, f.Sight = who.ID, &Sight{Groups: who.Groups}
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

// sightOf is what of requests a person may see; nil = all.
func sightOf(who Principal) *Sight {
	if who.Has(RoleAuditor, RoleOperator) {
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
// who audits too, as far as they have a say in it.
func shownVotes(who Principal, r Request) []Vote {
	if r.State != RequestPending || !who.Has(RoleApprover) || who.Has(RoleAuditor) && MayDecide(who, r) != nil {
		return r.Votes
	}
	if slices.ContainsFunc(r.Votes, func(v Vote) bool { return v.By == who.ID }) {
		return r.Votes
	}
	return nil
}
