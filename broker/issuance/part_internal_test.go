package issuance

import (
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/internal/thirdparty"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/amount"
)

// A credential that a response creates may spend what the lease of the request may, and a lease for
// one request creates none.
//
//ebb:invariant I12 A credential from a response may spend no more than the lease that was used
func TestPartsKeepLimits(t *testing.T) {
	t.Parallel()
	clock := &kernel.Timekeeper{}
	clock.Open(time.Now, func() time.Duration { return 0 })
	tp := &ThirdParties{clock: clock, upstreams: map[string]*thirdparty.Upstream{"shop": {Traits: provider.Traits{Seals: true}}}}
	l := broker.Lease{Provider: "shop", MaxAmount: amount.Limits{amount.One("EUR")}, Scopes: scopes.MustParseSet("shop:a:b")}
	what := provider.Sealing{Members: []string{"token"}, Lifetime: 1, Scopes: l.Scopes}
	if _, d := tp.part(l, broker.Live{}, what); d.MaxAmount.String() != "EUR 1" {
		t.Errorf("a part may spend %q", d.MaxAmount)
	}
	l.Content = "x"
	if _, err := tp.Seal(t.Context(), broker.Caller{}, broker.Usable{Lease: l}, what); broker.AsError(err).Kind != broker.Denied {
		t.Errorf("a lease for one request: %v", err)
	}
}
