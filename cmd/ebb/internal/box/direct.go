package box

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Tunnel is the socket of a box that takes CONNECT (RFC 9110 section 9.3.6).
const Tunnel = Dir + "/out/out"

// maxDirect is how many names a box reaches without a proxy.
const maxDirect = 200

// Direct is a host that a program reaches which knows of no proxy: in the box its name leads to
// an address of loopback, and connections there through the tunnel to the host.
type Direct struct {
	Address netip.Addr
	Name    string
	Port    uint16
}

// Directs gives each name an address of loopback, in the order of names. hosts are like
// api.example.com:443.
func Directs(hosts []string) ([]Direct, error) {
	all := make([]Direct, 0, len(hosts))
	for _, h := range slices.Compact(slices.Sorted(slices.Values(hosts))) {
		name, number, err := net.SplitHostPort(h)
		port, perr := strconv.ParseUint(number, 10, 16)
		if err != nil || perr != nil || port == 0 || name == "" {
			return nil, fmt.Errorf("%q is not HOST:PORT", h)
		}
		all = append(all, Direct{Name: name, Port: uint16(port)})
	}
	slices.SortStableFunc(all, func(a, b Direct) int { return strings.Compare(a.Name, b.Name) })
	n := 0
	for i := range all {
		if i == 0 || all[i].Name != all[i-1].Name {
			n++
		}
		if n > maxDirect {
			return nil, fmt.Errorf("there are more than %d names", maxDirect)
		}
		all[i].Address = netip.AddrFrom4([4]byte{127, 1, 0, byte(n)})
	}
	return all, nil
}

// Listen is the address and port in the box.
func (d Direct) Listen() string { return netip.AddrPortFrom(d.Address, d.Port).String() }

// Host is the host that Listen stands for.
func (d Direct) Host() string { return net.JoinHostPort(d.Name, strconv.Itoa(int(d.Port))) }
