package stricturl

import (
	"net/netip"
	"strconv"
	"strings"
)

// Host is the destination of a request.
type Host struct {
	Name string // lower-case LDH labels, at least two, no dot at the end
	Port uint16 // never 0
}

// String returns host:port in its one spelling.
func (h Host) String() string { return h.Name + ":" + strconv.Itoa(int(h.Port)) }

// MarshalText implements encoding.TextMarshaler.
func (h Host) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. The port is required.
func (h *Host) UnmarshalText(text []byte) (err error) {
	*h, err = ParseHost(string(text), 0)
	return err
}

// ParseHost parses "name:port", or "name" if assumed, the default port of the scheme, is not 0 (RFC
// 9110 sections 4.2 and 9.3.6). Letters may have either case. Everything else has one spelling: names
// in other scripts are in xn-- form (RFC 5891), there is no trailing dot, and ports have no leading
// zero. ParseHost refuses addresses in every notation that some resolver accepts. A browser takes
// each host that ends in a number for an address (WHATWG URL section 3.5), and getaddrinfo accepts
// octal, hexadecimal and short forms.
func ParseHost(s string, assumed uint16) (Host, error) {
	name, port, explicit := strings.Cut(s, ":")
	if strings.HasPrefix(s, "[") {
		return Host{}, refuse(literalOr(s), "its host is in brackets")
	}
	h := Host{Name: lower(name), Port: assumed}
	if err := CheckName(h.Name); err != nil {
		return Host{}, err
	}
	if !explicit && assumed != 0 {
		return h, nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || port[0] == '0' || port[0] == '+' {
		return Host{}, refuse(BadPort, "its port is not a number from 1 to 65535")
	}
	h.Port = uint16(n)
	return h, nil
}

// CheckName returns an error unless name is a public DNS name in its one spelling (RFC 1123 section
// 2.1). It refuses single labels, because the resolver's search list completes them.
func CheckName(name string) error {
	labels := strings.Split(name, ".")
	switch {
	case len(name) > 253 || name == "":
		return refuse(BadHost, "its host is empty or too long")
	case len(labels) < 2:
		return refuse(BadHost, "its host is a single label")
	}
	for _, l := range labels {
		if !ldh(l) {
			return refuse(BadHost, "its host is not made of letters, digits and hyphens")
		}
	}
	if last := labels[len(labels)-1]; number(last) {
		if _, err := netip.ParseAddr(name); err == nil {
			return refuse(IPLiteral, "its host is an address")
		}
		return refuse(BadHost, "its host ends in a number")
	}
	return nil
}

// ldh reports whether l is a label: 1 to 63 lower-case letters, digits and inner hyphens.
func ldh(l string) bool {
	if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
		return false
	}
	for i := range len(l) {
		if c := l[i]; c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// number reports whether some resolver reads the label as a number: decimal, octal, or 0x with any
// number of hexadecimal digits, also none.
func number(l string) bool {
	if rest, hex := strings.CutPrefix(l, "0x"); hex {
		return strings.Trim(rest, "0123456789abcdef") == ""
	}
	return strings.Trim(l, "0123456789") == ""
}

// literalOr returns IPLiteral for an address in brackets, and otherwise BadHost.
func literalOr(s string) Reason {
	inner, _, closed := strings.Cut(s[1:], "]")
	if _, err := netip.ParseAddr(inner); err == nil && closed {
		return IPLiteral
	}
	return BadHost
}

// lower converts ASCII letters only: Unicode case folding turns the Kelvin sign into a k.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
