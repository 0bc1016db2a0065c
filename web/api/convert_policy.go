package api

import (
	"time"

	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

func wirePolicy(p policyset.InForce) wire.Policy {
	return wire.Policy{
		Version: p.Version, Source: string(p.Source), Since: p.Since, Release: p.Number, Author: p.Author, By: p.By,
		Files: each(p.Files, func(f policyset.File) wire.PolicyFile { return wire.PolicyFile(f) }),
	}
}

func policyQuery(q wire.PolicyQuery) (policy.Query, error) {
	set, err := scopeAt("/query/scope", q.Scopes)
	if err != nil {
		return policy.Query{}, err
	}
	out := policy.Query{
		Sandbox: policy.Sandbox(q.Sandbox),
		Task:    policy.Task{ID: q.Task.ID, Kind: q.Task.Kind, Owner: q.Task.Owner, Name: q.Task.Name, Labels: q.Task.Labels, Depth: q.Task.Depth},
		Scopes:  set, Tool: q.Tool, Binding: q.Binding, Delivery: q.Delivery, CouldStay: q.CouldStay, Record: policy.Record(q.Record),
		Revocability: string(q.Revocability), Taint: q.Taint,
	}
	for _, d := range []struct {
		at   string
		from int64
		to   *time.Duration
	}{
		{"/query/task/age_seconds", q.Task.Age, &out.Task.Age},
		{"/query/ttl_seconds", q.TTL, &out.TTL},
		{"/query/revocation_bound", q.Bound, &out.Bound},
	} {
		*d.to = time.Duration(d.from) * time.Second
		if int64(*d.to/time.Second) != d.from {
			return policy.Query{}, web.WrongValue(d.at) // it overflows
		}
	}
	return out, nil
}

func wireExplanation(e policy.Explanation) wire.Explanation {
	return wire.Explanation{Decision: wireDecision(e.Decision), Scopes: each(e.Scopes, wireScopeExplanation)}
}

func wireDecision(d policy.Decision) wire.Decision {
	return wire.Decision{
		Effect: wire.Effect(d.Effect.String()), Scopes: d.Scopes.String(), TTL: int64(d.TTL / time.Second), Ask: ref(d.Ask, wireApprovers),
		Deliver: d.Deliver, Rules: d.Rules, Why: d.Why, WouldAllow: d.WouldAllow.String(), Denied: d.Denied.String(), Version: d.Version,
	}
}

func wireScopeExplanation(s policy.ScopeExplanation) wire.ScopeExplanation {
	return wire.ScopeExplanation{
		Scope: s.Scope.String(), Effect: wire.Effect(s.Effect.String()),
		Policies: each(s.Policies, func(v policy.Verdict) wire.PolicyVerdict { return wire.PolicyVerdict(v) }),
	}
}

func wireDetail(d scopes.Detail) wire.Detail {
	out := wire.Detail{Type: wire.DetailType, Provider: d.Provider, Identifier: d.Identifier, Actions: d.Actions}
	if d.Location != "" {
		out.Locations = []string{d.Location}
	}
	return out
}
