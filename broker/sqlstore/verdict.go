package sqlstore

import (
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// verdict returns the request after the votes so far, including the last one. It has no
// side effects; the caller holds the request.
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
			continue // unreachable: a denial settles the request
		}
		yes = append(yes, policy.Approver{Name: v.By, Groups: v.Groups})
		if !v.Scopes.Empty() {
			granted = granted.Narrow(v.Scopes)
		}
		if v.TTL > 0 && v.TTL < ttl {
			ttl = v.TTL
		}
	}
	// An approval of an empty scope would answer yes and mint nothing. It is refused with
	// the vote that causes it, so that the voter can vote differently.
	if granted.Empty() {
		return r, broker.E(broker.InvalidScope, "The scope that you approve has no part in common with the requested scope and the earlier approvals. Approve the requested scope or a part of it, or deny.", nil)
	}
	if last.BreakGlass != "" || r.Satisfied(yes) {
		r.State, r.DecidedAt, r.Granted, r.GrantedTTL, r.Note = broker.RequestApproved, last.At, granted, ttl, last.Note
	}
	return r, nil
}
