package broker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/expirable"

	"ebb/broker/pace"
	"ebb/broker/provider"
)

// MintTime bounds a token request that goes to a third party: its turn, the mint,
// and what is done about one that failed.
const MintTime = gateTime + mintTime + mintSlack + failTime + callTime

const (
	// mintTime bounds a mint at a third party, from its intent to the provider's
	// answer.
	mintTime = 30 * time.Second
	// mintSlack is what the outcome has beyond that to become durable. From then on
	// the lane takes the intent for one whose minter has died.
	mintSlack = 10 * time.Second
	// gateTime is how long a mint waits for its turn before the caller is told to
	// come again.
	gateTime = 2 * time.Second
	// defaultParallel is how many calls run at one provider at a time.
	defaultParallel = 16
	// breakAfter is how many failures in a row make a provider count as down.
	breakAfter = 5
)

// upstream is what this process knows of one third-party provider. What outlives
// the process is in the journal.
type upstream struct {
	Provider
	name   string
	traits provider.Traits
	logged *upstreamMetrics

	mints   *pace.Gate   // mints have places of their own, so that they never stand in the way of an end
	minting pace.Breaker //
	ending  pace.Breaker //
	calls   chan struct{}
	claims  chan struct{} // leases that the lane holds claimed
	wake    chan struct{}
	quiet   hush        // the provider asks for no calls
	noMints hush        // it asks for no mints: who mints a lot must not hold up what ends
	noLists hush        // it asks for no lists
	tried   atomic.Bool // a trial is under way
	held    tally       // credentials that are in no final state
	swept   swept
	orphans *lru.LRU[string, time.Time] // by lease, when they were taken back
}

func newUpstream(name string, p Provider, m *upstreamMetrics) *upstream {
	if p.Parallel <= 0 {
		p.Parallel = defaultParallel
	}
	breaker := func() pace.Breaker {
		return pace.Breaker{Failures: breakAfter, Backoff: pace.Backoff{Min: time.Second, Max: 30 * time.Second}}
	}
	return &upstream{
		Provider: p, name: name, traits: p.Driver.Traits(), logged: m, mints: pace.NewGate(p.Parallel), minting: breaker(), ending: breaker(),
		calls: make(chan struct{}, p.Parallel), claims: make(chan struct{}, claimsPerCall*p.Parallel), wake: make(chan struct{}, 1),
		orphans: lru.NewLRU[string, time.Time](8192, nil, orphanMemory),
	}
}

// newUpstreams makes them for the providers that need one.
func newUpstreams(c Config, m *metrics) map[string]*upstream {
	out := map[string]*upstream{}
	for name, p := range c.Providers {
		// What can make credentials of answers may have made some before its configuration changed.
		_, seals := p.Driver.(provider.AnswerSealer)
		if p.Driver.Traits().ThirdParty || seals {
			out[name] = newUpstream(name, p, m.upstream(name))
		}
	}
	return out
}

// Upstreams reports whether any provider is a third party, so that a token request
// may take up to MintTime.
func (b *Broker) Upstreams() bool { return len(b.upstreams) > 0 }

// InstanceOf names this installation at providers: replicas have the same issuer
// and so the same name, others have another.
func InstanceOf(issuer string) string {
	sum := sha256.Sum256([]byte(issuer))
	return hex.EncodeToString(sum[:4])
}

// nudge wakes the lane of a provider now. It never waits.
func (u *upstream) nudge() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// hush is until when a provider asked to be left alone.
type hush struct{ until atomic.Int64 } // Unix milliseconds

// keep makes it last for d from now on, at least.
func (h *hush) keep(now time.Time, d time.Duration) {
	until := now.Add(d).UnixMilli()
	for {
		before := h.until.Load()
		if until <= before || h.until.CompareAndSwap(before, until) {
			return
		}
	}
}

// left is how long it lasts from now on.
func (h *hush) left(now time.Time) time.Duration {
	return max(time.UnixMilli(h.until.Load()).Sub(now), 0)
}

