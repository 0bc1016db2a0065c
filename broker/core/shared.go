package core

import (
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2/expirable"

	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/identity"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/internal/thirdparty"
)

// shared is the state that several areas use. Each value synchronizes itself, or is not written
// after New.
type shared struct {
	principals map[string]*broker.PrincipalConfig // by id
	people     map[string]bool                    // attestors that recognise principals
	codeKey    []byte                             // HMAC key of deferral codes
	instance   string                             // names this installation at providers
	began      time.Time                          // when this process began
	decoys     jose.KeySource                     // keys for client assertions of unknown clients
	upstreams  map[string]*thirdparty.Upstream    // third parties, by the provider's name

	live       *kernel.LiveState
	revoked    *kernel.RevokedSet
	cuts       *kernel.Disconnects
	silent     *kernel.AttestorOutages
	judged     *identity.Judged
	crowd      *kernel.Crowd
	background *kernel.Background
	rang       *thirdparty.Waiters // leases that reached a final state
	kept       *thirdparty.RetainedHandles
	m          *kernel.Metrics

	budgets *lru.LRU[string, kernel.Budget]
	noted   *lru.LRU[string, time.Time]    // last writes of NoteSeldom
	used    *lru.LRU[string, broker.Lease] // leases of recent uses
	roots   *lru.LRU[string, string]       // runner's task by task, for the rate of uses
}

// newShared returns the shared state for the configuration c, whose defaults are set.
func newShared(c *Config) (*shared, error) {
	s := &shared{
		principals: map[string]*broker.PrincipalConfig{},
		people:     map[string]bool{},
		codeKey:    c.Keys.Derive("deferral-code"),
		instance:   c.Instance,
		live:       &kernel.LiveState{},
		revoked:    &kernel.RevokedSet{},
		cuts:       &kernel.Disconnects{},
		silent:     &kernel.AttestorOutages{},
		judged:     identity.NewJudged(c.Attestors, c.Limits),
		crowd:      kernel.NewCrowd(),
		background: kernel.NewBackground(),
		rang:       &thirdparty.Waiters{},
		kept:       &thirdparty.RetainedHandles{},
		m:          kernel.NewMetrics(c.Registerer),
		budgets:    lru.NewLRU[string, kernel.Budget](16384, nil, time.Hour),
		noted:      lru.NewLRU[string, time.Time](8192, nil, time.Minute),
		used:       lru.NewLRU[string, broker.Lease](8192, nil, time.Minute),
		roots:      lru.NewLRU[string, string](8192, nil, time.Hour),
	}
	if s.instance == "" {
		s.instance = broker.InstanceOf(c.Issuer)
	}
	var err error
	if s.decoys, err = identity.NewDecoys(); err != nil {
		return nil, fmt.Errorf("making the decoy keys of client assertions: %w", err)
	}
	s.upstreams = thirdparty.NewUpstreams(c.Providers, s.m)
	for i := range c.Principals {
		p := &c.Principals[i]
		if _, twice := s.principals[p.ID]; twice {
			return nil, fmt.Errorf("principal %q is configured twice", p.ID)
		}
		s.principals[p.ID] = p
		if p.Match != nil {
			if p.Match.Attestor == broker.EnrollName { // it attests sandboxes only, which are never principals
				return nil, fmt.Errorf("principal %q is matched by the attestor enroll, which attests sandboxes only", p.ID)
			}
			s.people[p.Match.Attestor] = true
		}
	}
	return s, nil
}
