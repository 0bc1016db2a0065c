package broker_test

import (
	"strings"
	"testing"
	"time"

	"ebb/broker"
	"ebb/broker/audit"
	"ebb/broker/brokertest"
	"ebb/broker/provider"
)

// I3: a credential that its provider accepts beyond the expiry it named is not dead,
// whatever the clock says: it stays owed, visibly, and nothing but a probe that is
// refused ends that.
func TestLaneBelievesProbesNotClocks(t *testing.T) {
	t.Parallel()
	for name, class := range map[string]provider.Revocability{
		"instant":  {Class: provider.ClassInstant},
		"eventual": {Class: provider.ClassEventual, Bound: 10 * time.Second},
		"ttl-only": {Class: provider.ClassTTLOnly},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := thirdParty(t, shape{party: brokertest.Party{Probes: true, Traits: provider.Traits{Revocability: class}, Shape: func(c *provider.Credential) { c.DiesAt = c.ExpiresAt }}, config: brokertest.Config{Policies: anything}})
			x.up.Deaf, x.up.Life = true, 1000*time.Hour
			s := x.Open(t, upSpec())
			tok := minted(t, s, "up:a:read")
			x.closed(t, s.Task.ID)
			lease := func() broker.Lease { return x.lease(t, tok.LeaseID) }
			told := func() bool { return strings.Contains(lease().Upstream.LastError, "after its own expiry") }
			x.turn(t, 5*time.Minute, "told, or given up", func() bool { return told() || lease().State != broker.LeaseRevoking })
			still := func(when string) {
				t.Helper()
				l := lease()
				r, _, err := x.Broker.Receipt(t.Context(), x.who(brokertest.Auditor), s.Task.ID)
				if l.State != broker.LeaseRevoking || l.Upstream.Proof != "" || !l.Upstream.DeadAt.IsZero() || err != nil || r.Complete {
					t.Fatalf("%s it is %s, proof %q, dead at %s, receipt complete %v (%v); the provider accepts it: %v",
						when, l.State, l.Upstream.Proof, l.Upstream.DeadAt, r.Complete, err, x.up.Accepts(tok.Token.Reveal()))
				}
			}
			still("seen alive")
			l := lease()
			if wait := l.Upstream.NextAt.Sub(x.Clock.Now()); wait <= 0 || wait > 5*time.Minute {
				t.Errorf("looked at again in %s", wait)
			}
			stuck := entries(t, x.target, broker.EntryFilter{LeaseID: l.ID, Kind: audit.LeaseStuck})
			if n := len(stuck); n == 0 || !strings.Contains(string(stuck[n-1].Data), "after its own expiry") {
				t.Errorf("on the record: %+v", stuck)
			}

			// What was seen is not forgotten when nobody can tell any more.
			for _, fault := range []brokertest.Fault{brokertest.Error500, brokertest.Unsure} {
				x.up.On(brokertest.OpProbe, fault)
				before := lease().Upstream.Attempts
				x.turn(t, 5*time.Minute, "two more attempts", func() bool { return lease().Upstream.Attempts >= before+2 || lease().State != broker.LeaseRevoking })
				still(string(fault))
			}
			x.up.On(brokertest.OpRevoke, brokertest.Error500)
			before := lease().Upstream.Attempts
			x.turn(t, 5*time.Minute, "two more attempts", func() bool { return lease().Upstream.Attempts >= before+2 || lease().State != broker.LeaseRevoking })
			still("when nothing works")

			x.up.On(brokertest.OpRevoke, "")
			x.up.On(brokertest.OpProbe, "")
			x.Clock.Add(1001 * time.Hour) // now it is over at the provider as well
			x.turn(t, 5*time.Minute, "settled", func() bool { return lease().State != broker.LeaseRevoking })
			if l := lease(); l.Upstream.Proof != broker.ProofProbed || len(x.up.Alive()) != 0 {
				t.Errorf("lease %+v", l.Upstream)
			}
		})
	}
}
