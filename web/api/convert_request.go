package api

import (
	"encoding/json"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/scopes/policy"
	"github.com/ebb-broker/ebb/web/wire"
)

func wireRequest(r broker.Request) (wire.Request, error) {
	reason, err := json.Marshal(r.Reason) // agent text encodes itself as ASCII JSON
	return wire.Request{
		ID: r.ID, Match: r.Match, TaskID: r.TaskID, Sandbox: r.Sandbox, Owner: r.Owner, Runner: r.Runner, Provider: r.Provider,
		Scopes: r.Scopes.String(), Resource: r.Resource, TTL: seconds(r.TTL), Binding: wire.Binding(r.Binding), Tool: r.Tool, Details: r.Details,
		EvidenceEnd: r.EvidenceEnd, Approvers: wireApprovers(r.Approval), Facts: r.Facts, Digest: r.Digest, Reason: reason, Asked: r.Asked,
		CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, State: wire.RequestState(r.State), Votes: each(r.Votes, wireVote), DecidedAt: r.DecidedAt,
		Granted: r.Granted.String(), GrantedTTL: seconds(r.GrantedTTL), GrantUntil: r.GrantUntil, Code: wire.DenyCode(r.Code), Note: r.Note,
	}, err
}

// wireRequests converts a list and keeps the first error.
func wireRequests(list []broker.Request) ([]wire.Request, error) {
	out := make([]wire.Request, len(list))
	for i, r := range list {
		var err error
		if out[i], err = wireRequest(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func wireApprovers(a policy.Approval) wire.Approvers {
	return wire.Approvers{
		Groups: a.Groups, Quorum: a.Quorum,
		Rules: each(a.Rules, func(r policy.AskRule) wire.AskRule { return wire.AskRule(r) }),
	}
}

func wireVote(v broker.Vote) wire.Vote {
	return wire.Vote{
		RequestID: v.RequestID, By: v.By, BreakGlass: v.BreakGlass, Groups: v.Groups, Approve: v.Approve, Digest: v.Digest,
		Scopes: v.Scopes.String(), TTL: seconds(v.TTL), Code: wire.DenyCode(v.Code), Note: v.Note, At: v.At,
	}
}

func brokerApproval(b wire.ApprovalBody) (broker.Verdict, error) {
	set, err := scopeAt("/scope", b.Scopes)
	return broker.Verdict{Approve: true, Digest: b.Digest, Scopes: set, TTL: broker.Seconds(b.TTL), Note: b.Note, Target: b.Target}, err
}

func brokerDenial(b wire.DenialBody) broker.Verdict {
	return broker.Verdict{Digest: b.Digest, Code: broker.DenyCode(b.Code), Note: b.Note}
}

func wireBreakGlass(g broker.BreakGlass) wire.BreakGlass {
	return wire.BreakGlass{
		ID: g.ID, Person: g.Person, Incident: g.Incident, Reason: g.Reason, TTL: seconds(g.TTL), Most: g.Most, AskedAt: g.AskedAt,
		AuthAt: g.AuthAt, ACR: g.ACR, BegunAt: g.BegunAt, EndsAt: g.EndsAt, EndedAt: g.EndedAt, EndedBy: g.EndedBy, Used: g.Used,
		ReviewedAt: g.ReviewedAt, ReviewedBy: g.ReviewedBy, Note: g.Note,
	}
}
