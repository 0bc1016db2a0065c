package liveness

import (
	"context"
	"log/slog"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
)

// Liveness is the area that detects whether sandboxes still run.
type Liveness struct {
	*SandboxWatch
	*Connections
	*TaskControl
}

func New() *Liveness {
	return &Liveness{
		SandboxWatch: new(SandboxWatch),
		Connections:  new(Connections),
		TaskControl:  new(TaskControl),
	}
}

// Config holds the dependencies of the area.
type Config struct {
	Attestors map[string]attest.Attestor
	Store     broker.Store
	LiveStore broker.LiveStore
	Liveness  map[string]broker.Liveness
	Logger    *slog.Logger

	Cuts       *kernel.Disconnects
	M          *kernel.Metrics
	Revoked    *kernel.RevokedSet
	Background *kernel.Background

	Callers callers
	Clock   *kernel.Timekeeper
	Fatigue fatigue
	Log     *kernel.Recorder
	Revoker revoker
	Tasks   tasks
}

// Connect sets the dependencies of the area's parts. Call it once, before any other method.
func (a *Liveness) Connect(c Config) {
	*a.SandboxWatch = SandboxWatch{
		attestors:  c.Attestors,
		store:      c.Store,
		liveness:   c.Liveness,
		logger:     c.Logger,
		m:          c.M,
		background: c.Background,
		clock:      c.Clock,
		control:    a.TaskControl,
		log:        c.Log,
		revoker:    c.Revoker,
		tasks:      c.Tasks,
	}
	a.SandboxWatch.Open()
	*a.Connections = Connections{
		liveStore:  c.LiveStore,
		logger:     c.Logger,
		revoked:    c.Revoked,
		background: c.Background,
		callers:    c.Callers,
		clock:      c.Clock,
		log:        c.Log,
		sandboxes:  a.SandboxWatch,
	}
	a.Connections.Open()
	*a.TaskControl = TaskControl{
		store:     c.Store,
		liveStore: c.LiveStore,
		cuts:      c.Cuts,
		clock:     c.Clock,
		fatigue:   c.Fatigue,
		log:       c.Log,
		revoker:   c.Revoker,
		tasks:     c.Tasks,
	}
}

// callers is the part of package identity that this package calls; *identity.Authenticator implements it.
type callers interface {
	Ask(ctx context.Context, why kernel.Purpose, s broker.Subject, p broker.Possession) (kernel.Caller, error)
}

// fatigue is the part of package approval that this package calls; *approval.FatigueGuard implements it.
type fatigue interface {
	MayResume(ctx context.Context, who broker.Principal, taskID string) (broker.Task, error)
}

// revoker is the part of package revocation that this package calls; *revocation.Revocations implements it.
type revoker interface {
	Close(ctx context.Context, taskID string, m broker.TaskMove) (broker.Completion, error)
	MineSoon(ctx context.Context, who broker.Principal, need broker.Standing, taskID string) (t broker.Task, slow bool, err error)
}

// tasks is the part of package issuance that this package calls; *issuance.TaskOpener implements it.
type tasks interface {
	Keep(t broker.Task) time.Time
	Mine(ctx context.Context, who broker.Principal, need broker.Standing, taskID string) (broker.Task, error)
	TaskByID(ctx context.Context, id string) (broker.Task, error)
}
