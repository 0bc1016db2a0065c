package egress_test

import (
	"context"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/net/dns/dnsmessage"
)

// Names of providers in tests of drivers: the drivers connect by name, as egress does, and their
// requests go to that name.
const (
	hubName = "hub.example.com"
	s3Name  = "api.example.com" // as the gateway of the bed is configured
)

// resolveProviders makes the names of providers, and no others, resolve to loopback in this
// process.
func resolveProviders() error {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go answerProviders(c)
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", c.LocalAddr().String())
	}}
	return nil
}

// answerProviders is a name server (RFC 1035).
func answerProviders(c net.PacketConn) {
	for buf := make([]byte, 1500); ; {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		m.Response, m.Authoritative, m.Additionals = true, true, nil
		switch {
		case !slices.Contains([]string{hubName + ".", s3Name + "."}, q.Name.String()):
			m.RCode = dnsmessage.RCodeNameError
		case q.Type == dnsmessage.TypeA:
			m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: netip.MustParseAddr("127.0.0.1").As4()}}}
		}
		if out, err := m.Pack(); err == nil {
			_, _ = c.WriteTo(out, from)
		}
	}
}
