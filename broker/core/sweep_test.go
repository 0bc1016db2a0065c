package core_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
	"github.com/ebb-broker/ebb/broker/provider"
)

// sweepEvery is also how long a list may give no answer: a busy machine needs a part of it.
const sweepEvery = 2 * time.Second

// idOf returns a lease id made at the given time.
func idOf(at time.Time) string {
	u := uuid.Must(uuid.NewV7())
	for i := range 6 {
		u[i] = byte(at.UnixMilli() >> (40 - 8*i))
	}
	return "lse_" + hex.EncodeToString(u[:])
}

// metric returns the value of one series of provider "up", or 0.
func (x *third) metric(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	all, err := x.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			var got []string
			for _, l := range m.GetLabel() {
				got = append(got, l.GetValue())
			}
			if f.GetName() == name && slices.Contains(got, "up") && !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(got, l) }) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// swept waits until a search that begins from now on has succeeded.
func (x *third) swept(t *testing.T) {
	t.Helper()
	from := x.metric(t, "ebb_sweeps_total", "done")
	eventually(t, "two more searches", func() bool { return x.metric(t, "ebb_sweeps_total", "done") >= from+2 })
}

func (x *third) sweepState(t *testing.T) broker.Dependency {
	t.Helper()
	for _, d := range x.Broker.Ready(t.Context()) {
		if d.Name == "orphan_sweep" {
			return d
		}
	}
	t.Fatal("readiness does not tell of the search")
	return broker.Dependency{}
}

// listed is a driver that lists further credentials of the test beside the existing ones.
type listed struct {
	provider.Driver
	more func(ctx context.Context, instance string, yield func(provider.Target) error) error

	mu      sync.Mutex
	revoked []string
}

func (l *listed) List(ctx context.Context, instance string, yield func(provider.Target) error) error {
	if err := l.Driver.(provider.Lister).List(ctx, instance, yield); err != nil {
		return err
	}
	return l.more(ctx, instance, yield)
}

func (l *listed) Revoke(ctx context.Context, t provider.Target) error {
	l.mu.Lock()
	l.revoked = append(l.revoked, t.LeaseID)
	l.mu.Unlock()
	return l.Driver.Revoke(ctx, t)
}

func (l *listed) calls(id string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.revoked {
		if r == id {
			n++
		}
	}
	return n
}

func sweeping(t *testing.T, s shape) *third {
	t.Helper()
	s.party.Lists = true
	s.config.Limits.Sweep = sweepEvery
	return thirdParty(t, s)
}

