package broker

import (
	"context"
	"fmt"
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
	byName := map[string]Owing{}
	for _, o := range sums {
		byName[o.Provider] = o
	}
	b.countBehind(byName)
	late := b.ghosts.count()
	for name, u := range b.upstreams {
		o := byName[name]
		b.m.owing.WithLabelValues(name).Set(float64(o.Intents + o.Revoking + late[name]))
		age := 0.0
		if !o.Oldest.IsZero() {
			age = max(now.Sub(o.Oldest), 0).Seconds()
		}
		b.m.owingAge.WithLabelValues(name).Set(age)
		b.m.breakers.WithLabelValues(name).Set(float64(u.ending.State(now)))
	}
}

// countBehind keeps the numbers of providers that were configured once, for as long as
// something is owed to them.
func (b *Broker) countBehind(byName map[string]Owing) {
	b.countMu.Lock()
	defer b.countMu.Unlock()
	for name := range b.counted {
		if byName[name].Provider == "" {
			b.m.owing.DeleteLabelValues(name)
			delete(b.counted, name)
		}
	}
	behind := false
	for name, o := range byName {
		if b.upstreams[name] == nil {
			behind = behind || o.Intents+o.Revoking > 0
			b.m.owing.WithLabelValues(name).Set(float64(o.Intents + o.Revoking))
			b.counted[name] = true
		}
	}
	b.behind.Store(behind)
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
	counts := make(map[string]func(int), len(b.upstreams))
	for name, u := range b.upstreams {
		counts[name] = u.held.count()
	}
	held, err := b.cfg.Journal.Held(ctx)
	if err != nil {
		b.cfg.Logger.WarnContext(ctx, "what is held at providers could not be counted", "error", err)
		return
	}
	for name, set := range counts {
		set(held[name])
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
	for name, late := range b.ghosts.count() {
		n += late
		text += fmt.Sprintf(" %s %d without a record", name, late)
		out.Warning = "credentials came into being after their leases had been settled, and this process could not take them back yet; do not stop it before it has, see the log"
	}
	if n > 0 {
		out.Detail = fmt.Sprintf("%d:%s", n, text)
	}
	return []Dependency{out}
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
