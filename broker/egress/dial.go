package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// Resolver is the part of net.Resolver that Dialer uses.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Dialer connects to hosts by name, and only to addresses that are permitted for the name.
type Dialer struct {
	// Resolver is asked once for each connection; nil = the resolver of this machine, without its
	// search list.
	Resolver Resolver
	// Private lists the hosts in private networks and the prefixes in which each may be dialled.
	// Addresses of this machine must be listed in full, as /32 or /128.
	Private map[string][]netip.Prefix
	// Own are addresses of ebb itself. They are never dialled, even if Private lists them. An
	// unspecified address (0.0.0.0, ::) stands for every address of this machine.
	Own []netip.AddrPort
	// Interfaces lists the machine's addresses; nil = net.InterfaceAddrs.
	Interfaces func() ([]net.Addr, error)
	Timeout    time.Duration // for each address; 0 = 10 s
}

// Dial connects to h. The name is resolved once, and all its addresses are checked before any is
// dialled. One forbidden address refuses the whole name, because a third party may control it (DNS
// rebinding). Errors are Denials.
func (d *Dialer) Dial(ctx context.Context, h stricturl.Host) (net.Conn, error) {
	if cloudName(h.Name) {
		return nil, deny(Metadata, nil)
	}
	addrs, err := d.resolve(ctx, h)
	if err != nil {
		return nil, err
	}
	return d.dial(ctx, h, addrs)
}

// dialAt connects to h at a, an address that an earlier resolution returned.
func (d *Dialer) dialAt(ctx context.Context, h stricturl.Host, a netip.Addr) (net.Conn, error) {
	return d.dial(ctx, h, []netip.Addr{a})
}

// dial connects to the first of addrs that accepts a connection.
func (d *Dialer) dial(ctx context.Context, h stricturl.Host, addrs []netip.Addr) (net.Conn, error) {
	nd := net.Dialer{
		Timeout: cmp.Or(d.Timeout, 10*time.Second), KeepAlive: 30 * time.Second, FallbackDelay: -1,
		// The address is checked once more, directly before the connect call.
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			ap, err := netip.ParseAddrPort(address)
			if err != nil {
				return deny(Unreachable, err)
			}
			return d.check(h, ap.Addr())
		},
	}
	var errs []error
	for _, a := range addrs {
		c, err := nd.DialContext(ctx, "tcp", netip.AddrPortFrom(a, h.Port).String())
		if err == nil {
			return c, nil
		}
		if dn := (*Denial)(nil); errors.As(err, &dn) {
			return nil, dn
		}
		if errs = append(errs, err); ctx.Err() != nil {
			break
		}
	}
	return nil, deny(Unreachable, errors.Join(errs...))
}

// resolve returns the addresses of a name. If one of them may not be dialled, the whole name is
// refused.
func (d *Dialer) resolve(ctx context.Context, h stricturl.Host) ([]netip.Addr, error) {
	var r Resolver = &net.Resolver{PreferGo: true}
	if d.Resolver != nil {
		r = d.Resolver
	}
	// The final dot makes the name absolute: no search list is used.
	found, err := r.LookupNetIP(ctx, "ip", h.Name+".")
	if err != nil || len(found) == 0 {
		return nil, deny(Unresolved, err)
	}
	for i, a := range found {
		found[i] = a.Unmap()
		if err := d.check(h, found[i]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// check returns why address a may not be dialled for host h. All decisions about addresses are made
// here.
func (d *Dialer) check(h stricturl.Host, a netip.Addr) error {
	a = a.Unmap()
	switch classOf(a) {
	case metadata:
		return deny(Metadata, nil)
	case special:
		return deny(Private, fmt.Errorf("%s is a special-purpose address", a))
	}
	own, err := d.own(a)
	if err != nil {
		return deny(Self, err)
	}
	if slices.ContainsFunc(d.Own, func(o netip.AddrPort) bool {
		return o.Port() == h.Port && (o.Addr() == a || own && o.Addr().IsUnspecified())
	}) {
		return deny(Self, nil)
	}
	allowed := d.Private[h.Name]
	if own && !slices.Contains(allowed, netip.PrefixFrom(a, a.BitLen())) {
		return deny(Self, nil)
	}
	if classOf(a) == private && !slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return deny(Private, fmt.Errorf("%s is a private address", a))
	}
	return nil
}

// own reports whether a is an address of this machine, including loopback. If the interfaces cannot
// be listed, every address counts as one.
func (d *Dialer) own(a netip.Addr) (bool, error) {
	if a.IsLoopback() {
		return true, nil
	}
	list := d.Interfaces
	if list == nil {
		list = net.InterfaceAddrs
	}
	all, err := list()
	if err != nil {
		return true, err
	}
	return slices.ContainsFunc(all, func(n net.Addr) bool {
		ip, is := n.(*net.IPNet)
		if !is {
			return true
		}
		mine, ok := netip.AddrFromSlice(ip.IP)
		return !ok || mine.Unmap() == a
	}), nil
}

// class is the kind of network that an address belongs to.
type class int

// Address classes. An address that is not known to be public is not dialled.
const (
	special  class = iota // not the address of a host: never dialled
	metadata              // a metadata service of a cloud, which issues credentials: never dialled
	private               // in a private network: dialled only for hosts that are configured for it
	public
)

// clouds are the addresses of metadata services. They include all link-local addresses, because no
// other HTTP service uses those.
var clouds = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"), // AWS, Azure, Google, Oracle, Tencent, Scaleway
	netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("fd00:ec2::/32"),       // AWS by IPv6
	netip.MustParsePrefix("fd20:ce::/32"),        // Google by IPv6
	netip.MustParsePrefix("100.100.100.200/32"),  // Alibaba
	netip.MustParsePrefix("192.0.0.192/32"),      // Oracle, formerly
	netip.MustParsePrefix("168.63.129.16/32"),    // Azure: the machine's own host
	netip.MustParsePrefix("fd00:42::42/128"),     // Scaleway by IPv6
	netip.MustParsePrefix("fd00:a9fe:a9fe::/48"), // embeds 169.254.169.254, on some clouds
}

var privates = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("fc00::/7"),
}

// classOf classifies an address as it is dialled. IPv4 in IPv6 is IPv4. Every other form that
// embeds an IPv4 address (NAT64, 6to4, Teredo, ISATAP) is special, whichever address it embeds.
func classOf(a netip.Addr) class {
	in := func(all []netip.Prefix) bool {
		return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	zone := a.Zone() != ""
	a = a.Unmap().WithZone("")
	switch {
	case !a.IsValid() || zone:
		return special
	case in(clouds):
		return metadata
	case in(privates):
		return private
	case fetch.Public(a):
		return public
	}
	return special
}

// cloudNames are the names of metadata services. They are refused before they are resolved.
var cloudNames = []string{"metadata.google.internal", "metadata.goog", "instance-data.ec2.internal", "metadata.azure.internal", "metadata.tencentyun.com", "metadata.oraclecloud.com"}

func cloudName(name string) bool {
	return slices.ContainsFunc(cloudNames, func(c string) bool { return name == c || strings.HasSuffix(name, "."+c) })
}
