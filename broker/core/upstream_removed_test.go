package core_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/brokertest"
	"github.com/ebb-broker/ebb/broker/core"
)

// A revocation at the only third party stays pending, and is reported, when that provider was
// removed from the configuration; a person can end it.
func TestPendingAtARemovedProvider(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{idle: true})
	s := x.Open(t, upSpec())
	id := minted(t, s, "up:a:read").LeaseID
	x.closed(t, s.Task.ID)
	other := x.replica(t, func(c *core.Config) {
		kept := map[string]broker.Provider{}
		for name, p := range c.Providers {
			if name != "up" {
				kept[name] = p
			}
		}
		c.Providers = kept
	})
	x.janitor(t, other)
	warning := func() (text string) {
		for _, d := range other.Ready(t.Context()) {
			if d.Name == "pending_revocations" {
				text = d.Warning
			}
		}
		return text
	}
	eventually(t, "said", func() bool { return strings.Contains(warning(), "no longer configured") })
	operator := x.who(brokertest.Operator)
	if l, err := other.RetryLease(t.Context(), operator, id); err != nil || l.State != broker.LeaseRevoking {
		t.Errorf("a retry: %s, %v", l.State, err)
	}
	if l, err := other.ForceLease(t.Context(), operator, id, "the cluster is gone"); err != nil || l.State != broker.LeaseUnconfirmed || l.Upstream.Proof != broker.ProofForced {
		t.Errorf("a person's word: %+v, %v", l, err)
	}
}

// A revocation that is no longer pending is no longer counted, also at a removed provider, so that
// no alert fires for it.
func TestPendingAtARemovedProviderIsCountedUntilSettled(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{idle: true})
	s := x.Open(t, upSpec())
	id := minted(t, s, "up:a:read").LeaseID
	x.closed(t, s.Task.ID)
	seen := prometheus.NewRegistry()
	other := x.replica(t, func(c *core.Config) {
		up := c.Providers["up"]
		up.Resource = "https://another.test/"
		c.Providers, c.Registerer = map[string]broker.Provider{"another": up}, seen
	})
	x.janitor(t, other)
	pending := func() (n float64) {
		all, err := seen.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			for _, m := range f.GetMetric() {
				if f.GetName() == "ebb_pending_revocations" && m.GetLabel()[0].GetValue() == "up" {
					n += m.GetGauge().GetValue()
				}
			}
		}
		return n
	}
	eventually(t, "counted", func() bool { return pending() == 1 })
	if _, err := other.ForceLease(t.Context(), x.who(brokertest.Operator), id, "the cluster is gone"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "not any more", func() bool { return pending() == 0 })
}
