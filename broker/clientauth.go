package broker

import (
	"cmp"
	"slices"

	"ebb/attest"
)

// ClientMethods are the methods of OAuth client authentication that the attestors
// of sandboxes add to private_key_jwt, by name.
func (b *Broker) ClientMethods() []attest.ClientMethod {
	var out []attest.ClientMethod
	for name := range b.cfg.Attestors {
		out = append(out, b.clientMethods(name)...)
	}
	slices.SortFunc(out, func(x, y attest.ClientMethod) int { return cmp.Compare(x.Name, y.Name) })
	return slices.Compact(out)
}

func (b *Broker) clientMethods(attestor string) []attest.ClientMethod {
	a, takes := b.cfg.Attestors[attestor].(attest.ClientAuth)
	if !takes || b.people[attestor] {
		return nil
	}
	return a.ClientMethods()
}

// takesMethod refuses evidence that came by a method which is not the attestor's:
// what a client says that its document is, it must be.
func (b *Broker) takesMethod(ev attest.Evidence) error {
	if ev.Method == "" || slices.ContainsFunc(b.clientMethods(ev.Attestor), func(m attest.ClientMethod) bool { return m.Name == ev.Method }) {
		return nil
	}
	return attest.Reject(attest.ReasonType, "the attestor of the task does not take this kind of client authentication", nil)
}
