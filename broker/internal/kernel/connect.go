package kernel

import (
	"context"
	"log/slog"
	"time"

	"github.com/hashicorp/golang-lru/v2/expirable"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/broker"
)

// Kernel is the clock, the audit recorder and admission, which every area uses.
type Kernel struct {
	*Timekeeper
	*Recorder
	*Admitter
}

func New() *Kernel {
	return &Kernel{
		Timekeeper: new(Timekeeper),
		Recorder:   new(Recorder),
		Admitter:   new(Admitter),
	}
}

// Config holds the dependencies of the area.
type Config struct {
	Now       func() time.Time     // nil = time.Now
	Steady    func() time.Duration // nil = the monotonic clock of now
	Store     broker.Store
	LiveStore broker.LiveStore
	Limits    broker.Limits
	Logger    *slog.Logger
	Nonces    *dpop.Nonces

	Budgets *expirable.LRU[string, Budget]
	Live    *LiveState
	M       *Metrics
	Noted   *expirable.LRU[string, time.Time]
	Revoked *RevokedSet

	Tasks tasks
}

// Connect sets the dependencies of the area's parts. Call it once, before any other method.
func (a *Kernel) Connect(c Config) {
	*a.Timekeeper = Timekeeper{
		store:  c.Store,
		limits: c.Limits,
		logger: c.Logger,
		m:      c.M,
	}
	a.Timekeeper.Open(c.Now, c.Steady)
	*a.Recorder = Recorder{
		store:  c.Store,
		logger: c.Logger,
		m:      c.M,
		noted:  c.Noted,
		clock:  a.Timekeeper,
	}
	a.Recorder.Open()
	*a.Admitter = Admitter{
		LiveStore: c.LiveStore,
		limits:    c.Limits,
		logger:    c.Logger,
		nonces:    c.Nonces,
		budgets:   c.Budgets,
		Live:      c.Live,
		revoked:   c.Revoked,
		Clock:     a.Timekeeper,
		log:       a.Recorder,
		tasks:     c.Tasks,
	}
	a.Admitter.Open()
}

// tasks is the part of package issuance that this package calls; *issuance.TaskOpener implements it.
type tasks interface {
	CountAll(ctx context.Context, taskID string, u broker.Touch) (broker.Live, error)
	UnderAncestors(live broker.Live, look func(broker.Admission) (broker.Live, error)) (broker.Live, error)
}
