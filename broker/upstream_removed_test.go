package broker_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"ebb/broker"
	"ebb/broker/brokertest"
)

// What is owed to the only third party is still owed, and said, when that was taken
// out of the configuration; a person's word ends it.
func TestOwedToAProviderThatIsGone(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{idle: true})
	s := x.Open(t, upSpec())
	id := minted(t, s, "up:a:read").LeaseID
	x.closed(t, s.Task.ID)
	other := x.replica(t, func(c *broker.Config) {
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
			if d.Name == "owed_revocations" {
				text = d.Warning
			}
		}
		return text
	}
	eventually(t, "said", func() bool { return strings.Contains(warning(), "not configured any more") })
	operator := x.who(brokertest.Operator)
	if l, err := other.RetryLease(t.Context(), operator, id); err != nil || l.State != broker.LeaseRevoking {
		t.Errorf("a retry: %s, %v", l.State, err)
	}
	if l, err := other.ForceLease(t.Context(), operator, id, "the cluster is gone"); err != nil || l.State != broker.LeaseUnconfirmed || l.Upstream.Proof != broker.ProofForced {
		t.Errorf("a person's word: %+v, %v", l, err)
	}
}

// What is not owed any more is not counted any more, also at a provider that is gone:
// nobody is woken for it.
func TestOwedToAProviderThatIsGoneIsCountedUntilItIsNot(t *testing.T) {
	t.Parallel()
	x := thirdParty(t, shape{idle: true})
	s := x.Open(t, upSpec())
	id := minted(t, s, "up:a:read").LeaseID
	x.closed(t, s.Task.ID)
	seen := prometheus.NewRegistry()
	other := x.replica(t, func(c *broker.Config) {
		up := c.Providers["up"]
		up.Resource = "https://another.test/"
		c.Providers, c.Registerer = map[string]broker.Provider{"another": up}, seen
	})
	x.janitor(t, other)
	owed := func() (n float64) {
		all, err := seen.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			for _, m := range f.GetMetric() {
				if f.GetName() == "ebb_owed_revocations" && m.GetLabel()[0].GetValue() == "up" {
					n += m.GetGauge().GetValue()
				}
			}
		}
		return n
	}
	eventually(t, "counted", func() bool { return owed() == 1 })
	if _, err := other.ForceLease(t.Context(), x.who(brokertest.Operator), id, "the cluster is gone"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "not any more", func() bool { return owed() == 0 })
}
