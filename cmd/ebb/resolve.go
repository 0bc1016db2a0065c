package main

import (
	"context"
	"net"
	"net/netip"
	"strings"

	"github.com/ebb-broker/ebb/broker/egress"
)

// pinned resolves some names to addresses of the command line, and every other
// name with the resolver of this machine. Egress checks its answers like those
// of any resolver: an address in a private network must be configured for its
// name.
type pinned map[string]netip.Addr

// newPinned reads the values of --resolve; nil without any.
func newPinned(texts map[string]string) (egress.Resolver, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	p := pinned{}
	for host, text := range texts {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nil, usage("--resolve: "+err.Error(), "write HOST=ADDRESS, such as api.example.com=127.0.0.1")
		}
		p[host] = a
	}
	return p, nil
}

// LookupNetIP implements egress.Resolver.
func (p pinned) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if a, ok := p[strings.TrimSuffix(host, ".")]; ok {
		return []netip.Addr{a}, nil
	}
	return (&net.Resolver{PreferGo: true}).LookupNetIP(ctx, network, host)
}
