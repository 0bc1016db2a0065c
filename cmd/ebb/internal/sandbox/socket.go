package sandbox

import (
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// OpenSocketDir opens the directory of a socket for Spec.Sockets. The path may
// come from a hostile process: the directory must belong to one of the owners,
// other users may at most traverse it (mode 0711 or stricter), and the socket
// must be its only entry. The open directory is the checked one, even if the
// path is replaced.
func OpenSocketDir(socket string, owners ...uint32) (*os.File, error) {
	dir, err := os.OpenFile(filepath.Dir(socket), os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := checkSocketDir(dir, filepath.Base(socket), owners); err != nil {
		_ = dir.Close()
		return nil, fmt.Errorf("%s: %w", socket, err)
	}
	return dir, nil
}

func checkSocketDir(dir *os.File, name string, owners []uint32) error {
	info, err := dir.Stat()
	if err != nil {
		return err
	}
	st, is := info.Sys().(*syscall.Stat_t)
	switch {
	case !is || !slices.Contains(owners, st.Uid):
		return fmt.Errorf("%w: its directory belongs to another user", ErrPlace)
	case info.Mode().Perm()&^0o711 != 0:
		return fmt.Errorf("%w: its directory has mode %04o; it must be 0711 or stricter", ErrPlace, info.Mode().Perm())
	}
	in, err := dir.ReadDir(-1)
	if err != nil {
		return err
	}
	if len(in) != 1 || in[0].Name() != name || in[0].Type() != fs.ModeSocket {
		return fmt.Errorf("%w: its directory must contain a socket of this name and nothing else", ErrPlace)
	}
	return nil
}

// Tunnel is the socket in the sandbox that accepts CONNECT (RFC 9110 section
// 9.3.6).
const Tunnel = Dir + "/out/out"

// maxDirect is the maximum number of names that a sandbox reaches without proxy
// settings.
const maxDirect = 200

// Direct is a host for programs that do not support a proxy. In the sandbox its
// name resolves to an address of loopback, and connections to that address go
// through the tunnel to the host.
type Direct struct {
	Address netip.Addr
	Name    string
	Port    uint16
}

// Directs gives each name an address of loopback, in the order of names. hosts
// have the form api.example.com:443.
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

// Listen is the address and port in the sandbox.
func (d Direct) Listen() string { return netip.AddrPortFrom(d.Address, d.Port).String() }

// Host is the host to which Listen leads.
func (d Direct) Host() string { return net.JoinHostPort(d.Name, strconv.Itoa(int(d.Port))) }
