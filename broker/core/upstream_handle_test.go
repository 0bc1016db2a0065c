package core_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// I3: another replica takes an intent for one whose minter has died, settles it, and erases the
// stored handle. The minter is alive, and the credential that its provider then makes is revoked by
// the handle that was saved during the mint, at once or as soon as the provider permits it.
func TestUpstreamMintOutlivesItsIntent(t *testing.T) {
	t.Parallel()
	for name, revoke := range map[string]brokertest.Fault{"at once": "", "later": brokertest.Error500} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := thirdParty(t, shape{party: brokertest.Party{ByHandle: true, Timeout: 30 * time.Second}, idle: true})
			x.janitor(t, x.replica(t))
			s := x.Open(t, upSpec())
			final := func() bool {
				ls, err := x.db.Leases(t.Context(), broker.LeaseFilter{TaskID: s.Task.ID, Now: x.Clock.Now()})
				return err == nil && len(ls) == 1 && ls[0].State == broker.LeaseRevoked
			}
			x.up.Before(func(op, _ string) {
				if op != brokertest.OpMint {
					return
				}
				x.Clock.Add(time.Minute)
				for end := time.Now().Add(25 * time.Second); !final() && time.Now().Before(end); {
					time.Sleep(10 * time.Millisecond)
				}
				if !final() {
					t.Error("the intent is not settled")
				}
				x.up.OnCall(brokertest.OpRevoke, func(n int) brokertest.Fault {
					if n == 0 {
						return revoke
					}
					return ""
				})
			})
			x.up.On(brokertest.OpMint, brokertest.DoneError)
			_, err := s.Ask(t, "up:a:read")
			kindOf(t, err, broker.Unavailable)
			if x.up.Minted() != 1 {
				t.Fatalf("%d minted", x.up.Minted())
			}
			id := x.leases(t, s.Task.ID)[0].ID
			told := func(kind string) int {
				return len(entries(t, x.target, broker.EntryFilter{LeaseID: id, Kind: kind}))
			}
			if told(audit.LeaseUndelivered) != 1 {
				t.Error("the undelivered credential is not in the audit log")
			}
			if late := x.backlogState(t); (late.Warning == "") != (revoke == "") {
				t.Errorf("readiness: %+v", late)
			}
			x.janitor(t, x.Broker)
			eventually(t, "dead at the provider", func() bool { return len(x.up.Alive()) == 0 })
			eventually(t, "on the record as an orphan", func() bool { return told(audit.OrphanRevoked) == 1 && x.metric(t, "ebb_orphans_total") == 1 })
			eventually(t, "nothing is pending", func() bool { return x.backlogState(t).Warning == "" && x.metric(t, "ebb_pending_revocations") == 0 })
			eventually(t, "no handle is in memory", func() bool { return x.Broker.KeptHandles() == 0 })
		})
	}
}

func (x *third) backlogState(t *testing.T) broker.Dependency {
	t.Helper()
	for _, d := range x.Broker.Ready(t.Context()) {
		if d.Name == "pending_revocations" {
			return d
		}
	}
	t.Fatal("readiness does not report the pending revocation")
	return broker.Dependency{}
}

// I8: a handle is in memory only while no store has it and its revocation is pending, whichever
// replica settles it.
func TestUpstreamHandlesAreForgotten(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{party: brokertest.Party{ByHandle: true}, idle: true})
	s := x.Open(t, upSpec())
	x.up.On(brokertest.OpMint, brokertest.DoneError)
	_, err := s.Ask(t, "up:a:read")
	kindOf(t, err, broker.Unavailable)
	if n := x.Broker.KeptHandles(); n != 0 {
		t.Errorf("%d handles are in memory, and stored", n)
	}
	x.store.on(audit.LeaseUndelivered, func() error { return errNoDatabase })
	x.up.On(brokertest.OpRevoke, brokertest.Error500)
	_, err = s.Ask(t, "up:a:read")
	kindOf(t, err, broker.Unavailable)
	if n := x.Broker.KeptHandles(); n != 1 {
		t.Errorf("%d handles are in memory, of one that the database did not take", n)
	}
	x.store.on(audit.LeaseUndelivered, nil)
	x.up.On(brokertest.OpRevoke, "")
	x.janitor(t, x.replica(t))
	x.turn(t, time.Minute, "settled by another replica", func() bool {
		for _, l := range x.leases(t, s.Task.ID) {
			if l.State != broker.LeaseRevoked {
				return false
			}
		}
		return len(x.up.Alive()) == 0
	})
	x.janitor(t, x.Broker)
	eventually(t, "no handle is in memory", func() bool { return x.Broker.KeptHandles() == 0 })
}

