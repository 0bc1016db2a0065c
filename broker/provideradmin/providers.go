package provideradmin

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/internal/thirdparty"
	"github.com/ebb-broker/ebb/broker/pace"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/secretstore"
)

// Providers lists providers, keeps the operator's secrets for them and runs the provider
// self-test in a task of its own.
type Providers struct {
	store     broker.Store
	liveStore broker.LiveStore
	limits    broker.Limits
	logger    *slog.Logger
	providers map[string]broker.Provider
	safe      *secretstore.Store
	sealer    broker.Sealer
	upstreams map[string]*thirdparty.Upstream

	clock    *kernel.Timekeeper
	issuer   issuer
	log      *kernel.Recorder
	revoker  revoker
	tasks    tasks
	upstream upstream
}

// ProviderInfo describes a provider to clients.
type ProviderInfo struct {
	Name     string
	Kind     string
	Resource string
	Class    provider.Class
}

// ProviderInfos lists the providers by name.
func (a *Providers) ProviderInfos() []ProviderInfo {
	out := make([]ProviderInfo, 0, len(a.providers))
	for name, p := range a.providers {
		out = append(out, ProviderInfo{name, p.Kind, p.Resource, kernel.Promised(p).Class})
	}
	slices.SortFunc(out, func(x, y ProviderInfo) int { return strings.Compare(x.Name, y.Name) })
	return out
}

// ProviderState is a provider as shown to operators. Pending revocations are those of all
// replicas; the circuit breaker is that of this replica.
type ProviderState struct {
	ProviderInfo
	Bound              broker.Seconds // class eventual
	ThirdParty         bool
	Parallel           int       // concurrent calls
	MaxLive            int       // 0 = no limit
	Held               int       // credentials in no final state
	PendingRevocations int       // of Held: pending revocations
	PendingSince       time.Time //
	NextAt             time.Time //
	Breaker            string    // "closed", "half-open", or "open" when the provider does not answer
}

// ProviderStates lists the providers by name with their pending revocations.
func (a *Providers) ProviderStates(ctx context.Context, who broker.Principal) ([]ProviderState, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleOperator, broker.RoleAuditor); err != nil {
		return nil, err
	}
	now := a.clock.Now()
	sums, err := a.store.RevocationBacklog(ctx, now)
	var held map[string]int
	if err == nil {
		held, err = a.store.Held(ctx)
	}
	if err != nil {
		return nil, broker.StoreError(err)
	}
	out := []ProviderState{}
	for _, info := range a.ProviderInfos() {
		s := ProviderState{ProviderInfo: info}
		if u := a.upstreams[info.Name]; u != nil {
			s.ThirdParty, s.Parallel, s.MaxLive = true, u.Parallel, u.MaxLive
			s.Bound = broker.Seconds(u.Traits.Revocability.Bound / time.Second)
			s.Held = held[info.Name]
			s.Breaker = map[pace.State]string{pace.Open: "open", pace.HalfOpen: "half-open", pace.Closed: "closed"}[u.Ending.State(now)]
		}
		if i := slices.IndexFunc(sums, func(o broker.RevocationBacklog) bool { return o.Provider == info.Name }); i >= 0 {
			o := sums[i]
			s.PendingRevocations, s.PendingSince, s.NextAt = o.Intents+o.Revoking, o.Oldest, o.NextAt
		}
		out = append(out, s)
	}
	return out, nil
}

// StoredSecret describes a secret of the operator, without its value.
type StoredSecret struct {
	Name      string
	ChangedAt time.Time // when it was stored, or replaced by its successor
}

// maxSecret is far above the size of any key or token.
const maxSecret = 64 << 10

// Secrets lists the operator's secrets by name.
func (a *Providers) Secrets(ctx context.Context, who broker.Principal) ([]StoredSecret, error) {
	if err := a.withSafe(who, broker.RoleOperator, broker.RoleAuditor); err != nil {
		return nil, err
	}
	rows, err := a.safe.Names(ctx)
	if err != nil {
		return nil, broker.StoreError(err)
	}
	out := []StoredSecret{}
	for _, r := range rows {
		out = append(out, StoredSecret{r.Name, r.ChangedAt})
	}
	return out, nil
}

// PutSecret stores a secret under a name and replaces an existing one. The audit entry is
// written first, so that no secret is stored unrecorded.
func (a *Providers) PutSecret(ctx context.Context, who broker.Principal, name string, v secret.Secret) (StoredSecret, error) {
	if err := a.withSafe(who, broker.RoleOperator); err != nil {
		return StoredSecret{}, err
	}
	if !secretstore.ValidName(name) || v.Empty() || len(v.Reveal()) > maxSecret {
		return StoredSecret{}, broker.E(broker.Invalid, "name must be a lower-case letter, then up to 63 of a-z 0-9 . _ -; value must be 1 to 65536 bytes.", nil)
	}
	if err := a.recordSecret(ctx, audit.SecretStored, who, name); err != nil {
		return StoredSecret{}, err
	}
	now := a.clock.Now()
	if err := a.safe.Put(ctx, name, v); err != nil {
		return StoredSecret{}, broker.StoreError(err)
	}
	return StoredSecret{name, now}, nil
}

// RemoveSecret deletes a secret.
func (a *Providers) RemoveSecret(ctx context.Context, who broker.Principal, name string) (StoredSecret, error) {
	if err := a.withSafe(who, broker.RoleOperator); err != nil {
		return StoredSecret{}, err
	}
	if !secretstore.ValidName(name) {
		return StoredSecret{}, broker.E(broker.NotFound, "There is no secret of that name.", nil)
	}
	if err := a.recordSecret(ctx, audit.SecretRemoved, who, name); err != nil {
		return StoredSecret{}, err
	}
	err := a.safe.Remove(ctx, name)
	switch {
	case errors.Is(err, secretstore.ErrNone):
		return StoredSecret{}, broker.E(broker.NotFound, "There is no secret of that name.", err)
	case err != nil:
		return StoredSecret{}, broker.StoreError(err)
	}
	return StoredSecret{name, a.clock.Now()}, nil
}

func (a *Providers) recordSecret(ctx context.Context, kind string, who broker.Principal, name string) error {
	if err := a.store.Append(ctx, broker.Record{Entries: []audit.Entry{a.log.NewEntry(kind, who.ID, map[string]string{"name": name})}}); err != nil {
		return broker.StoreError(err)
	}
	return nil
}

// withSafe checks the role, and that a secret store is configured.
func (a *Providers) withSafe(who broker.Principal, roles ...broker.Role) error {
	if err := broker.Allow(who, broker.Certain, roles...); err != nil {
		return err
	}
	if a.safe == nil {
		return broker.E(broker.NotFound, "This broker keeps no secrets, because no configured provider needs one.", nil)
	}
	return nil
}
