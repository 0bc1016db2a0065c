package main

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// TestDoctorConsoleName: a name that only browsers know is fine; one that leads elsewhere is
// not.
func TestDoctorConsoleName(t *testing.T) {
	t.Parallel()
	addr := netip.MustParseAddr
	for name, c := range map[string]struct {
		addrs []netip.Addr
		err   error
		state string
		says  string
	}{
		"here":          {[]netip.Addr{addr("127.0.0.1"), addr("::1"), addr("::ffff:127.0.0.1")}, nil, "ok", ""},
		"unknown":       {nil, errors.New("no such host"), "ok", "/etc/hosts"},
		"nothing":       {nil, nil, "ok", "127.0.0.1 ebb-x.localhost"},
		"elsewhere":     {[]netip.Addr{addr("192.0.2.1")}, nil, "warn", "/etc/hosts"},
		"here and away": {[]netip.Addr{addr("127.0.0.1"), addr("192.0.2.1")}, nil, "warn", "/etc/hosts"},
	} {
		d := &doctor{}
		d.consoleName("http://ebb-x.localhost:8420", "ebb-x.localhost", c.addrs, c.err)
		if len(d.all) != 1 || d.all[0].State != c.state || !strings.Contains(d.all[0].Said+d.all[0].Remedy, c.says) {
			t.Errorf("%s: %+v", name, d.all)
		}
	}
}
