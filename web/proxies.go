package web

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// Proxies are the peers whose forwarding headers are accepted (RFC 9700 section
// 4.13). The zero value accepts none.
type Proxies struct{ nets []netip.Prefix }

// ParseProxies parses CIDR prefixes or single addresses.
func ParseProxies(list []string) (Proxies, error) {
	var p Proxies
	for _, s := range list {
		prefix, err := netip.ParsePrefix(s)
		if err != nil {
			addr, addrErr := netip.ParseAddr(s)
			if addrErr != nil {
				return Proxies{}, fmt.Errorf("trusted proxy %q is neither an address nor a CIDR prefix: %w", s, err)
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		if prefix.Bits() == 0 {
			return Proxies{}, fmt.Errorf("trusted proxy %q matches every address; list the addresses of the proxies", s)
		}
		p.nets = append(p.nets, prefix.Masked())
	}
	return p, nil
}

// forwarding lists the headers that only a proxy may set (RFC 7239, RFC 9440
// and the de facto standards).
func forwarding() []string {
	return []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port",
		"X-Forwarded-Prefix", "X-Forwarded-Server", "X-Real-Ip", "Client-Cert", "Client-Cert-Chain"}
}

// sanitise removes forwarding headers unless the peer is a configured proxy, so
// that no handler or library reads a forged address.
func (p Proxies) sanitise(r *http.Request) {
	if p.trusts(peer(r)) {
		return
	}
	for _, name := range forwarding() {
		delete(r.Header, name)
	}
}

func (p Proxies) trusts(a netip.Addr) bool {
	for _, n := range p.nets {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

// peer returns the address of the connection. It is invalid for a Unix socket.
func peer(r *http.Request) netip.Addr {
	ap, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

// ClientIP returns the client's address: the peer, or, if the peer is a proxy,
// the last X-Forwarded-For element that no configured proxy added.
func (p Proxies) ClientIP(r *http.Request) string {
	at := peer(r)
	if len(p.nets) > 0 && p.trusts(at) {
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		for i := len(hops) - 1; i >= 0 && p.trusts(at); i-- {
			a, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
			if err != nil {
				break
			}
			at = a.Unmap()
		}
	}
	if !at.IsValid() {
		return "local"
	}
	return at.String()
}

var errClientCert = errors.New("the Client-Cert headers of the proxy do not follow RFC 9440")

// maxChain limits the certificates that a proxy may forward.
const maxChain = 16

// ClientChain returns the client's certificates in DER, leaf first, or nil when it sent none. They
// come from the TLS layer, or from the headers Client-Cert and Client-Cert-Chain (RFC 9440) of a
// configured proxy. The client has proved possession of the leaf's key. The chain is not verified.
func (p Proxies) ClientChain(r *http.Request) ([][]byte, error) {
	// The certificate of a proxy is not that of the client behind it.
	if p.trusts(peer(r)) {
		return passedOn(r.Header["Client-Cert"], r.Header["Client-Cert-Chain"])
	}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, nil
	}
	chain := make([][]byte, len(r.TLS.PeerCertificates))
	for i, c := range r.TLS.PeerCertificates {
		chain[i] = c.Raw
	}
	return chain, nil
}

func passedOn(leaf, above []string) ([][]byte, error) {
	if len(leaf) == 0 && len(above) == 0 {
		return nil, nil
	}
	if len(leaf) != 1 {
		return nil, errClientCert
	}
	texts := leaf
	if len(above) > 0 { // a list may span several header lines
		texts = append(texts[:1:1], strings.Split(strings.Join(above, ","), ",")...)
	}
	if len(texts) > maxChain {
		return nil, errClientCert
	}
	var chain [][]byte
	for _, v := range texts {
		v = strings.Trim(v, " \t")
		if len(v) < 3 || v[0] != ':' || v[len(v)-1] != ':' {
			return nil, errClientCert
		}
		der, err := base64.StdEncoding.DecodeString(v[1 : len(v)-1])
		if err != nil {
			return nil, errClientCert
		}
		chain = append(chain, der)
	}
	return chain, nil
}

// X5T returns the x5t#S256 of a certificate in DER (RFC 8705 section 3.1), "" for none.
func X5T(der []byte) string {
	if len(der) == 0 {
		return ""
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
