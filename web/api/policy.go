package api

import (
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/identity"
	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/amount"
	"github.com/ebb-broker/ebb/scopes/policy"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

// policy returns the policies in force.
func (pa *policyAPI) policy(_ echo.Context, who broker.Principal, _ web.None) (wire.Policy, error) {
	p, err := pa.b.PolicyInForce(who)
	if err != nil {
		return wire.Policy{}, err
	}
	return wirePolicy(p), nil
}

// explain returns the decision that policy would make, and the contribution of
// each policy.
func (pa *policyAPI) explain(c echo.Context, who broker.Principal, body wire.ExplainBody) (wire.Explanation, error) {
	q, err := policyQuery(body.Query)
	if err != nil {
		return wire.Explanation{}, err
	}
	out, err := pa.b.Explain(c.Request().Context(), who, q)
	return wireExplanation(out), err
}

// policyAPI serves /v1 for policies and attestors.
type policyAPI struct {
	b policyBroker
}

// policyBroker is the part of the broker that policyAPI calls.
type policyBroker interface {
	Attestors(ctx context.Context, who broker.Principal) ([]identity.AttestorState, error)
	ExplainEvidence(ctx context.Context, who broker.Principal, attestor string, q identity.EvidenceQuery) (identity.EvidenceExplanation, error)
	Explain(ctx context.Context, who broker.Principal, q policy.Query) (policy.Explanation, error)
	PolicyInForce(who broker.Principal) (policyset.InForce, error)
}

// attestors lists the configured attestors.
func (pa *policyAPI) attestors(c echo.Context, who broker.Principal, _ web.None) (wire.List[wire.Attestor], error) {
	items, err := pa.b.Attestors(c.Request().Context(), who)
	return wire.List[wire.Attestor]{Items: each(items, wireAttestor)}, err
}

// explainEvidence returns how one attestor evaluates a piece of evidence.
func (pa *policyAPI) explainEvidence(c echo.Context, who broker.Principal, q wire.EvidenceQuery) (wire.EvidenceExplanation, error) {
	out, err := pa.b.ExplainEvidence(c.Request().Context(), who, c.Param("name"), brokerEvidenceQuery(q))
	return wireEvidenceExplanation(out), err
}

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
	if q.Content != nil {
		out.Content = policy.Content{Kind: q.Content.Kind, Actions: q.Content.Actions, Objects: q.Content.Objects}
		if q.Content.Amount != "" {
			if out.Content.Amount, err = amount.Parse(q.Content.Amount); err != nil {
				return policy.Query{}, web.WrongValue("/query/content/amount")
			}
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
		MaxAmount: each(d.MaxAmount, amount.Amount.String), Deliver: d.Deliver, Rules: d.Rules, Why: d.Why, WouldAllow: d.WouldAllow.String(), Denied: d.Denied.String(), Version: d.Version,
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

func wireAttestor(s identity.AttestorState) wire.Attestor {
	return wire.Attestor{
		Name: s.Name, Challenges: s.Challenges, Watches: s.Watches, People: s.People,
		OnSandboxExit: wire.Action(s.OnSandboxExit), Reattest: seconds(s.Reattest), OnMissedAttestation: wire.Action(s.OnMissedAttestation),
	}
}

func brokerEvidenceQuery(q wire.EvidenceQuery) identity.EvidenceQuery {
	return identity.EvidenceQuery(q)
}

func wireEvidenceExplanation(e identity.EvidenceExplanation) wire.EvidenceExplanation {
	return wire.EvidenceExplanation{
		Attestor: e.Attestor, Verdict: wire.EvidenceVerdict(e.Verdict), Reason: e.Reason, Why: e.Why,
		Steps:    each(e.Steps, func(s identity.EvidenceStep) wire.EvidenceStep { return wire.EvidenceStep(s) }),
		Identity: ref(e.Identity, func(i identity.EvidenceOf) wire.EvidenceIdentity { return wire.EvidenceIdentity(i) }),
		Task:     ref(e.Task, wireEvidenceTask),
	}
}

func wireEvidenceTask(t identity.EvidenceForTask) wire.EvidenceTask {
	return wire.EvidenceTask{
		ID: t.ID, Accepted: t.Accepted, Why: t.Why,
		Selectors: each(t.Selectors, func(s identity.EvidenceSelector) wire.EvidenceSelector { return wire.EvidenceSelector(s) }),
	}
}
