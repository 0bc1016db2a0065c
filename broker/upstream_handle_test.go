package broker_test

import (
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/brokertest"
)

// I3: another replica takes an intent for one whose minter has died, settles it, and
// what was stored to find the credential by is erased. The minter lives, and what its
// provider makes then is taken back by the handle that was saved on the way, at once
// or as soon as the provider does it.
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
				for end := time.Now().Add(15 * time.Second); !final() && time.Now().Before(end); {
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
			x.janitor(t, x.Broker)
			eventually(t, "dead at the provider", func() bool { return len(x.up.Alive()) == 0 })
			eventually(t, "no handle is in memory", func() bool { return x.Broker.KeptHandles() == 0 })
		})
	}
}

// I8: a handle is in memory only as long as no store has it and its end is owed,
// whoever settles that.
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
		t.Errorf("%d handles are in memory, of one that the journal did not take", n)
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
