package main

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"ebb/cmd/ebb/internal/config"
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

// TestDoctorBreakGlass: who approves alone must not do so unheard.
func TestDoctorBreakGlass(t *testing.T) {
	t.Parallel()
	route := func(r config.NotifyRoute) []config.NotifyRoute {
		return []config.NotifyRoute{{Channels: []string{"a"}, Groups: []string{"x"}}, r}
	}
	at := []string{"a"}
	for name, c := range map[string]struct {
		people []string
		routes []config.NotifyRoute
		want   string // "" = it says nothing
	}{
		"off":              {nil, nil, ""},
		"no route":         {[]string{"gil"}, nil, "warn"},
		"everything":       {[]string{"gil"}, route(config.NotifyRoute{Channels: at}), "ok"},
		"just that":        {[]string{"gil"}, route(config.NotifyRoute{Channels: at, Events: []string{"breakglass"}, MinRisk: "high"}), "ok"},
		"something else":   {[]string{"gil"}, route(config.NotifyRoute{Channels: at, Events: []string{"request.waiting"}}), "warn"},
		"of a provider":    {[]string{"gil"}, route(config.NotifyRoute{Channels: at, Providers: []string{"orders"}}), "warn"},
		"to escalate only": {[]string{"gil"}, route(config.NotifyRoute{Escalate: at}), "warn"},
	} {
		d := &doctor{}
		d.cfg.Console.BreakGlass.People, d.cfg.Notify.Routes = c.people, c.routes
		d.breakGlass()
		if got := len(d.all); got != map[bool]int{true: 1}[c.want != ""] || got > 0 && d.all[0].State != c.want {
			t.Errorf("%s: %+v", name, d.all)
		}
	}
}
