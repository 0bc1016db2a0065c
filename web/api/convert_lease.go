package api

import (
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/provideradmin"
	"github.com/ebb-broker/ebb/web/wire"
)

func wireLease(l broker.Lease) wire.Lease {
	return wire.Lease{
		ID: l.ID, TaskID: l.TaskID, Sandbox: l.Sandbox, Owner: l.Owner, Provider: l.Provider, Scopes: l.Scopes.String(), Resource: l.Resource,
		Binding: wire.Binding(l.Binding), Class: wire.Class(l.Class), RequestID: l.RequestID, ParentID: l.ParentID, Rule: l.Rule, Tool: l.Tool,
		Delivery: l.Delivery, Txn: l.Txn, IssuedAt: l.IssuedAt, ExpiresAt: l.ExpiresAt,
		State: wire.LeaseState(l.State), RevokedAt: l.RevokedAt, RevokedBy: l.RevokedBy, Cause: wire.Cause(l.Cause),
		Upstream: ref(l.Upstream, wireUpstream),
	}
}

func wireUpstream(u broker.Upstream) wire.Upstream {
	return wire.Upstream{
		Bound: seconds(u.Bound), DiesAt: u.DiesAt, AcceptedAt: u.AcceptedAt, DeadAt: u.DeadAt, Proof: wire.Proof(u.Proof), ProbedAt: u.ProbedAt,
		Attempts: u.Attempts, NextAt: u.NextAt, LastError: u.LastError,
	}
}

func wireOwnCredential(l broker.Lease) wire.OwnCredential {
	return wire.OwnCredential{
		LeaseID: l.ID, Scope: l.Scopes.String(), Resource: l.Resource, Tool: l.Tool, State: wire.LeaseState(l.State), Class: wire.Class(l.Class),
		IssuedAt: l.IssuedAt, ExpiresAt: l.ExpiresAt, RevokedAt: l.RevokedAt,
	}
}

func wireEndpoint(e provider.Endpoint) wire.Endpoint {
	return wire.Endpoint{Protocol: e.Protocol, Host: e.Host.String(), Database: e.Database}
}

func wireProvider(p provideradmin.ProviderState) wire.Provider {
	return wire.Provider{
		Name: p.Name, Kind: p.Kind, Resource: p.Resource, Class: wire.Class(p.Class), Bound: seconds(p.Bound), ThirdParty: p.ThirdParty,
		Parallel: p.Parallel, MaxLive: p.MaxLive, Held: p.Held, PendingRevocations: p.PendingRevocations, PendingSince: p.PendingSince, NextAt: p.NextAt, Breaker: p.Breaker,
	}
}

func brokerSelfTestSpec(s wire.SelfTestSpec) (provideradmin.SelfTestSpec, error) {
	set, err := scopeAt("/scope", s.Scopes)
	return provideradmin.SelfTestSpec{Scopes: set, TTL: broker.Seconds(s.TTL)}, err
}

func wireSelfTest(t provideradmin.SelfTest) wire.SelfTest {
	return wire.SelfTest{
		Provider: t.Provider, Kind: t.Kind, OK: t.OK, TaskID: t.TaskID, LeaseID: t.LeaseID,
		Steps: each(t.Steps, func(s provideradmin.SelfTestStep) wire.SelfTestStep { return wire.SelfTestStep(s) }),
	}
}

func wireUsage(u broker.Usage) wire.Usage {
	return wire.Usage{
		From: u.From, Cut: u.Cut, UsesFrom: u.UsesFrom, At: u.At, By: wire.UsageBy(u.By), HandedOut: u.HandedOut, Carried: u.Carried,
		Items: each(u.Items, func(g broker.GrantUsage) wire.GrantUsage { return wire.GrantUsage(g) }), More: u.More,
	}
}

func wireSecret(s provideradmin.StoredSecret) wire.StoredSecret { return wire.StoredSecret(s) }

func wireEvent(e broker.Event) wire.Event { return wire.Event(e) }
