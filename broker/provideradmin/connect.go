package provideradmin

import (
	"context"
	"log/slog"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/internal/thirdparty"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/secretstore"
)

// ProviderAdmin is the area of providers, their secrets and their self-test.
type ProviderAdmin struct {
	*Providers
}

func New() *ProviderAdmin {
	return &ProviderAdmin{
		Providers: new(Providers),
	}
}

// Config holds the dependencies of the area.
type Config struct {
	Store     broker.Store
	LiveStore broker.LiveStore
	Limits    broker.Limits
	Logger    *slog.Logger
	Providers map[string]broker.Provider
	Secrets   *secretstore.Store
	Sealer    broker.Sealer

	Upstreams map[string]*thirdparty.Upstream

	Clock    *kernel.Timekeeper
	Issuer   issuer
	Log      *kernel.Recorder
	Revoker  revoker
	Tasks    tasks
	Upstream upstream
}

// Connect sets the dependencies of the area's parts. Call it once, before any other method.
func (a *ProviderAdmin) Connect(c Config) {
	*a.Providers = Providers{
		store:     c.Store,
		liveStore: c.LiveStore,
		limits:    c.Limits,
		logger:    c.Logger,
		providers: c.Providers,
		safe:      c.Secrets,
		sealer:    c.Sealer,
		upstreams: c.Upstreams,
		clock:     c.Clock,
		issuer:    c.Issuer,
		log:       c.Log,
		revoker:   c.Revoker,
		tasks:     c.Tasks,
		upstream:  c.Upstream,
	}
}

// issuer is the part of package issuance that this package calls; *issuance.TokenIssuer implements it.
type issuer interface {
	MaxTTL(p broker.Provider) time.Duration
}

// revoker is the part of package revocation that this package calls; *revocation.Revocations implements it.
type revoker interface {
	CompleteTask(ctx context.Context, who broker.Principal, taskID string, wait time.Duration) (broker.Completion, error)
}

// tasks is the part of package issuance that this package calls; *issuance.TaskOpener implements it.
type tasks interface {
	Abandon(t broker.Task)
	Keep(t broker.Task) time.Time
}

// upstream is the part of package issuance that this package calls; *issuance.ThirdParties implements it.
type upstream interface {
	MintUpstream(ctx context.Context, w kernel.MintRequest, d kernel.Decision) (broker.Token, broker.Lease, error)
	RevocationTarget(l broker.Lease, handle secret.Secret) provider.Target
}
