package egress_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// names is a resolver whose answers a test sets.
type names struct {
	answers map[string][][]string // by name, one for each query; the last for all later ones
	asked   atomic.Int32
	before  func(context.Context) // called before an answer; nil = answer at once
}

func (n *names) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	if n.before != nil {
		n.before(ctx)
	}
	all := n.answers[host]
	if len(all) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	i := min(int(n.asked.Add(1))-1, len(all)-1)
	var out []netip.Addr
	for _, a := range all[i] {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

func host(name string, port uint16) stricturl.Host { return stricturl.Host{Name: name, Port: port} }

func reason(err error) stricturl.Reason {
	if d := (*egress.Denial)(nil); errors.As(err, &d) {
		return d.Reason
	}
	if e := (*stricturl.Error)(nil); errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

func noInterfaces() ([]net.Addr, error) { return nil, nil }

// E2, E4, E5, E6, E7 and E8: an address outside the public internet is not dialled, neither alone
// nor together with public addresses.
//
//ebb:invariant I6 The egress proxy never dials ebb itself, and dials another address of this machine only if the configuration lists exactly that address
//ebb:invariant I6 The egress proxy refuses a host name if any of its resolved addresses must not be dialled
func TestAddressesThatAreNotDialled(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]stricturl.Reason{
		"169.254.169.254": egress.Metadata, "169.254.170.2": egress.Metadata, "169.254.170.23": egress.Metadata, "fd00:ec2::254": egress.Metadata, "fd00:ec2::23": egress.Metadata,
		"100.100.100.200": egress.Metadata, "192.0.0.192": egress.Metadata, "168.63.129.16": egress.Metadata, "169.254.169.253": egress.Metadata, "::ffff:169.254.169.254": egress.Metadata,
		"fe80::1": egress.Metadata, "fe80::1%eth0": egress.Private, "fd20:ce::254": egress.Metadata,
		"127.0.0.1": egress.Self, "127.8.8.8": egress.Self, "::1": egress.Self, "::ffff:127.0.0.1": egress.Self,
		"10.0.0.1": egress.Private, "172.16.0.1": egress.Private, "192.168.1.1": egress.Private, "100.64.0.1": egress.Private, "fc00::1": egress.Private, "fd12::1": egress.Private,
		"0.0.0.0": egress.Private, "::": egress.Private, "198.18.0.1": egress.Private, "240.0.0.1": egress.Private, "255.255.255.255": egress.Private, "224.0.0.1": egress.Private, "ff02::1": egress.Private, "192.0.2.1": egress.Private,
		"64:ff9b::a9fe:a9fe": egress.Private, "64:ff9b:1::7f00:1": egress.Private, "2002:7f00:1::": egress.Private, "2002:a9fe:a9fe::": egress.Private, "2606:4700::5efe:a9fe:a9fe": egress.Private, "2606:4700::200:5efe:7f00:1": egress.Private, "2001::1": egress.Private, "::a9fe:a9fe": egress.Private, "::7f00:1": egress.Private,
		"fe80::5efe:7f00:1": egress.Metadata,
	} {
		for _, answer := range [][]string{{address}, {"8.8.8.8", address}, {address, "2606:4700::1"}} {
			r := &names{answers: map[string][][]string{"api.example.com.": {answer}}}
			d := &egress.Dialer{Resolver: r, Interfaces: noInterfaces, Private: map[string][]netip.Prefix{"other.example.com": {netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}}
			if c, err := d.Dial(t.Context(), host("api.example.com", 443)); reason(err) != want {
				t.Errorf("%v: %v, %v; want %s", answer, c, err, want)
			}
		}
	}
}

// E5, E6, E7 and E28: a private host is dialled only in its configured prefixes. It is never
// dialled at a metadata service, and on this machine only if the full address is configured.
//
//ebb:invariant I6 The egress proxy never dials ebb itself, and dials another address of this machine only if the configuration lists exactly that address
func TestPrivateHosts(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	at := l.Addr().(*net.TCPAddr).AddrPort()
	all := []string{"0.0.0.0/0", "::/0"}
	for name, c := range map[string]struct {
		to      string
		allowed []string
		own     string           // the address on which ebb listens
		want    stricturl.Reason // "" = connected, or connection refused
	}{
		"whole address":      {"127.0.0.1", []string{"127.0.0.1/32"}, "", ""},
		"this machine":       {"127.0.0.1", []string{"127.0.0.0/8"}, "", egress.Self},
		"all":                {"127.0.0.1", all, "", egress.Self},
		"ebb itself":         {"127.0.0.1", []string{"127.0.0.1/32"}, "127.0.0.1", egress.Self},
		"ebb on 0.0.0.0":     {"127.0.0.1", []string{"127.0.0.1/32"}, "0.0.0.0", egress.Self},
		"ebb on ::":          {"127.0.0.1", []string{"127.0.0.1/32"}, "::", egress.Self},
		"ebb elsewhere":      {"127.0.0.1", []string{"127.0.0.1/32"}, "127.0.0.9", ""},
		"metadata":           {"169.254.169.254", append(all, "169.254.169.254/32"), "", egress.Metadata},
		"special":            {"240.0.0.1", append(all, "240.0.0.1/32"), "", egress.Private},
		"another network":    {"10.1.0.1", []string{"10.2.0.0/16"}, "", egress.Private},
		"an interface of us": {"10.9.9.9", []string{"10.0.0.0/8"}, "", egress.Self},
	} {
		d := &egress.Dialer{
			Resolver: &names{answers: map[string][][]string{"git.example.com.": {{c.to}}}}, Private: map[string][]netip.Prefix{},
			Interfaces: func() ([]net.Addr, error) { return []net.Addr{&net.IPNet{IP: net.ParseIP("10.9.9.9")}}, nil },
		}
		for _, p := range c.allowed {
			d.Private["git.example.com"] = append(d.Private["git.example.com"], netip.MustParsePrefix(p))
		}
		if c.own != "" {
			d.Own = []netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr(c.own), at.Port())}
		}
		conn, err := d.Dial(t.Context(), host("git.example.com", at.Port()))
		if reason(err) != c.want || c.want == "" && err != nil {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if conn != nil {
			_ = conn.Close()
		}
	}
	broken := &egress.Dialer{
		Resolver:   &names{answers: map[string][][]string{"git.example.com.": {{"10.9.9.8"}}}},
		Private:    map[string][]netip.Prefix{"git.example.com": {netip.MustParsePrefix("10.0.0.0/8")}},
		Interfaces: func() ([]net.Addr, error) { return nil, errors.New("out of descriptors") },
	}
	if _, err := broken.Dial(t.Context(), host("git.example.com", 443)); reason(err) != egress.Self {
		t.Errorf("without a list of own addresses: %v", err)
	}
}

// E8: a connection resolves its name once, so that a second answer with another address is never
// used.
func TestNamesThatTurn(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r := &names{answers: map[string][][]string{"git.example.com.": {{"127.0.0.1"}, {"127.0.0.2"}}}}
	d := &egress.Dialer{Resolver: r, Private: map[string][]netip.Prefix{"git.example.com": {netip.MustParsePrefix("127.0.0.1/32")}}}
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	c, err := d.Dial(t.Context(), host("git.example.com", port))
	if err != nil || r.asked.Load() != 1 {
		t.Fatalf("%v, asked %d times", err, r.asked.Load())
	}
	_ = c.Close()
	if _, err := d.Dial(t.Context(), host("git.example.com", port)); reason(err) != egress.Self {
		t.Errorf("after it turned: %v", err)
	}
}

// E5 and E9: names are absolute, so that no search list changes the host. Names of metadata
// services are not resolved.
func TestNamesAreWhole(t *testing.T) {
	t.Parallel()
	r := &names{answers: map[string][][]string{"api.example.com.corp.": {{"8.8.8.8"}}, "metadata.google.internal.": {{"8.8.8.8"}}, "x.metadata.google.internal.": {{"8.8.8.8"}}}}
	d := &egress.Dialer{Resolver: r, Interfaces: noInterfaces}
	for name, want := range map[string]stricturl.Reason{"api.example.com": egress.Unresolved, "metadata.google.internal": egress.Metadata, "x.metadata.google.internal": egress.Metadata} {
		if _, err := d.Dial(t.Context(), host(name, 443)); reason(err) != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if r.asked.Load() != 0 {
		t.Errorf("asked %d times", r.asked.Load())
	}
}

// A sandbox gets one reason code for an unreachable host, without the address.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	port := uint16(counterpart.FreePort(t))
	d := &egress.Dialer{Resolver: &names{answers: map[string][][]string{"git.example.com.": {{"127.0.0.1"}}}}, Private: map[string][]netip.Prefix{"git.example.com": {netip.MustParsePrefix("127.0.0.1/32")}}}
	_, err := d.Dial(t.Context(), host("git.example.com", port))
	if reason(err) != egress.Unreachable || strings.Contains(string(reason(err)), "127") {
		t.Errorf("connection refused: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Dial(ctx, host("git.example.com", port)); err == nil {
		t.Error("dialled for a caller that is gone")
	}
}

// E7: the addresses of this machine are read each time, so that a new address counts, even between
// the check and the connect call.
func TestAddressesThatAppear(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(t.Context()) // no packet leaves this machine
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		from int32 // the number of the check from which on the address exists
		want stricturl.Reason
	}{"never": {gone, 9, egress.Unreachable}, "since then": {gone, 0, egress.Self}, "between the two": {t.Context(), 1, egress.Self}} {
		var looks atomic.Int32
		d := &egress.Dialer{Resolver: &names{answers: map[string][][]string{"api.example.com.": {{"8.8.8.8"}}}}, Interfaces: func() ([]net.Addr, error) {
			if looks.Add(1) <= c.from {
				return nil, nil
			}
			return []net.Addr{&net.IPNet{IP: net.IPv4(8, 8, 8, 8), Mask: net.CIDRMask(24, 32)}}, nil
		}}
		if conn, err := d.Dial(c.ctx, host("api.example.com", 443)); reason(err) != c.want {
			t.Errorf("%s: %v, %v", name, conn, err)
		}
	}
}
