package scopes

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

const (
	wantURIBytes    = "a resource URI is at most 512 bytes"
	wantURIChar     = "only the ASCII characters of RFC 3986, with '%' before two hex digits"
	wantScheme      = "the scheme is https, or http for a loopback host, in lower case and followed by '//'"
	wantFragment    = "a resource URI has no fragment (RFC 8707 section 2)"
	wantUserinfo    = "a resource URI has no user information"
	wantHost        = "a lower-case DNS name, a dotted-decimal IPv4 address or an IPv6 address in its canonical form"
	wantPort        = "a port is 1 to 65535 without leading zeros"
	wantLoopback    = "http is only for localhost, 127.0.0.0/8 and [::1]; use https"
	wantUnspecified = "the unspecified address is not the address of a host"
)

// ParseResource checks an RFC 8707 section 2 resource indicator and returns it byte for byte. It is
// compared as text, so spellings that URL libraries would normalize (upper-case hosts, decimal or
// IPv6-mapped addresses) are refused. It must be an absolute https URI with a host, or http on
// loopback, without fragment and user information, and at most 512 bytes long. The error is a
// *[ParseError].
func ParseResource(text string) (string, error) {
	if len(text) > MaxBytes {
		return "", refuse("resource URI", text, MaxBytes, wantURIBytes)
	}
	if at, want := badURIByte(text); at >= 0 {
		return "", refuse("resource URI", text, at, want)
	}
	rest, secure := strings.CutPrefix(text, "https://")
	if !secure {
		var plain bool
		if rest, plain = strings.CutPrefix(text, "http://"); !plain {
			return "", refuse("resource URI", text, 0, wantScheme)
		}
	}
	start := len(text) - len(rest)
	authority := rest
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		authority = rest[:end]
	}
	if at := strings.IndexByte(authority, '@'); at >= 0 {
		return "", refuse("resource URI", text, start, wantUserinfo)
	}
	loopback, want := judgeAuthority(authority)
	switch {
	case want != "":
		return "", refuse("resource URI", text, start, want)
	case !secure && !loopback:
		return "", refuse("resource URI", text, start, wantLoopback)
	}
	// A second check: connections to it use net/url, which must read the same host.
	if u, err := url.Parse(text); err != nil || u.Host != authority || u.User != nil || u.Opaque != "" {
		return "", refuse("resource URI", text, start, wantHost)
	}
	return text, nil
}

func badURIByte(text string) (at int, want string) {
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case uriBytes[c]:
		case c == '#':
			return i, wantFragment
		case c == '%' && i+2 < len(text) && hexBytes[text[i+1]] && hexBytes[text[i+2]]:
		default:
			return i, wantURIChar
		}
	}
	return -1, ""
}

// judgeAuthority checks host and port; want describes the allowed form if they are invalid.
func judgeAuthority(authority string) (loopback bool, want string) {
	host, port := authority, ""
	if end := strings.LastIndexByte(authority, ']'); end >= 0 {
		host, port = authority[:end+1], authority[end+1:]
	} else if colon := strings.IndexByte(authority, ':'); colon >= 0 {
		host, port = authority[:colon], authority[colon:]
	}
	if port != "" {
		n, err := strconv.ParseUint(port[1:], 10, 16)
		if port[0] != ':' || err != nil || n == 0 || strconv.FormatUint(n, 10) != port[1:] {
			return false, wantPort
		}
	}
	if host == "localhost" {
		return true, ""
	}
	literal := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	addr, err := netip.ParseAddr(literal)
	if err != nil {
		if isDNSName(host) {
			return false, ""
		}
		return false, wantHost
	}
	bracketed := "[" + literal + "]"
	switch {
	case addr.Is4() && host != literal, addr.Is6() && host != bracketed:
		return false, wantHost
	case addr.String() != literal, addr.Is4In6(), addr.Zone() != "":
		return false, wantHost
	case addr.IsUnspecified():
		return false, wantUnspecified
	}
	return addr.IsLoopback(), ""
}

// isDNSName accepts lower-case LDH labels. A last label that is a number is refused: browsers and C
// libraries read such a name as an IPv4 address in decimal, octal or hex (WHATWG URL, "ends in a
// number").
func isDNSName(host string) bool {
	if len(host) > 253 {
		return false
	}
	last := ""
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := 0; i < len(label); i++ {
			if !labelBytes[label[i]] {
				return false
			}
		}
		last = label
	}
	return strings.TrimLeft(last, "0123456789") != "" && !strings.HasPrefix(last, "0x")
}
