package broker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"ebb/broker/provider"
)

const (
	// countRound is how often what is owed at providers is summed up.
	countRound = 5 * time.Second
	// behindRound is that where no third party is configured any more.
	behindRound = time.Minute
	// alarming is the age from which what is owed is worth waking somebody.
	alarming = 5 * time.Minute
)

// countOwed keeps the numbers of what is owed at providers.
func (b *Broker) countOwed(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, countRound)
	defer cancel()
	now := b.now()
	sums, err := b.cfg.Journal.Owing(ctx, now)
	if err != nil {
		b.cfg.Logger.WarnContext(ctx, "what is owed at providers could not be summed up", "error", err)
		return
	}
	b.countHeld(ctx)
	byName, behind := map[string]Owing{}, false
	for _, o := range sums {
		byName[o.Provider] = o
		if b.upstreams[o.Provider] == nil {
			behind = behind || o.Intents+o.Revoking > 0
			b.m.owing.WithLabelValues(o.Provider).Set(float64(o.Intents + o.Revoking)) // it was configured once
		}
	}
	b.behind.Store(behind)
	for name, u := range b.upstreams {
		o := byName[name]
		b.m.owing.WithLabelValues(name).Set(float64(o.Intents + o.Revoking))
		age := 0.0
		if !o.Oldest.IsZero() {
			age = max(now.Sub(o.Oldest), 0).Seconds()
		}
		b.m.owingAge.WithLabelValues(name).Set(age)
		b.m.breakers.WithLabelValues(name).Set(float64(u.ending.State(now)))
	}
}

// countHeld keeps the numbers for the bound on how many credentials a provider may
// have, if any has one.
func (b *Broker) countHeld(ctx context.Context) {
	bounded := false
	for _, u := range b.upstreams {
		bounded = bounded || u.MaxLive > 0
	}
	if !bounded {
		return
	}
	held, err := b.cfg.Journal.Held(ctx)
	if err != nil {
		b.cfg.Logger.WarnContext(ctx, "what is held at providers could not be counted", "error", err)
		return
	}
	for name, u := range b.upstreams {
		u.held.Store(int64(held[name]))
	}
}

// owing is the readiness of what is owed at providers: it works, and from some age
// on somebody should look.
func (b *Broker) owing(ctx context.Context) []Dependency {
	if len(b.upstreams) == 0 && !b.behind.Load() {
		return nil
	}
	now := b.now()
	sums, err := b.cfg.Journal.Owing(ctx, now)
	if err != nil {
		return []Dependency{{Name: "owed_revocations", Err: err}}
	}
	out := Dependency{Name: "owed_revocations", Detail: "none"}
	n, text := 0, ""
	for _, o := range sums {
		owed := o.Intents + o.Revoking
		if owed == 0 {
			continue
		}
		n += owed
		age := max(now.Sub(o.Oldest), 0).Truncate(time.Second)
		text += fmt.Sprintf(" %s %d since %s", o.Provider, owed, age)
		switch {
		case b.upstreams[o.Provider] == nil:
			out.Warning = "credentials are owed to a provider that is not configured any more: put it back, or force them; see ebb leases list --state revoking"
		case age >= alarming && out.Warning == "":
			out.Warning = "credentials are refused here and not yet known to be dead at their provider; see ebb leases list --state revoking"
		}
	}
	if n > 0 {
		out.Detail = fmt.Sprintf("%d:%s", n, text)
	}
	return []Dependency{out}
}

// ghosts are credentials that came into being after the lane had settled their
// intents, and that could not be taken back at once. No record owes them any more,
// so that this process does until they are gone; the sweep finds them as well.
type ghosts struct {
	mu sync.Mutex
	m  map[string]ghost // by lease
}

type ghost struct {
	u      *upstream
	lease  Lease
	handle provider.Secret
}

func (b *Broker) haunt(u *upstream, l Lease, handle provider.Secret) {
	b.ghosts.mu.Lock()
	defer b.ghosts.mu.Unlock()
	if b.ghosts.m == nil {
		b.ghosts.m = map[string]ghost{}
	}
	b.ghosts.m[l.ID] = ghost{u, l, handle}
}

// bust takes ghosts back, one after the other.
func (b *Broker) bust(ctx context.Context) {
	b.ghosts.mu.Lock()
	all := make([]ghost, 0, len(b.ghosts.m))
	for _, g := range b.ghosts.m {
		all = append(all, g)
	}
	b.ghosts.mu.Unlock()
	for _, g := range all {
		if ctx.Err() != nil {
			return
		}
		call, cancel := context.WithTimeout(ctx, callTime)
		err := g.u.revoke(call, b.targetOf(g.lease, g.handle))
		cancel()
		if err != nil {
			b.cfg.Logger.ErrorContext(ctx, "a credential that nobody got could not be taken back yet", "lease_id", g.lease.ID, "error", err)
			continue
		}
		b.ghosts.mu.Lock()
		delete(b.ghosts.m, g.lease.ID)
		b.ghosts.mu.Unlock()
	}
}

// runUpstream are the promises about third parties that nobody calls for.
func (b *Broker) runUpstream(ctx context.Context, run func(func() error)) {
	if len(b.upstreams) == 0 { // what is owed to one that was taken away is owed all the same
		run(func() error {
			b.countOwed(ctx)
			return every(ctx, behindRound, b.countOwed)
		})
		return
	}
	for _, u := range b.upstreams {
		run(func() error { return b.lane(ctx, u) })
		// What only time ends cannot be taken back, orphan or not.
		if l, can := u.Driver.(provider.Lister); can && u.traits.Revocability.Class != provider.ClassTTLOnly {
			run(func() error { return b.sweepEvery(ctx, u, l) })
		}
	}
	run(func() error {
		b.countOwed(ctx)
		return every(ctx, countRound, b.countOwed)
	})
	run(func() error { return every(ctx, countRound, b.bust) })
	run(func() error { return every(ctx, countRound, b.dropHandles) })
	run(func() error {
		b.reseal(ctx) // a key that was rotated while nobody ran
		return every(ctx, resealRound, b.reseal)
	})
}
