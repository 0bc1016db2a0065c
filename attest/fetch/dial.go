package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// ErrPrivate means that a name led to an address that is not of the public internet.
var ErrPrivate = errors.New("fetch: the name leads to a private or special address; allow it in the configuration if that is meant")

// special are the ranges beyond what net/netip knows (RFC 6890 and successors)
// that no public key server lives in.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),        // this network
	netip.MustParsePrefix("100.64.0.0/10"),    // carrier NAT, cloud metadata of some
	netip.MustParsePrefix("192.0.0.0/24"),     // protocol assignments
	netip.MustParsePrefix("192.0.2.0/24"),     // documentation
	netip.MustParsePrefix("168.63.129.16/32"), // Azure: the machine's own host
	netip.MustParsePrefix("192.88.99.0/24"),   // relays of 6to4
	netip.MustParsePrefix("198.18.0.0/15"),    // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"),  // documentation
	netip.MustParsePrefix("203.0.113.0/24"),   // documentation
	netip.MustParsePrefix("240.0.0.0/4"),      // reserved, broadcast
	netip.MustParsePrefix("2001::/23"),        // protocol assignments, Teredo
	netip.MustParsePrefix("2001:db8::/32"),    // documentation
	netip.MustParsePrefix("3fff::/20"),        // documentation
	netip.MustParsePrefix("2002::/16"),        // 6to4: an IPv4 address in disguise
}

// global is all of IPv6 that has been given out for public use (RFC 4291, section
// 2.4). Outside of it are all forms of NAT64 and of IPv4 addresses in disguise.
var global = netip.MustParsePrefix("2000::/3")

// Public reports whether an address is one of the public internet.
func Public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.Is6() && !global.Contains(a) {
		return false
	}
	for _, p := range special {
		if p.Contains(a) {
			return false
		}
	}
	return !isatap(a)
}

// isatap reports an address that ends with an IPv4 address in disguise, below any prefix
// (RFC 5214 section 6.1).
func isatap(a netip.Addr) bool {
	b := a.As16()
	return a.Is6() && b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// onlyPublic looks at the address that is really dialled, after DNS, so that no
// second answer can differ from the one that was checked.
func onlyPublic(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("fetch: dial: %w", err)
	}
	if !Public(ap.Addr()) {
		return ErrPrivate
	}
	return nil
}

// Dial connects to host:port, which is the operator's text, by the rule on addresses that
// every Place has: for protocols that are not HTTP. No proxy comes between.
func Dial(ctx context.Context, address string, c Config) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("fetch: dial: %w", err)
	}
	d := &net.Dialer{Timeout: c.Timeout}
	if !c.Private && !addressed(host) {
		d.Control = onlyPublic
	}
	return d.DialContext(ctx, "tcp", address)
}
