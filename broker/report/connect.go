package report

import (
	"context"
	"log/slog"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// Report is the area of listings and statistics.
type Report struct {
	*Listings
	*Figures
}

func New() *Report {
	return &Report{
		Listings: new(Listings),
		Figures:  new(Figures),
	}
}

// Config holds the dependencies of the area.
type Config struct {
	ApprovalStore broker.ApprovalStore
	Store         broker.Store
	Keys          *keys.Ring
	KnownKeys     jose.KeySet
	Logger        *slog.Logger
	Policy        *policy.Live

	Callers     callers
	Clock       *kernel.Timekeeper
	Emergencies emergencies
	Fatigue     fatigue
	Guard       guard
	Log         *kernel.Recorder
	Policies    policies
	Tasks       tasks
}

// Connect sets the dependencies of the area's parts. Call it once, before any other method.
func (a *Report) Connect(c Config) {
	*a.Listings = Listings{
		approvalStore: c.ApprovalStore,
		store:         c.Store,
		keys:          c.Keys,
		knownKeys:     c.KnownKeys,
		logger:        c.Logger,
		policy:        c.Policy,
		callers:       c.Callers,
		clock:         c.Clock,
		emergencies:   c.Emergencies,
		fatigue:       c.Fatigue,
		guard:         c.Guard,
		log:           c.Log,
		policies:      c.Policies,
		tasks:         c.Tasks,
	}
	*a.Figures = Figures{
		store:  c.Store,
		logger: c.Logger,
		clock:  c.Clock,
	}
}

// callers is the part of package identity that this package calls; *identity.Authenticator implements it.
type callers interface {
	Ask(ctx context.Context, why kernel.Purpose, s broker.Subject, p broker.Possession) (kernel.Caller, error)
}

// emergencies is the part of package approval that this package calls; *approval.Emergencies implements it.
type emergencies interface {
	OpenBreakGlass(ctx context.Context, who broker.Principal) (broker.BreakGlass, bool, error)
}

// fatigue is the part of package approval that this package calls; *approval.FatigueGuard implements it.
type fatigue interface {
	ThrottledRoots(ctx context.Context) ([]string, error)
}

// guard is the part of package durability that this package calls; *durability.AuditGuard implements it.
type guard interface {
	Checkpoint(ctx context.Context) error
}

// policies is the part of package policyadmin that this package calls; *policyadmin.Drafts implements it.
type policies interface {
	Complete(q *policy.Query)
}

// tasks is the part of package issuance that this package calls; *issuance.TaskOpener implements it.
type tasks interface {
	Mine(ctx context.Context, who broker.Principal, need broker.Standing, taskID string) (broker.Task, error)
	TaskByID(ctx context.Context, id string) (broker.Task, error)
}
