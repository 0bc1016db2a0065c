package broker

import (
	"slices"

	"ebb/broker/provider"
	"ebb/scopes"
	"ebb/scopes/policy"
)

// delivery is how what w wants gets to where it is used. Who asks for nothing in
// particular gets what cannot be bound to its key by egress, if that can be: it is then in
// no sandbox to be stolen. What is said here policy judges, and may still insist on egress.
func (b *Broker) delivery(w want, asked string) string {
	switch {
	case w.provider.Driver.Traits().InjectOnly:
		return policy.DeliveryEgress
	case asked != "":
		return asked
	case b.cfg.Egress && carries(w.provider, w.scopes):
		return policy.DeliveryEgress
	}
	return policy.DeliveryToken
}

// carries reports whether egress can add a provider's credential for these scopes to
// requests, or open sessions with it.
func carries(p Provider, s scopes.Set) bool {
	if i, is := p.Driver.(provider.Injector); is {
		return i.Injects(s)
	}
	_, connects := endpoint(p, s)
	return connects
}

// endpoint is where sessions with a provider's credential for these scopes lead.
func endpoint(p Provider, s scopes.Set) (at provider.Endpoint, is bool) {
	c, connects := p.Driver.(provider.Connector)
	if !connects {
		return provider.Endpoint{}, false
	}
	return c.Endpoint(s)
}

// couldStay reports whether w is to be handed out though egress could add it, or the
// credential for one of its scopes, to requests: who asks, or what it asks for beside
// that, keeps it from staying here.
func (b *Broker) couldStay(p Provider, s scopes.Set, delivery string) bool {
	return delivery == policy.DeliveryToken && b.cfg.Egress && slices.ContainsFunc(s.Scopes(), func(one scopes.Scope) bool {
		alone, err := scopes.NewSet(one)
		return err == nil && carries(p, alone)
	})
}

// deliverable refuses what cannot be delivered as it would have to be: nobody is asked to
// approve it, and nothing is minted.
func (b *Broker) deliverable(w want) error {
	switch inject := w.provider.Driver.Traits().InjectOnly; {
	case w.delivery == policy.DeliveryToken:
		return nil
	case !b.cfg.Egress && inject:
		return E(Denied, "What this provider has is never handed out: it needs the egress proxy, which adds it to requests, and this broker runs none. Ask its operator.", nil)
	case !b.cfg.Egress:
		return E(Denied, "This credential is delivered only through the egress proxy, and this broker runs none. Ask its operator.", nil)
	case !carries(w.provider, w.scopes):
		return E(Denied, "This credential is delivered only through the egress proxy, which does not know the requests or the database that these scopes are for. Ask for other scopes, or ask the operator.", nil)
	}
	return nil
}

// byEgress reports whether a lease is one that never leaves ebb but in a request that
// egress sends. Before that was on the record, it was so for what is only injected.
func (b *Broker) byEgress(l Lease) bool {
	p, known := b.cfg.Providers[l.Provider]
	return l.Delivery == policy.DeliveryEgress || l.Delivery == "" && known && p.Driver.Traits().InjectOnly
}

// deliver puts the placeholder in place of a credential that stays here.
func (t *Token) deliver(p Provider, l Lease) {
	if l.Delivery != policy.DeliveryEgress {
		return
	}
	t.Token, t.Type, t.Format = provider.Placeholder(l.ID), "N_A", provider.PlaceholderFormat
	if at, is := endpoint(p, l.Scopes); is {
		t.Endpoint = &at
	}
}

// Endpoint is where sessions with a lease's credential lead; false: it opens none.
func (b *Broker) Endpoint(l Lease) (at provider.Endpoint, is bool) {
	p, known := b.cfg.Providers[l.Provider]
	if !known {
		return provider.Endpoint{}, false
	}
	return endpoint(p, l.Scopes)
}
