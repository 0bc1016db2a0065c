package policyadmin

import (
	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// PolicyAdmin is the area of policy drafts and releases.
type PolicyAdmin struct {
	*Drafts
}

func New() *PolicyAdmin {
	return &PolicyAdmin{
		Drafts: new(Drafts),
	}
}

// Config holds the dependencies of the area.
type Config struct {
	Attestors    map[string]attest.Attestor
	Store        broker.Store
	Limits       broker.Limits
	Policies     broker.PolicyStore
	Policy       *policy.Live
	PolicySource PolicySource
	Providers    map[string]broker.Provider

	Clock  *kernel.Timekeeper
	Issuer issuer
	Log    *kernel.Recorder
}

// Connect sets the dependencies of the area's parts. Call it once, before any other method.
func (a *PolicyAdmin) Connect(c Config) {
	*a.Drafts = Drafts{
		attestors:    c.Attestors,
		store:        c.Store,
		limits:       c.Limits,
		policies:     c.Policies,
		policy:       c.Policy,
		policySource: c.PolicySource,
		providers:    c.Providers,
		clock:        c.Clock,
		issuer:       c.Issuer,
		log:          c.Log,
	}
}

// issuer is the part of package issuance that this package calls; *issuance.TokenIssuer implements it.
type issuer interface {
	CouldStay(p broker.Provider, s scopes.Set, delivery string) bool
	Delivery(w kernel.MintRequest, asked string) string
}