// lostName is a driver that identifies a credential only by the response of the mint: the handle
// that it saves during the mint only says that it asked.
type lostName struct {
	provider.Driver
	wrong atomic.Int32 // revocations that did not name it
}

func (d *lostName) Mint(ctx context.Context, g provider.Grant) (provider.Credential, error) {
	if err := g.Save(ctx, secret.New("asked")); err != nil {
		return provider.Credential{}, err
	}
	c, err := d.Driver.Mint(ctx, g)
	c.Handle = secret.New("canary-known")
	return c, err
}

func (d *lostName) Revoke(ctx context.Context, t provider.Target) error {
	if t.Handle.Reveal() != "canary-known" {
		d.wrong.Add(1)
		return provider.ErrLost
	}
	return d.Driver.Revoke(ctx, t)
}

// I3: of two handles, one stored during the mint and a later one that no store has accepted, the
// later one identifies the credential. It is stored as soon as possible, so that another replica
// can continue with it.
func TestUpstreamLaterHandleWins(t *testing.T) {
	t.Parallel()
	for _, elsewhere := range []bool{false, true} {
		t.Run(fmt.Sprintf("elsewhere %v", elsewhere), func(t *testing.T) {
			t.Parallel()
			d := &lostName{}
			x := thirdParty(t, shape{party: brokertest.Party{Traits: provider.Traits{Floor: 12 * time.Hour}}, idle: true,
				change: func(p *broker.Provider) { d.Driver, p.Driver = p.Driver, d }})
			s := x.Open(t, upSpec())
			refuse := func() error { return errNoDatabase }
			x.store.on(audit.LeaseIssued, refuse)
			x.store.on(audit.LeaseUndelivered, refuse)
			x.up.On(brokertest.OpRevoke, brokertest.Error500)
			_, err := s.Ask(t, "up:a:read")
			kindOf(t, err, broker.Unavailable)
			if len(x.up.Alive()) != 1 || x.Broker.KeptHandles() != 1 {
				t.Fatalf("alive %v, %d handles in memory", x.up.Alive(), x.Broker.KeptHandles())
			}
			x.store.on(audit.LeaseIssued, nil)
			x.store.on(audit.LeaseUndelivered, nil)
			if elsewhere { // the first attempt fails, and stores the handle of this process
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { _ = x.Broker.Run(ctx) })
				x.turn(t, 10*time.Second, "no handle is in memory", func() bool { return x.Broker.KeptHandles() == 0 })
				stop()
				running.Wait()
				x.up.On(brokertest.OpRevoke, "")
				x.janitor(t, x.replica(t))
			} else {
				x.up.On(brokertest.OpRevoke, "")
				x.janitor(t, x.Broker)
			}
			x.turn(t, 30*time.Second, "dead at the provider", func() bool { return len(x.up.Alive()) == 0 })
			x.turn(t, 30*time.Second, "settled", func() bool { return x.leases(t, s.Task.ID)[0].State == broker.LeaseRevoked })
			if n := d.wrong.Load(); n != 0 {
				t.Errorf("%d revocations with a handle that names nothing", n)
			}
		})
	}
}

// I3: a provider whose clock is behind names an expiry in the past. A credential that was not
// delivered counts as alive for as long as a delivered one.
func TestUpstreamFallOfAClockThatIsBehind(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{party: brokertest.Party{Shape: func(c *provider.Credential) {
		c.DiesAt, c.ExpiresAt = c.DiesAt.Add(-2*time.Hour), c.ExpiresAt.Add(-2*time.Hour)
	}}})
	x.up.On(brokertest.OpRevoke, brokertest.Error500)
	s := x.Open(t, upSpec())
	_, err := s.Ask(t, "up:a:read")
	kindOf(t, err, broker.Unavailable)
	lease := func() broker.Lease { return x.leases(t, s.Task.ID)[0] }
	eventually(t, "asked", func() bool { return x.up.Calls(brokertest.OpRevoke) > 0 && lease().Upstream.Attempts > 0 })
	if l := lease(); l.State != broker.LeaseRevoking || l.Upstream.Proof != "" {
		t.Fatalf("after one failure it is %s, proof %q, dies at %s; the provider accepts %v", l.State, l.Upstream.Proof, l.Upstream.DiesAt, x.up.Alive())
	}
	x.up.On(brokertest.OpRevoke, "")
	x.turn(t, 10*time.Second, "revoked", func() bool { return lease().State == broker.LeaseRevoked && len(x.up.Alive()) == 0 })
}
