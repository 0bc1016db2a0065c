package durability

import (
	"context"
	"log/slog"
	"time"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/keys"
)

// Durability is the area that compares the LiveStore and the database, and repairs the
// LiveStore.
type Durability struct {
	*Refiller
	*AuditGuard
}

func New() *Durability {
	return &Durability{
		Refiller:   new(Refiller),
		AuditGuard: new(AuditGuard),
	}
}

// Config holds the dependencies of the area.
type Config struct {
	ApprovalStore broker.ApprovalStore
	Store         broker.Store
	KeyDirectory  KeyDirectory
	Keys          *keys.Ring
	KnownKeys     jose.KeySet
	LiveStore     broker.LiveStore
	Limits        broker.Limits
	Logger        *slog.Logger
	Marks         map[string]broker.MarkStore

	Cuts    *kernel.Disconnects
	Live    *kernel.LiveState
	M       *kernel.Metrics
	Revoked *kernel.RevokedSet

	Clock   *kernel.Timekeeper
	Log     *kernel.Recorder
	Pending pending
	Tasks   tasks
	Tickets tickets
}

// Connect sets the dependencies of the area's parts. Call it once, before any other method.
func (a *Durability) Connect(c Config) {
	*a.Refiller = Refiller{
		approvalStore: c.ApprovalStore,
		store:         c.Store,
		liveStore:     c.LiveStore,
		limits:        c.Limits,
		live:          c.Live,
		m:             c.M,
		revoked:       c.Revoked,
		clock:         c.Clock,
		integrity:     a.AuditGuard,
		log:           c.Log,
		pending:       c.Pending,
		tasks:         c.Tasks,
		tickets:       c.Tickets,
	}
	*a.AuditGuard = AuditGuard{
		store:        c.Store,
		keyDirectory: c.KeyDirectory,
		keys:         c.Keys,
		knownKeys:    c.KnownKeys,
		logger:       c.Logger,
		marks:        c.Marks,
		cuts:         c.Cuts,
		live:         c.Live,
		revoked:      c.Revoked,
		clock:        c.Clock,
		log:          c.Log,
	}
	a.AuditGuard.Open()
}

// tickets is the part of package identity that this package calls; *identity.Enroller implements it.
type tickets interface {
	PutTicket(ctx context.Context, hash, taskID string, until time.Time) error
}

// pending is the part of package revocation that this package calls; *revocation.PendingEnds implements it.
type pending interface {
	KeepEnd(m broker.TaskMove) (kept bool)
}

// tasks is the part of package issuance that this package calls; *issuance.TaskOpener implements it.
type tasks interface {
	Keep(t broker.Task) time.Time
	RootOf(ctx context.Context, taskID string) string
}
