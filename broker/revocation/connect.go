package revocation

import (
	"context"
	"log/slog"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/internal/thirdparty"
	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/broker/pace"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/secretstore"
)

// Revocation is the area that ends tasks and credentials.
type Revocation struct {
	*Revocations
	*PendingEnds
	*Queue
	*Sweeper
	*Feeds
}

func New() *Revocation {
	return &Revocation{
		Revocations: new(Revocations),
		PendingEnds: new(PendingEnds),
		Queue:       new(Queue),
		Sweeper:     new(Sweeper),
		Feeds:       new(Feeds),
	}
}

// Config holds the dependencies of the area.
type Config struct {
	ApprovalStore broker.ApprovalStore
	EndsPath      string
	IssuerURL     string
	Store         broker.Store
	Keys          *keys.Ring
	LiveStore     broker.LiveStore
	Limits        broker.Limits
	Logger        *slog.Logger
	Providers     map[string]broker.Provider
	Secrets       *secretstore.Store
	Sealer        broker.Sealer

	Began     time.Time
	Budgets   *expirable.LRU[string, kernel.Budget]
	Crowd     *kernel.Crowd
	Cuts      *kernel.Disconnects
	Instance  string
	Kept      *thirdparty.RetainedHandles
	Live      *kernel.LiveState
	M         *kernel.Metrics
	Rang      *thirdparty.Waiters
	Revoked   *kernel.RevokedSet
	Upstreams map[string]*thirdparty.Upstream

	Approvals approvals
	Callers   callers
	Clock     *kernel.Timekeeper
	Evidence  evidence
	Fatigue   fatigue
	Listings  listings
	Log       *kernel.Recorder
	Tasks     tasks
	Upstream  upstream
}

// Connect sets the dependencies of the area's parts. Call it once, before any other method.
func (a *Revocation) Connect(c Config) {
	*a.Revocations = Revocations{
		approvalStore: c.ApprovalStore,
		issuerURL:     c.IssuerURL,
		store:         c.Store,
		liveStore:     c.LiveStore,
		logger:        c.Logger,
		budgets:       c.Budgets,
		crowd:         c.Crowd,
		m:             c.M,
		rang:          c.Rang,
		upstreams:     c.Upstreams,
		approvals:     c.Approvals,
		callers:       c.Callers,
		clock:         c.Clock,
		evidence:      c.Evidence,
		fatigue:       c.Fatigue,
		feed:          a.Feeds,
		listings:      c.Listings,
		log:           c.Log,
		pending:       a.PendingEnds,
		queue:         a.Queue,
		tasks:         c.Tasks,
	}
	*a.PendingEnds = PendingEnds{
		logger:   c.Logger,
		endsPath: c.EndsPath,
		m:        c.M,
		clock:    c.Clock,
		feed:     a.Feeds,
		revoker:  a.Revocations,
	}
	a.PendingEnds.Open()
	*a.Queue = Queue{
		issuerURL: c.IssuerURL,
		store:     c.Store,
		keys:      c.Keys,
		logger:    c.Logger,
		safe:      c.Secrets,
		sealer:    c.Sealer,
		kept:      c.Kept,
		m:         c.M,
		rang:      c.Rang,
		upstreams: c.Upstreams,
		clock:     c.Clock,
		listings:  c.Listings,
		log:       c.Log,
		sweeper:   a.Sweeper,
		tasks:     c.Tasks,
		upstream:  c.Upstream,
	}
	a.Queue.Open()
	*a.Sweeper = Sweeper{
		store:     c.Store,
		liveStore: c.LiveStore,
		limits:    c.Limits,
		logger:    c.Logger,
		instance:  c.Instance,
		upstreams: c.Upstreams,
		clock:     c.Clock,
		queue:     a.Queue,
		upstream:  c.Upstream,
	}
	*a.Feeds = Feeds{
		store:     c.Store,
		LiveStore: c.LiveStore,
		Logger:    c.Logger,
		providers: c.Providers,
		began:     c.Began,
		Cuts:      c.Cuts,
		live:      c.Live,
		Revoked:   c.Revoked,
		Clock:     c.Clock,
	}
}

// approvals is the part of package approval that this package calls; *approval.Approvals implements it.
type approvals interface {
	RequestOfCode(code string) (id, key string, is bool)
}

// callers is the part of package identity that this package calls; *identity.Authenticator implements it.
type callers interface {
	AliveToken(ctx context.Context, t *kernel.OwnToken) (bool, error)
	Ask(ctx context.Context, why kernel.Purpose, s broker.Subject, p broker.Possession) (kernel.Caller, error)
	AssertedSandbox(ctx context.Context, assertion string, p broker.Possession) (broker.Sandbox, error)
	VerifyOwn(token, audience string, now time.Time) (*kernel.OwnToken, error)
}

// evidence is the part of package identity that this package calls; *identity.Evidence implements it.
type evidence interface {
	EnterCrowd(ctx context.Context, g *pace.Gate, name string) (leave func(), err error)
}

// fatigue is the part of package approval that this package calls; *approval.FatigueGuard implements it.
type fatigue interface {
	SayIn(ctx context.Context, who broker.Principal, taskID string) bool
}

// listings is the part of package report that this package calls; *report.Listings implements it.
type listings interface {
	LeaseFor(ctx context.Context, who broker.Principal, need broker.Standing, id string) (broker.Lease, error)
	Task(ctx context.Context, who broker.Principal, id string) (broker.Task, error)
}

// tasks is the part of package issuance that this package calls; *issuance.TaskOpener implements it.
type tasks interface {
	CloseBelow(ctx context.Context, c broker.Completion) (broker.Completion, error)
	EachBelow(ctx context.Context, f broker.TaskFilter, do func(context.Context, broker.Task) error) (int, error)
	Mine(ctx context.Context, who broker.Principal, need broker.Standing, taskID string) (broker.Task, error)
	TaskByID(ctx context.Context, id string) (broker.Task, error)
}

// upstream is the part of package issuance that this package calls; *issuance.ThirdParties implements it.
type upstream interface {
	LeaseEntry(kind, actor string, l broker.Lease, data any) audit.Entry
	RevocationTarget(l broker.Lease, handle secret.Secret) provider.Target
}