// enter lets a mint in, or says when to come again.
func (b *Broker) enter(ctx context.Context, u *upstream, taskID string) (leave func(), err error) {
	now := b.now()
	if wait := max(u.quiet.left(now), u.noMints.left(now)); wait > 0 {
		return nil, &Error{Kind: TooMany, Public: "The provider limits how often it may be asked. Wait, then try again.", RetryAfter: wait}
	}
	if u.MaxLive > 0 && u.held.now() >= u.MaxLive {
		return nil, &Error{Kind: TooMany, Public: "As many credentials of this provider are in use as may be. Give one back or wait for one to expire.", RetryAfter: 10 * time.Second}
	}
	if at := u.minting.Retry(now); !at.IsZero() {
		return nil, &Error{Kind: Unavailable, Public: "The provider does not answer. Nothing was issued; try again later.", RetryAfter: max(at.Sub(now), time.Second)}
	}
	ctx, cancel := context.WithTimeout(ctx, gateTime)
	defer cancel()
	leave, err = u.mints.Enter(ctx, taskID)
	if err != nil {
		return nil, &Error{Kind: TooMany, Public: "The provider is busy with other requests. Wait, then try again.", Cause: err, RetryAfter: gateTime}
	}
	return leave, nil
}

// targetOf is a lease as its driver sees it.
func (b *Broker) targetOf(l Lease, handle provider.Secret) provider.Target {
	t := provider.Target{
		LeaseID: l.ID, Instance: b.instance, TaskID: l.TaskID, Scopes: l.Scopes, Handle: handle,
		IssuedAt: l.IssuedAt, ExpiresAt: l.ExpiresAt, Now: b.now(),
	}
	if l.Upstream != nil {
		t.DiesAt, t.AcceptedAt = l.Upstream.DiesAt, l.Upstream.AcceptedAt
	}
	return t
}

// errPanic is what a driver, or a watch, that panicked counts as: it may have done
// anything.
var errPanic = errors.New("it panicked")

// safely calls a driver, or an attestor's watch. One that panics must not take the
// broker, and with it every other provider's revocations, down.
func safely[T any](do func() (T, error)) (out T, err error) {
	defer func() {
		if p := recover(); p != nil {
			// What it panicked with may hold a secret: only its type is kept.
			err = fmt.Errorf("%w: %T", errPanic, p)
		}
	}()
	return do()
}

// revoke takes a credential back at its provider.
func (u *upstream) revoke(ctx context.Context, t provider.Target) error {
	_, err := safely(func() (struct{}, error) { return struct{}{}, u.Driver.Revoke(ctx, t) })
	return err
}

// answered reports whether a provider that returned err is there at all. Nobody
// being able to tell now (provider.Prober) says nothing against it.
func answered(err error) bool {
	_, busy := errors.AsType[*provider.BusyError](err)
	for _, its := range []error{provider.ErrRefused, provider.ErrLost, errors.ErrUnsupported} {
		if errors.Is(err, its) {
			return true
		}
	}
	return err == nil || busy
}

// rank orders classes; what nobody knows is the weakest.
var rank = map[provider.Class]int{provider.ClassInstant: 2, provider.ClassEventual: 1}

// keeps reports whether r is a promise at least as strong as least, whose zero value
// is the strongest: where nothing was said, nothing weaker was agreed to.
func keeps(r, least provider.Revocability) bool {
	if least.Class == "" {
		least.Class = provider.ClassInstant
	}
	if rank[r.Class] != rank[least.Class] {
		return rank[r.Class] > rank[least.Class]
	}
	return r.Class != provider.ClassEventual || r.Bound <= least.Bound
}

// weaker is the weaker of two promises: what one credential says of itself can
// take away from what its driver promises, and never add.
func weaker(a, b provider.Revocability) provider.Revocability {
	switch {
	case b.Class == "" || rank[b.Class] > rank[a.Class]:
		return a
	case rank[b.Class] == 0: // the weakest, or one that nobody knows
		return provider.Revocability{Class: provider.ClassTTLOnly}
	case rank[b.Class] == rank[a.Class] && a.Bound > b.Bound:
		return a
	}
	return b
}

// jitter spreads what would happen at one moment. It decides nothing that
// somebody could profit from guessing.
func jitter() float64 { return rand.Float64() } //nolint:gosec // see above