// I3: a credential at the provider without a live lease is revoked, once, and reported; all other
// items in the list are left alone.
func TestSweepTakesBackOrphansAlone(t *testing.T) {
	t.Parallel()
	var x *third
	l := &listed{more: func(context.Context, string, func(provider.Target) error) error { return nil }}
	x = sweeping(t, shape{idle: true, change: func(p *broker.Provider) { l.Driver, p.Driver = p.Driver, l }})
	now, mine := x.Clock.Now(), instance(x)
	s := x.Open(t, upSpec())
	live := minted(t, s, "up:a:read").LeaseID
	x.up.On(brokertest.OpMint, brokertest.DoneCut)
	_, _ = s.Ask(t, "up:a:read") // revoking: the revocation queue does not run
	x.up.On(brokertest.OpMint, "")
	var pending string
	for _, l := range x.leases(t, s.Task.ID) {
		if l.State == broker.LeaseRevoking {
			pending = l.ID
		}
	}
	orphan, young, future := idOf(now), idOf(now.Add(9*time.Minute+10*time.Second)), idOf(now.Add(time.Hour))
	random := "lse_" + strings.Repeat("0123abcd", 4)
	for _, id := range []string{orphan, young, future, random} {
		x.up.Plant(provider.Name(mine, id))
	}
	x.up.Plant(provider.Name("00000000", orphan))
	x.up.Plant("ebb-" + mine + "-nonsense")
	x.up.Plant("postgres")
	x.Clock.Add(10 * time.Minute)
	for _, id := range []string{live, pending} { // as old as an orphan
		if got := x.lease(t, id); got.State != broker.LeaseLive && got.State != broker.LeaseRevoking {
			t.Fatalf("lease %s is %s", id, got.State)
		}
	}
	l.more = func(_ context.Context, _ string, yield func(provider.Target) error) error {
		for _, id := range []string{live, live, pending, "", "lse_", "tsk_" + strings.Repeat("0", 32), orphan + "0", strings.ToUpper(orphan), "lse_" + strings.Repeat("\x00", 32)} {
			if err := yield(provider.Target{LeaseID: id, Instance: mine}); err != nil {
				return err
			}
		}
		return yield(provider.Target{LeaseID: idOf(now), Instance: "00000000"})
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = x.Broker.Run(ctx) })
	eventually(t, "the orphan is gone", func() bool { return l.calls(orphan) == 1 })
	x.swept(t)
	stop()
	running.Wait()
	alive := x.up.Alive()
	for _, name := range []string{provider.Name(mine, live), provider.Name(mine, young), provider.Name(mine, future), provider.Name(mine, random), provider.Name("00000000", orphan), "ebb-" + mine + "-nonsense", "postgres"} {
		if !slices.Contains(alive, name) {
			t.Errorf("%s was taken away", name)
		}
	}
	if slices.Contains(alive, provider.Name(mine, orphan)) || x.metric(t, "ebb_orphans_total") != 1 || x.metric(t, "ebb_orphans_left") != 0 {
		t.Errorf("alive %v, counted %v", alive, x.metric(t, "ebb_orphans_total"))
	}
	if l.calls(live) != 0 || l.calls(pending) != 1 || len(l.revoked) != 2 { // a call of the revocation queue
		t.Errorf("revoked %v", l.revoked)
	}
	es := entries(t, x.target, broker.EntryFilter{Kind: audit.OrphanRevoked})
	if len(es) != 1 || es[0].LeaseID != orphan || es[0].Actor != "ebb" || !strings.Contains(string(es[0].Data), `"recorded":false`) {
		t.Errorf("on the record: %+v", es)
	}
	if d := x.sweepState(t); d.Warning != "" || !strings.Contains(d.Detail, "up ") {
		t.Errorf("readiness: %+v", d)
	}
}

// A credential that is recorded as revoked but exists is revoked again, and the entry has the
// earlier proof.
func TestSweepFindsTheDeadAlive(t *testing.T) {
	t.Parallel()
	x := sweeping(t, shape{})
	s, other := x.Open(t, upSpec()), x.Open(t, upSpec())
	dead := minted(t, s, "up:a:read").LeaseID
	x.complete(t, s.Task.ID)
	x.up.On(brokertest.OpRevoke, brokertest.Refuse)
	forced := minted(t, other, "up:a:read").LeaseID
	x.closed(t, other.Task.ID)
	// A running attempt would find that the provider lists it again.
	eventually(t, "the provider has refused", func() bool { return x.lease(t, forced).Upstream.Attempts == 1 })
	if _, err := x.Broker.ForceLease(t.Context(), x.who(brokertest.Operator), forced, "looked"); err != nil {
		t.Fatal(err)
	}
	x.up.On(brokertest.OpRevoke, "")
	x.up.Plant(provider.Name(instance(x), dead)) // the provider restored it
	x.swept(t)
	if x.metric(t, "ebb_orphans_total") != 0 || len(x.up.Alive()) != 2 {
		t.Errorf("a lease that was just settled may still be in a list: %v", x.up.Alive())
	}
	x.Clock.Add(5 * time.Minute)
	eventually(t, "both are gone", func() bool { return len(x.up.Alive()) == 0 })
	x.swept(t)
	for id, want := range map[string]map[string]any{
		dead:   {"recorded": true, "state": "revoked", "proof": "confirmed", "provider": "up"},
		forced: {"recorded": true, "state": "unconfirmed", "proof": "forced"},
	} {
		es := entries(t, x.target, broker.EntryFilter{LeaseID: id, Kind: audit.OrphanRevoked})
		if len(es) != 1 || es[0].TaskID == "" {
			t.Fatalf("%d entries about %s", len(es), id)
		}
		var got map[string]any
		if err := json.Unmarshal(es[0].Data, &got); err != nil {
			t.Fatal(err)
		}
		for k, v := range want {
			if got[k] != v {
				t.Errorf("%s of %s is %v, want %v", k, id, got[k], v)
			}
		}
	}
	if got := x.lease(t, forced); got.State != broker.LeaseUnconfirmed || got.Upstream.Proof != broker.ProofForced {
		t.Errorf("a final record was rewritten: %+v", got)
	}
}

