package broker

import (
	"context"
	"slices"
	"strings"
	"time"

	"ebb/broker/pace"
	"ebb/broker/provider"
)

// ProviderInfo describes a provider to clients.
type ProviderInfo struct {
	Name     string         `json:"name"`
	Kind     string         `json:"kind"`
	Resource string         `json:"resource"`
	Class    provider.Class `json:"revocability"`
}

// ProviderInfos lists the providers by name.
func (b *Broker) ProviderInfos() []ProviderInfo {
	out := make([]ProviderInfo, 0, len(b.cfg.Providers))
	for name, p := range b.cfg.Providers {
		out = append(out, ProviderInfo{name, p.Kind, p.Resource, promised(p).Class})
	}
	slices.SortFunc(out, func(x, y ProviderInfo) int { return strings.Compare(x.Name, y.Name) })
	return out
}

// ProviderState is a provider as an operator sees it. What is owed is true for all
// replicas, the breaker is this one's.
type ProviderState struct {
	ProviderInfo
	Bound      Seconds   `json:"revocation_bound,omitempty"` // class eventual
	ThirdParty bool      `json:"third_party"`
	Parallel   int       `json:"parallel,omitempty"`       // calls at one time
	MaxLive    int       `json:"max_live,omitempty"`       // 0 = no bound
	Held       int       `json:"held"`                     // credentials that are in no final state
	Owed       int       `json:"owed"`                     // of them refused here and not known to be dead there
	OldestOwed time.Time `json:"owed_since,omitzero"`      //
	NextAt     time.Time `json:"next_attempt_at,omitzero"` //
	Breaker    string    `json:"breaker,omitempty"`        // closed, half-open or open: it does not answer
}

// ProviderStates lists the providers by name with what is owed there.
func (b *Broker) ProviderStates(ctx context.Context, who Principal) ([]ProviderState, error) {
	if err := allow(who, certain, RoleOperator, RoleAuditor); err != nil {
		return nil, err
	}
	now := b.now()
	sums, err := b.cfg.Journal.Owing(ctx, now)
	var held map[string]int
	if err == nil {
		held, err = b.cfg.Journal.Held(ctx)
	}
	if err != nil {
		return nil, unavailable(err)
	}
	out := []ProviderState{}
	for _, info := range b.ProviderInfos() {
		s := ProviderState{ProviderInfo: info}
		if u := b.upstreams[info.Name]; u != nil {
			s.ThirdParty, s.Parallel, s.MaxLive = true, u.Parallel, u.MaxLive
			s.Bound = Seconds(u.traits.Revocability.Bound / time.Second)
			s.Held = held[info.Name]
			s.Breaker = map[pace.State]string{pace.Open: "open", pace.HalfOpen: "half-open", pace.Closed: "closed"}[u.ending.State(now)]
		}
		if i := slices.IndexFunc(sums, func(o Owing) bool { return o.Provider == info.Name }); i >= 0 {
			o := sums[i]
			s.Owed, s.OldestOwed, s.NextAt = o.Intents+o.Revoking, o.Oldest, o.NextAt
		}
		out = append(out, s)
	}
	return out, nil
}
