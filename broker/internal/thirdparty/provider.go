package thirdparty

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/expirable"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/pace"
	"github.com/ebb-broker/ebb/broker/provider"
)

// defaultParallel is the number of concurrent calls to one provider.
const defaultParallel = 16

// breakAfter is the number of consecutive failures after which a provider counts as down.
const breakAfter = 5

// Upstream is this process's state of one third-party provider. The durable part is in the
// database.
type Upstream struct {
	broker.Provider
	Name   string
	Traits provider.Traits
	Logged *kernel.UpstreamMetrics

	Mints       *pace.Gate   // mints have slots of their own, so that they never delay a revocation
	Minting     pace.Breaker //
	Ending      pace.Breaker //
	Calls       chan struct{}
	Claims      chan struct{} // leases that the queue's worker has claimed
	Wake        chan struct{}
	Quiet       hush        // how long the provider wants no calls
	NoMints     hush        // how long it wants no mints; apart from Quiet, so that many mints do not delay revocations
	NoLists     hush        // how long it wants no lists
	SelfTesting atomic.Bool // a provider self-test is running
	Held        tally       // credentials in no final state
	Swept       swept
	Orphans     *lru.LRU[string, time.Time] // by lease, when they were revoked
}

func newUpstream(name string, p broker.Provider, m *kernel.UpstreamMetrics) *Upstream {
	if p.Parallel <= 0 {
		p.Parallel = defaultParallel
	}
	breaker := func() pace.Breaker {
		return pace.Breaker{Failures: breakAfter, Backoff: pace.Backoff{Min: time.Second, Max: 30 * time.Second}}
	}
	return &Upstream{
		Provider: p, Name: name, Traits: p.Driver.Traits(), Logged: m, Mints: pace.NewGate(p.Parallel), Minting: breaker(), Ending: breaker(),
		Calls: make(chan struct{}, p.Parallel), Claims: make(chan struct{}, claimsPerCall*p.Parallel), Wake: make(chan struct{}, 1),
		Orphans: lru.NewLRU[string, time.Time](8192, nil, OrphanMemory),
	}
}

// NewUpstreams returns the state of each provider that needs one.
func NewUpstreams(providers map[string]broker.Provider, m *kernel.Metrics) map[string]*Upstream {
	out := map[string]*Upstream{}
	for name, p := range providers {
		// A provider whose responses can contain credentials may have issued some before its configuration changed.
		_, seals := p.Driver.(provider.AnswerSealer)
		if p.Driver.Traits().ThirdParty || seals {
			out[name] = newUpstream(name, p, m.Upstream(name))
		}
	}
	return out
}

// Nudge wakes the queue's worker for a provider now. It never blocks.
func (u *Upstream) Nudge() {
	select {
	case u.Wake <- struct{}{}:
	default:
	}
}

// hush is the time until which a provider wants no calls.
type hush struct{ until atomic.Int64 } // Unix milliseconds

// Keep extends the wait to at least min(d, provider.MaxWait) from now.
func (h *hush) Keep(now time.Time, d time.Duration) {
	until := now.Add(min(d, provider.MaxWait)).UnixMilli()
	for {
		before := h.until.Load()
		if until <= before && h.Left(now) > 0 || h.until.CompareAndSwap(before, until) {
			return
		}
	}
}

// End ends the wait.
func (h *hush) End() { h.until.Store(0) }

// EndWaits ends the waits that the provider asked for: a clock that has jumped cannot measure them.
func (u *Upstream) EndWaits() {
	u.Quiet.End()
	u.NoMints.End()
	u.NoLists.End()
}

// Left returns the remaining wait.
func (h *hush) Left(now time.Time) time.Duration {
	return pace.Left(time.UnixMilli(h.until.Load()), now, provider.MaxWait)
}

// errPanic is the error of a driver, or of a watch, that panicked: its outcome is unknown.
var errPanic = errors.New("the driver or the watch panicked")

// Safely calls a driver, or an attestor's watch. A panic there must not stop the broker, and
// with it the revocations at all other providers.
func Safely[T any](do func() (T, error)) (out T, err error) {
	defer func() {
		if p := recover(); p != nil {
			// The panic's value may hold a secret: only its type is kept.
			err = fmt.Errorf("%w: %T", errPanic, p)
		}
	}()
	return do()
}

// Revoke revokes a credential at its provider.
func (u *Upstream) Revoke(ctx context.Context, t provider.Target) error {
	_, err := Safely(func() (struct{}, error) { return struct{}{}, u.Driver.Revoke(ctx, t) })
	return err
}

// Answered reports whether a provider that returned err is reachable. An inconclusive probe
// (provider.Prober) counts as reachable.
func Answered(err error) bool {
	_, busy := errors.AsType[*provider.BusyError](err)
	for _, its := range []error{provider.ErrRefused, provider.ErrLost, errors.ErrUnsupported} {
		if errors.Is(err, its) {
			return true
		}
	}
	return err == nil || busy
}

// rank orders classes; an unknown class is the weakest.
var rank = map[provider.Class]int{provider.ClassInstant: 2, provider.ClassEventual: 1}

// Keeps reports whether r is at least as strong as least. The zero value of least is the
// strongest: without a statement, no weaker class was agreed to.
func Keeps(r, least provider.Revocability) bool {
	if least.Class == "" {
		least.Class = provider.ClassInstant
	}
	if rank[r.Class] != rank[least.Class] {
		return rank[r.Class] > rank[least.Class]
	}
	return r.Class != provider.ClassEventual || r.Bound <= least.Bound
}

// Weaker returns the weaker of two promises: a credential can weaken its driver's promise and
// never strengthen it.
func Weaker(a, b provider.Revocability) provider.Revocability {
	switch {
	case b.Class == "" || rank[b.Class] > rank[a.Class]:
		return a
	case rank[b.Class] == 0: // the weakest or an unknown class
		return provider.Revocability{Class: provider.ClassTTLOnly}
	case rank[b.Class] == rank[a.Class] && a.Bound > b.Bound:
		return a
	}
	return b
}

// Jitter returns a random number in [0, 1) to spread simultaneous events. Guessing it gives an
// attacker nothing.
func Jitter() float64 { return rand.Float64() } //nolint:gosec // see above