// Two replicas that find the same orphan at one time do no harm, and count it once.
func TestSweepReplicas(t *testing.T) {
	t.Parallel()
	x := sweeping(t, shape{idle: true})
	for range 40 {
		x.up.Plant(provider.Name(instance(x), idOf(x.Clock.Now().Add(-time.Hour))))
	}
	x.janitor(t, x.Broker)
	x.janitor(t, x.replica(t))
	x.janitor(t, x.replica(t))
	eventually(t, "all are gone", func() bool { return len(x.up.Alive()) == 0 })
	x.swept(t)
	if es := entries(t, x.target, broker.EntryFilter{Kind: audit.OrphanRevoked}); len(es) != 40 {
		t.Errorf("%d entries about 40 orphans", len(es))
	}
}

// A provider that answers "revoked" and still lists the credential: noticed, reported, and counted
// once.
func TestSweepIsLiedTo(t *testing.T) {
	t.Parallel()
	x := sweeping(t, shape{})
	x.up.Deaf = true
	id := idOf(x.Clock.Now().Add(-time.Hour))
	x.up.Plant(provider.Name(instance(x), id))
	x.Clock.Add(time.Second)
	eventually(t, "found", func() bool { return x.metric(t, "ebb_orphans_total") == 1 })
	x.Clock.Add(time.Second)
	eventually(t, "left", func() bool { return x.metric(t, "ebb_orphans_left") == 1 })
	x.Clock.Add(time.Hour)
	if d := x.sweepState(t); d.Warning == "" || !strings.Contains(d.Detail, "1 left") {
		t.Errorf("readiness: %+v", d)
	}
	if x.metric(t, "ebb_orphans_total") != 1 || len(entries(t, x.target, broker.EntryFilter{LeaseID: id})) != 1 {
		t.Errorf("counted %v times", x.metric(t, "ebb_orphans_total"))
	}
}

// For any failure of a list: no live credential is revoked, other revocations continue, the failure
// is reported, and the search is repeated when possible.
func TestSweepFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		list func(ctx context.Context, instance string, yield func(provider.Target) error) error
		set  func(x *third)
		heal func(x *third)
		half bool // items that were listed before the failure are still revoked
	}{
		"hangs": {half: true, list: func(ctx context.Context, _ string, _ func(provider.Target) error) error {
			<-ctx.Done()
			return ctx.Err()
		}},
		"hangs and calls it well": {half: true, list: func(ctx context.Context, _ string, _ func(provider.Target) error) error {
			<-ctx.Done()
			return nil
		}},
		"panics":                  {half: true, list: func(context.Context, string, func(provider.Target) error) error { panic("canary") }},
		"fails half-way":          {half: true, list: func(context.Context, string, func(provider.Target) error) error { return errors.New("cut") }},
		"cannot list":             {set: func(x *third) { x.up.On(brokertest.OpList, brokertest.Refuse) }, heal: func(x *third) { x.up.On(brokertest.OpList, "") }},
		"answers garbage":         {set: func(x *third) { x.up.On(brokertest.OpList, brokertest.Garbage) }, heal: func(x *third) { x.up.On(brokertest.OpList, "") }},
		"no database":             {set: func(x *third) { x.store.on("Leases", func() error { return errDown }) }, heal: func(x *third) { x.store.on("Leases", nil) }},
		"revocation fails":        {set: func(x *third) { x.up.On(brokertest.OpRevoke, brokertest.Error500) }, heal: func(x *third) { x.up.On(brokertest.OpRevoke, "") }},
		"revocation refused":      {set: func(x *third) { x.up.On(brokertest.OpRevoke, brokertest.Refuse) }, heal: func(x *third) { x.up.On(brokertest.OpRevoke, "") }},
		"wants to be alone":       {set: func(x *third) { x.up.On(brokertest.OpRevoke, brokertest.Busy) }, heal: func(x *third) { x.up.On(brokertest.OpRevoke, "") }},
		"list wants a pause":      {set: func(x *third) { x.up.On(brokertest.OpList, brokertest.Busy) }, heal: func(x *third) { x.up.On(brokertest.OpList, "") }},
		"live store cannot count": {set: func(x *third) { x.liveStore.on("Admit", func() error { return errDown }) }, half: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var healed atomic.Bool
			l := &listed{more: func(ctx context.Context, instance string, yield func(provider.Target) error) error {
				if c.list == nil || healed.Load() {
					return nil
				}
				return c.list(ctx, instance, yield)
			}}
			x := sweeping(t, shape{idle: true, change: func(p *broker.Provider) { l.Driver, p.Driver = p.Driver, l }})
			s := x.Open(t, upSpec())
			live := minted(t, s, "up:a:read").LeaseID
			id := idOf(x.Clock.Now().Add(-time.Hour))
			x.up.Plant(provider.Name(instance(x), id))
			if c.set != nil {
				c.set(x)
			}
			x.janitor(t, x.Broker)
			if name == "live store cannot count" {
				eventually(t, "taken back", func() bool { return l.calls(id) > 0 })
				eventually(t, "told", func() bool { return x.metric(t, "ebb_orphans_total") == 1 })
				return
			}
			failed := func() float64 {
				return x.metric(t, "ebb_sweeps_total", "failed") + x.metric(t, "ebb_sweeps_total", "postponed")
			}
			eventually(t, "a search failed", func() bool { return failed() >= 2 })
			if c.half {
				eventually(t, "what was listed is taken back", func() bool { return len(x.up.Alive()) == 1 })
			} else if len(x.up.Alive()) != 2 {
				t.Errorf("alive: %v", x.up.Alive())
			}
			x.Clock.Add(time.Minute)
			if d := x.sweepState(t); d.Warning == "" || strings.Contains(fmt.Sprint(d), "canary") {
				t.Errorf("readiness: %+v", d)
			}
			if c.heal != nil {
				c.heal(x)
			}
			healed.Store(true)
			// The provider may ask for a pause of a part of that time.
			x.turn(t, 10*time.Second, "a search went well", func() bool { return x.metric(t, "ebb_sweep_success_timestamp_seconds") > 0 && len(x.up.Alive()) <= 1 })
			if got := x.lease(t, live); l.calls(id) == 0 || x.metric(t, "ebb_orphans_total") != 1 || (got.State == broker.LeaseLive) != slices.Contains(x.up.Alive(), provider.Name(instance(x), live)) {
				t.Errorf("alive %v, counted %v, lease %s", x.up.Alive(), x.metric(t, "ebb_orphans_total"), got.State)
			}
		})
	}
}

