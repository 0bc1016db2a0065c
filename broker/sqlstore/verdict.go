package sqlstore

import (
	"ebb/broker"
	"ebb/scopes/policy"
)

// verdict is what the votes so far, the last one included, make of a request.
// It is pure; the caller holds the request.
func verdict(r broker.Request, votes []broker.Vote) (broker.Request, error) {
	last := votes[len(votes)-1]
	r.Votes = votes
	if !last.Approve {
		r.State, r.DecidedAt, r.Code, r.Note = broker.RequestDenied, last.At, last.Code, last.Note
		return r, nil
	}
	granted, ttl := r.Scopes, r.TTL
	var yes []policy.Approver
	for _, v := range votes {
		if !v.Approve {
			continue // cannot be: it would have settled the request
		}
		yes = append(yes, policy.Approver{Name: v.By, Groups: v.Groups})
		if !v.Scopes.Empty() {
			granted = granted.Narrow(v.Scopes)
		}
		if v.TTL > 0 && v.TTL < ttl {
			ttl = v.TTL
		}
	}
	// An approval of nothing would tell the agent yes and mint no. It is refused
	// with the vote that causes it, so that this person can vote differently.
	if granted.Empty() {
		return r, broker.E(broker.InvalidScope, "What you approve has nothing in common with what was asked and approved before. Approve as asked, a part of it, or deny.", nil)
	}
	if last.BreakGlass != "" || r.Satisfied(yes) {
		r.State, r.DecidedAt, r.Granted, r.GrantedTTL, r.Note = broker.RequestApproved, last.At, granted, ttl, last.Note
	}
	return r, nil
}
