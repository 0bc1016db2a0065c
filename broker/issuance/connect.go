package issuance

import (
	"context"
	"log/slog"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/internal/thirdparty"
	"github.com/ebb-broker/ebb/broker/pace"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/transcript"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// Issuance is the area that opens tasks, issues credentials and decides on their use.
type Issuance struct {
	*TokenIssuer
	*ThirdParties
	*TaskOpener
	*EgressUse
}

func New() *Issuance {
	return &Issuance{
		TokenIssuer:  new(TokenIssuer),
		ThirdParties: new(ThirdParties),
		TaskOpener:   new(TaskOpener),
		EgressUse:    new(EgressUse),
	}
}

// Config holds the dependencies of the area.
type Config struct {
	Attestors     map[string]attest.Attestor
	ApprovalStore broker.ApprovalStore
	Egress        bool
	IssuerURL     string
	Store         broker.Store
	LiveStore     broker.LiveStore
	Limits        broker.Limits
	Logger        *slog.Logger
	Policy        *policy.Live
	Providers     map[string]broker.Provider
	Sealer        broker.Sealer
	Transcripts   *transcript.Store

	Crowd     *kernel.Crowd
	Instance  string
	Kept      *thirdparty.RetainedHandles
	Live      *kernel.LiveState
	M         *kernel.Metrics
	Noted     *expirable.LRU[string, time.Time]
	People    map[string]bool
	Rang      *thirdparty.Waiters
	Revoked   *kernel.RevokedSet
	Roots     *expirable.LRU[string, string]
	Upstreams map[string]*thirdparty.Upstream
	Used      *expirable.LRU[string, broker.Lease]

	Admission *kernel.Admitter
	Approvals approvals
	Callers   callers
	Clock     *kernel.Timekeeper
	Control   control
	Evidence  evidence
	Fatigue   fatigue
	Feed      feed
	Log       *kernel.Recorder
	Pending   pending
	Queue     queue
	Revoker   revoker
	Tickets   tickets
}

// Connect sets the dependencies of the area's parts. Call it once, before any other method.
func (a *Issuance) Connect(c Config) {
	*a.TokenIssuer = TokenIssuer{
		approvalStore: c.ApprovalStore,
		egress:        c.Egress,
		store:         c.Store,
		liveStore:     c.LiveStore,
		limits:        c.Limits,
		logger:        c.Logger,
		policy:        c.Policy,
		providers:     c.Providers,
		crowd:         c.Crowd,
		m:             c.M,
		revoked:       c.Revoked,
		upstreams:     c.Upstreams,
		approvals:     c.Approvals,
		callers:       c.Callers,
		clock:         c.Clock,
		evidence:      c.Evidence,
		fatigue:       c.Fatigue,
		log:           c.Log,
		tasks:         a.TaskOpener,
		upstream:      a.ThirdParties,
	}
	*a.ThirdParties = ThirdParties{
		store:     c.Store,
		liveStore: c.LiveStore,
		logger:    c.Logger,
		providers: c.Providers,
		sealer:    c.Sealer,
		instance:  c.Instance,
		kept:      c.Kept,
		rang:      c.Rang,
		revoked:   c.Revoked,
		upstreams: c.Upstreams,
		admission: c.Admission,
		callers:   c.Callers,
		clock:     c.Clock,
		feed:      c.Feed,
		issuer:    a.TokenIssuer,
		log:       c.Log,
		queue:     c.Queue,
		pending:   c.Pending,
		revoker:   c.Revoker,
		tasks:     a.TaskOpener,
	}
	*a.TaskOpener = TaskOpener{
		attestors: c.Attestors,
		issuerURL: c.IssuerURL,
		store:     c.Store,
		liveStore: c.LiveStore,
		limits:    c.Limits,
		logger:    c.Logger,
		providers: c.Providers,
		live:      c.Live,
		m:         c.M,
		people:    c.People,
		admission: c.Admission,
		callers:   c.Callers,
		clock:     c.Clock,
		issuer:    a.TokenIssuer,
		log:       c.Log,
		pending:   c.Pending,
		revoker:   c.Revoker,
		tickets:   c.Tickets,
	}
	*a.EgressUse = EgressUse{
		store:       c.Store,
		liveStore:   c.LiveStore,
		limits:      c.Limits,
		providers:   c.Providers,
		sealer:      c.Sealer,
		transcripts: c.Transcripts,
		m:           c.M,
		noted:       c.Noted,
		revoked:     c.Revoked,
		roots:       c.Roots,
		used:        c.Used,
		admission:   c.Admission,
		callers:     c.Callers,
		clock:       c.Clock,
		control:     c.Control,
		issuer:      a.TokenIssuer,
		log:         c.Log,
		tasks:       a.TaskOpener,
		upstream:    a.ThirdParties,
	}
}

// approvals is the part of package approval that this package calls; *approval.Approvals implements it.
type approvals interface {
	Escalate(ctx context.Context, w kernel.MintRequest, d policy.Decision, r broker.TokenRequest) (broker.Token, error)
}

// callers is the part of package identity that this package calls; *identity.Authenticator implements it.
type callers interface {
	Alive(ctx context.Context, taskID string, leaseIDs ...string) (bool, error)
	Ask(ctx context.Context, why kernel.Purpose, s broker.Subject, p broker.Possession) (kernel.Caller, error)
	Claim(name string) string
}

// tickets is the part of package identity that this package calls; *identity.Enroller implements it.
type tickets interface {
	IssueTicket(ctx context.Context, t broker.Task, asked broker.Seconds) (broker.Ticket, error)
}

// evidence is the part of package identity that this package calls; *identity.Evidence implements it.
type evidence interface {
	EnterCrowd(ctx context.Context, g *pace.Gate, name string) (leave func(), err error)
}

// fatigue is the part of package approval that this package calls; *approval.FatigueGuard implements it.
type fatigue interface {
	Denied(ctx context.Context, taskID string, byPerson bool) error
}

// feed is the part of package revocation that this package calls; *revocation.Feeds implements it.
type feed interface {
	Ended(id string, until time.Time)
}

// pending is the part of package revocation that this package calls; *revocation.PendingEnds implements it.
type pending interface {
	KeepEnd(m broker.TaskMove) (kept bool)
	KeepLeaseEnd(o kernel.PendingLease) (kept bool)
}

// queue is the part of package revocation that this package calls; *revocation.Queue implements it.
type queue interface {
	KeepLate(ctx context.Context, u *thirdparty.Upstream, l broker.Lease, handle secret.Secret, gone bool)
}

// revoker is the part of package revocation that this package calls; *revocation.Revocations implements it.
type revoker interface {
	Close(ctx context.Context, taskID string, m broker.TaskMove) (broker.Completion, error)
	CloseOne(ctx context.Context, taskID string, m broker.TaskMove, p *kernel.Progress) (broker.Completion, error)
	EndLease(ctx context.Context, l broker.Lease, by, reason string) (broker.Lease, error)
}

// control is the part of package liveness that this package calls; *liveness.TaskControl implements it.
type control interface {
	TaintTree(ctx context.Context, actor string, t broker.Task, sources []string) error
}