// Lists have a rate of their own: a provider that asks for no list for an hour gets no list
// request, and mints and revocations continue.
func TestSweepHoldsNothingUp(t *testing.T) {
	t.Parallel()
	var lists atomic.Int32
	l := &listed{more: func(context.Context, string, func(provider.Target) error) error {
		lists.Add(1)
		return &provider.BusyError{After: time.Hour, Cause: errors.New("too many lists")}
	}}
	x := sweeping(t, shape{idle: true, change: func(p *broker.Provider) { l.Driver, p.Driver = p.Driver, l }})
	s := x.Open(t, upSpec())
	minted(t, s, "up:a:read")
	x.janitor(t, x.Broker)
	eventually(t, "a search is refused", func() bool { return lists.Load() == 1 })
	eventually(t, "the next are put off", func() bool { return x.metric(t, "ebb_sweeps_total", "postponed") >= 2 })
	minted(t, s, "up:a:read")
	x.closed(t, s.Task.ID)
	eventually(t, "both are revoked", func() bool { return len(x.up.Alive()) == 0 })
	if n := lists.Load(); n != 1 {
		t.Errorf("searched %d times within the hour", n)
	}
	x.Clock.Add(time.Hour)
	eventually(t, "it is searched again", func() bool { return lists.Load() == 2 })
}

// sick returns a broker whose provider has answered none of the revocations of a closed task, so
// that calls to it are paused.
func sick(t *testing.T) (x *third, task string) {
	t.Helper()
	x = sweeping(t, shape{idle: true, party: brokertest.Party{Traits: provider.Traits{Lasting: true}}})
	s := x.Open(t, upSpec())
	for range 8 {
		minted(t, s, "up:a:read")
	}
	x.up.On(brokertest.OpRevoke, brokertest.Error500)
	x.closed(t, s.Task.ID)
	x.janitor(t, x.Broker)
	eventually(t, "the breaker opens", func() bool { return x.metric(t, "ebb_sweeps_total", "postponed") >= 2 })
	return x, s.Task.ID
}

