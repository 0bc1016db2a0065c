package api

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/provideradmin"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/web"
	"github.com/ebb-broker/ebb/web/wire"
)

// providerAPI serves /v1 for providers and their stored secrets.
type providerAPI struct {
	b providerBroker
}

// providerBroker is the part of the broker that providerAPI calls.
type providerBroker interface {
	ProviderStates(ctx context.Context, who broker.Principal) ([]provideradmin.ProviderState, error)
	SelfTestProvider(ctx context.Context, who broker.Principal, name string, spec provideradmin.SelfTestSpec) (provideradmin.SelfTest, error)
	Secrets(ctx context.Context, who broker.Principal) ([]provideradmin.StoredSecret, error)
	PutSecret(ctx context.Context, who broker.Principal, name string, v secret.Secret) (provideradmin.StoredSecret, error)
	RemoveSecret(ctx context.Context, who broker.Principal, name string) (provideradmin.StoredSecret, error)
}

func (pa *providerAPI) providers(c echo.Context, who broker.Principal, _ web.None) (wire.List[wire.Provider], error) {
	items, err := pa.b.ProviderStates(c.Request().Context(), who)
	return wire.List[wire.Provider]{Items: each(items, wireProvider)}, err
}

// selfTestProvider runs a provider self-test. The response waits until the test is
// done.
func (pa *providerAPI) selfTestProvider(c echo.Context, who broker.Principal, body wire.SelfTestSpec) (wire.SelfTest, error) {
	spec, err := brokerSelfTestSpec(body)
	if err != nil {
		return wire.SelfTest{}, err
	}
	outlast(c, provideradmin.SelfTestTime)
	t, err := pa.b.SelfTestProvider(c.Request().Context(), who, c.Param("name"), spec)
	ev := web.EventOf(c)
	ev.LeaseID, ev.TaskID = t.LeaseID, t.TaskID
	return wireSelfTest(t), err
}

func (pa *providerAPI) secrets(c echo.Context, who broker.Principal, _ web.None) (wire.List[wire.StoredSecret], error) {
	list, err := pa.b.Secrets(c.Request().Context(), who)
	return paged(list, 0, func(s provideradmin.StoredSecret) string { return s.Name }, wireSecret), err
}

func (pa *providerAPI) putSecret(c echo.Context, who broker.Principal, body wire.SecretBody) (wire.StoredSecret, error) {
	s, err := pa.b.PutSecret(c.Request().Context(), who, body.Name, secret.New(body.Value))
	return wireSecret(s), err
}

func (pa *providerAPI) removeSecret(c echo.Context, who broker.Principal, _ web.None) (wire.StoredSecret, error) {
	s, err := pa.b.RemoveSecret(c.Request().Context(), who, c.Param("name"))
	return wireSecret(s), err
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

func wireSecret(s provideradmin.StoredSecret) wire.StoredSecret { return wire.StoredSecret(s) }
