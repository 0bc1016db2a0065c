package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"ebb/broker/exact"
)

// Resolver is the part of net.Resolver that is used.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Dialer connects to hosts by name, and only where a name may lead.
type Dialer struct {
	// Resolver is asked once for each connection; nil = the machine's, without its
	// search list.
	Resolver Resolver
	// Private says which hosts are in a network of one's own, and where: the one host
	// is dialled at addresses in these prefixes. This machine's own addresses have to
	// be named whole, as /32 or /128.
	Private map[string][]netip.Prefix
	// Own are places of ebb itself: never dialled, whatever Private says. An unspecified
	// address (0.0.0.0, ::) stands for every one of this machine.
	Own []netip.AddrPort
	// Interfaces lists the machine's addresses; nil = net.InterfaceAddrs.
	Interfaces func() ([]net.Addr, error)
	Timeout    time.Duration // for each address; 0 = 10 s
}

// Dial connects to h. All addresses that its name has are looked at before any is
// dialled, and the name is asked for once: an answer that leads out of bounds by one of
// them is a name that somebody else turns (DNS rebinding). Errors are Denials.
func (d *Dialer) Dial(ctx context.Context, h exact.Host) (net.Conn, error) {
	if cloudName(h.Name) {
		return nil, deny(Metadata, nil)
	}
	addrs, err := d.resolve(ctx, h)
	if err != nil {
		return nil, err
	}
	return d.dial(ctx, h, addrs)
}

// dialAt connects to h at one of the addresses that its name led to.
func (d *Dialer) dialAt(ctx context.Context, h exact.Host, a netip.Addr) (net.Conn, error) {
	return d.dial(ctx, h, []netip.Addr{a})
}

// dial connects to the first of the addresses that answers.
func (d *Dialer) dial(ctx context.Context, h exact.Host, addrs []netip.Addr) (net.Conn, error) {
	nd := net.Dialer{
		Timeout: cmp.Or(d.Timeout, 10*time.Second), KeepAlive: 30 * time.Second, FallbackDelay: -1,
		// What is dialled is looked at once more where nothing stands between the look and the call.
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

// resolve asks where a name leads, and refuses all of it when a part may not be dialled.
func (d *Dialer) resolve(ctx context.Context, h exact.Host) ([]netip.Addr, error) {
	var r Resolver = &net.Resolver{PreferGo: true}
	if d.Resolver != nil {
		r = d.Resolver
	}
	// The dot makes the name whole: no search list is tried.
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

// check is the one place that says which address may be dialled for a host.
func (d *Dialer) check(h exact.Host, a netip.Addr) error {
	a = a.Unmap()
	switch classOf(a) {
	case metadata:
		return deny(Metadata, nil)
	case special:
		return deny(Private, fmt.Errorf("%s is special", a))
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
		return deny(Private, fmt.Errorf("%s is private", a))
	}
	return nil
}

// own reports an address of this machine, loopback among them. When nobody can say,
// every address is.
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