// A provider that does not answer its revocations is not searched.
func TestSweepLeavesTheSickAlone(t *testing.T) {
	t.Parallel()
	x, _ := sick(t)
	before := x.up.Calls(brokertest.OpList)
	from := x.metric(t, "ebb_sweeps_total", "postponed")
	eventually(t, "three more are put off", func() bool { return x.metric(t, "ebb_sweeps_total", "postponed") >= from+3 })
	if n := x.up.Calls(brokertest.OpList); n != before {
		t.Errorf("listed %d times while it is down", n-before)
	}
}

// A provider that did not answer the last call is searched once no revocation is pending there: no
// other call would find out that it is back.
func TestSweepFindsOutThatTheSickIsBack(t *testing.T) {
	t.Parallel()
	x, task := sick(t)
	for _, l := range x.leases(t, task) {
		if _, err := x.Broker.ForceLease(t.Context(), x.who(brokertest.Operator), l.ID, "looked"); err != nil {
			t.Fatal(err)
		}
	}
	x.up.On(brokertest.OpRevoke, "")
	x.Clock.Add(10 * time.Minute)
	eventually(t, "what was forced and lives is taken back", func() bool { return len(x.up.Alive()) == 0 })
	x.swept(t)
}

// An endless list is not followed indefinitely.
func TestSweepOfAnEndlessList(t *testing.T) {
	t.Parallel()
	l := &listed{more: func(_ context.Context, _ string, yield func(provider.Target) error) error {
		for {
			if err := yield(provider.Target{LeaseID: "lse_0", Instance: "ffffffff"}); err != nil {
				return err
			}
		}
	}}
	x := sweeping(t, shape{change: func(p *broker.Provider) { l.Driver, p.Driver = p.Driver, l }})
	eventually(t, "given up", func() bool { return x.metric(t, "ebb_sweeps_total", "failed") > 0 })
}

// A very long list needs no more memory than a short one: no lookup is larger than a batch.
func TestSweepOfVeryMany(t *testing.T) {
	t.Parallel()
	const many, orphans = 100_000, 1300
	var largest, looked atomic.Int64
	l := &listed{}
	x := sweeping(t, shape{idle: true, change: func(p *broker.Provider) { l.Driver, p.Driver = quick{p.Driver}, l }})
	at := x.Clock.Now()
	ids := make([]string, orphans)
	for i := range ids {
		ids[i] = idOf(at.Add(-time.Hour))
	}
	young := idOf(at)
	l.more = func(_ context.Context, mine string, yield func(provider.Target) error) error {
		for i := range many {
			t := provider.Target{LeaseID: young, Instance: mine}
			switch {
			case i%7 == 0:
				t.Instance = "ffffffff"
			case i%11 == 0:
				t.LeaseID = "lse_nonsense"
			case i%13 == 0 && i/13 < orphans:
				t.LeaseID = ids[i/13]
			}
			if err := yield(t); err != nil {
				return err
			}
		}
		for _, id := range ids { // again, and now all
			if err := yield(provider.Target{LeaseID: id, Instance: mine}); err != nil {
				return err
			}
		}
		return nil
	}
	j := batches{hookStore{x.db, x.store}, &largest, &looked}
	x.janitor(t, x.replica(t, func(c *core.Config) { c.Store, c.Registerer = j, nil }))
	eventually(t, "all are taken back", func() bool {
		return len(entries(t, x.target, broker.EntryFilter{Kind: audit.OrphanRevoked})) == orphans
	})
	if largest.Load() > 500 || looked.Load() < orphans/500 {
		t.Errorf("%d look-ups of up to %d ids", looked.Load(), largest.Load())
	}
}

// quick revokes everything at once.
type quick struct{ provider.Driver }

func (quick) Revoke(context.Context, provider.Target) error { return nil }
func (quick) List(context.Context, string, func(provider.Target) error) error {
	return nil
}

type batches struct {
	hookStore
	largest, looked *atomic.Int64
}

func (b batches) Leases(ctx context.Context, f broker.LeaseFilter) ([]broker.Lease, error) {
	if n := int64(len(f.IDs)); n > 0 {
		b.looked.Add(1)
		for old := b.largest.Load(); n > old && !b.largest.CompareAndSwap(old, n); old = b.largest.Load() {
		}
	}
	return b.hookStore.Leases(ctx, f)
}
