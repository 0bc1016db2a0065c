package identity

import (
	"context"
	"log/slog"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/keys"
)

// Identity is the area that authenticates callers.
type Identity struct {
	*Evidence
	*Authenticator
	*Accounts
	*Enroller
}

func New() *Identity {
	return &Identity{
		Evidence:      new(Evidence),
		Authenticator: new(Authenticator),
		Accounts:      new(Accounts),
		Enroller:      new(Enroller),
	}
}

// Config holds the dependencies of the area.
type Config struct {
	AcrValues       []string
	Attestors       map[string]attest.Attestor
	Configured      []broker.PrincipalConfig
	EvidenceHeaders map[string]string
	IssuerURL       string
	Store           broker.Store
	Keys            *keys.Ring
	LiveStore       broker.LiveStore
	Limits          broker.Limits
	Liveness        map[string]broker.Liveness
	Logger          *slog.Logger

	Decoys     jose.KeySource
	Judged     *Judged
	Live       *kernel.LiveState
	M          *kernel.Metrics
	People     map[string]bool
	Principals map[string]*broker.PrincipalConfig
	Revoked    *kernel.RevokedSet
	Silent     *kernel.AttestorOutages

	Admission   *kernel.Admitter
	Clock       *kernel.Timekeeper
	Emergencies emergencies
	Log         *kernel.Recorder
	Sandboxes   sandboxes
	Tasks       tasks
}

// Connect sets the dependencies of the area's parts. Call it once, before any other method.
func (a *Identity) Connect(c Config) {
	*a.Evidence = Evidence{
		attestors:       c.Attestors,
		evidenceHeaders: c.EvidenceHeaders,
		store:           c.Store,
		liveStore:       c.LiveStore,
		liveness:        c.Liveness,
		logger:          c.Logger,
		judged:          c.Judged,
		live:            c.Live,
		m:               c.M,
		people:          c.People,
		silent:          c.Silent,
		accounts:        a.Accounts,
		admission:       c.Admission,
		clock:           c.Clock,
		log:             c.Log,
		sandboxes:       c.Sandboxes,
		tasks:           c.Tasks,
		tickets:         a.Enroller,
	}
	a.Evidence.Open()
	*a.Authenticator = Authenticator{
		issuerURL:  c.IssuerURL,
		keys:       c.Keys,
		liveStore:  c.LiveStore,
		limits:     c.Limits,
		live:       c.Live,
		principals: c.Principals,
		revoked:    c.Revoked,
		admission:  c.Admission,
		clock:      c.Clock,
		evidence:   a.Evidence,
		log:        c.Log,
		decoys:     c.Decoys,
	}
	a.Authenticator.Open()
	*a.Accounts = Accounts{
		acrValues:   c.AcrValues,
		attestors:   c.Attestors,
		issuerURL:   c.IssuerURL,
		store:       c.Store,
		liveStore:   c.LiveStore,
		limits:      c.Limits,
		logger:      c.Logger,
		configured:  c.Configured,
		live:        c.Live,
		people:      c.People,
		principals:  c.Principals,
		revoked:     c.Revoked,
		admission:   c.Admission,
		callers:     a.Authenticator,
		clock:       c.Clock,
		emergencies: c.Emergencies,
		evidence:    a.Evidence,
		log:         c.Log,
	}
	*a.Enroller = Enroller{
		issuerURL: c.IssuerURL,
		store:     c.Store,
		keys:      c.Keys,
		liveStore: c.LiveStore,
		limits:    c.Limits,
		logger:    c.Logger,
		clock:     c.Clock,
		evidence:  a.Evidence,
		log:       c.Log,
	}
}

// emergencies is the part of package approval that this package calls; *approval.Emergencies implements it.
type emergencies interface {
	EndOwn(ctx context.Context, person, by, cause string) error
	MayBreakGlass(who broker.Principal) error
}

// sandboxes is the part of package liveness that this package calls; *liveness.SandboxWatch implements it.
type sandboxes interface {
	Arrived(taskID, attestor string)
	Attested(ctx context.Context, taskID string, id attest.Identity, until time.Time)
	Believed(id attest.Identity) time.Time
	Stale(id attest.Identity) error
}

// tasks is the part of package issuance that this package calls; *issuance.TaskOpener implements it.
type tasks interface {
	TaskByID(ctx context.Context, id string) (broker.Task, error)
}
