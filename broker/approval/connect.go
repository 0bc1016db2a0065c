package approval

import (
	"context"
	"log/slog"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/amount"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// Approval is the area in which people decide requests.
type Approval struct {
	*Approvals
	*Verdicts
	*FatigueGuard
	*Emergencies
}

func New() *Approval {
	return &Approval{
		Approvals:    new(Approvals),
		Verdicts:     new(Verdicts),
		FatigueGuard: new(FatigueGuard),
		Emergencies:  new(Emergencies),
	}
}

// Config holds the dependencies of the area.
type Config struct {
	Attestors       map[string]attest.Attestor
	BreakGlassRules BreakGlassConfig
	Configured      []broker.PrincipalConfig
	ApprovalStore   broker.ApprovalStore
	Store           broker.Store
	LiveStore       broker.LiveStore
	Limits          broker.Limits
	Logger          *slog.Logger
	PresenceFrom    risk.Level
	Providers       map[string]broker.Provider

	CodeKey    []byte
	Live       *kernel.LiveState
	M          *kernel.Metrics
	Background *kernel.Background
	Silent     *kernel.AttestorOutages

	Accounts  accounts
	Admission *kernel.Admitter
	Callers   callers
	Clock     *kernel.Timekeeper
	Control   control
	Issuer    issuer
	Listings  listings
	Log       *kernel.Recorder
	Revoker   revoker
	Tasks     tasks
}

// Connect sets the dependencies of the area's parts. Call it once, before any other method.
func (a *Approval) Connect(c Config) {
	*a.Approvals = Approvals{
		approvalStore: c.ApprovalStore,
		store:         c.Store,
		liveStore:     c.LiveStore,
		limits:        c.Limits,
		providers:     c.Providers,
		codeKey:       c.CodeKey,
		m:             c.M,
		admission:     c.Admission,
		callers:       c.Callers,
		clock:         c.Clock,
		emergencies:   a.Emergencies,
		fatigue:       a.FatigueGuard,
		issuer:        c.Issuer,
		log:           c.Log,
		revoker:       c.Revoker,
	}
	*a.Verdicts = Verdicts{
		attestors:     c.Attestors,
		approvalStore: c.ApprovalStore,
		store:         c.Store,
		liveStore:     c.LiveStore,
		limits:        c.Limits,
		logger:        c.Logger,
		presenceFrom:  c.PresenceFrom,
		providers:     c.Providers,
		live:          c.Live,
		m:             c.M,
		silent:        c.Silent,
		approvals:     a.Approvals,
		clock:         c.Clock,
		emergencies:   a.Emergencies,
		fatigue:       a.FatigueGuard,
		issuer:        c.Issuer,
		listings:      c.Listings,
		revoker:       c.Revoker,
		tasks:         c.Tasks,
	}
	*a.FatigueGuard = FatigueGuard{
		approvalStore: c.ApprovalStore,
		store:         c.Store,
		liveStore:     c.LiveStore,
		limits:        c.Limits,
		logger:        c.Logger,
		m:             c.M,
		background:    c.Background,
		clock:         c.Clock,
		control:       c.Control,
		log:           c.Log,
		tasks:         c.Tasks,
		verdicts:      a.Verdicts,
	}
	*a.Emergencies = Emergencies{
		breakGlassRules: c.BreakGlassRules,
		approvalStore:   c.ApprovalStore,
		store:           c.Store,
		logger:          c.Logger,
		configured:      c.Configured,
		codeKey:         c.CodeKey,
		m:               c.M,
		accounts:        c.Accounts,
		clock:           c.Clock,
		log:             c.Log,
		revoker:         c.Revoker,
	}
}

// accounts is the part of package identity that this package calls; *identity.Accounts implements it.
type accounts interface {
	Principal(id string) (broker.Principal, bool)
}

// callers is the part of package identity that this package calls; *identity.Authenticator implements it.
type callers interface {
	Ask(ctx context.Context, why kernel.Purpose, s broker.Subject, p broker.Possession) (kernel.Caller, error)
}

// issuer is the part of package issuance that this package calls; *issuance.TokenIssuer implements it.
type issuer interface {
	CouldStay(p broker.Provider, s scopes.Set, delivery string) bool
	Deliverable(w kernel.MintRequest, most amount.Limits) error
	DenyJudged(ctx context.Context, w kernel.MintRequest, d policy.Decision, err error) error
	Judge(w *kernel.MintRequest) (policy.Decision, error)
	Mint(ctx context.Context, w kernel.MintRequest, d kernel.Decision) (broker.Token, error)
}

// listings is the part of package report that this package calls; *report.Listings implements it.
type listings interface {
	Request(ctx context.Context, who broker.Principal, id string) (broker.Request, error)
}

// revoker is the part of package revocation that this package calls; *revocation.Revocations implements it.
type revoker interface {
	Close(ctx context.Context, taskID string, m broker.TaskMove) (broker.Completion, error)
	RequestEntry(kind, actor string, r broker.Request, data any) audit.Entry
	Withdraw(ctx context.Context, r broker.Request, by, why string) (bool, error)
}

// control is the part of package liveness that this package calls; *liveness.TaskControl implements it.
type control interface {
	SetPaused(ctx context.Context, who broker.Principal, t broker.Task, m broker.TaskMove) error
}

// tasks is the part of package issuance that this package calls; *issuance.TaskOpener implements it.
type tasks interface {
	CountRoot(ctx context.Context, taskID string, u broker.Touch) (broker.Live, error)
	Mine(ctx context.Context, who broker.Principal, need broker.Standing, taskID string) (broker.Task, error)
	RootOf(ctx context.Context, taskID string) string
	TaskByID(ctx context.Context, id string) (broker.Task, error)
	UnderAncestors(live broker.Live, look func(broker.Admission) (broker.Live, error)) (broker.Live, error)
}
