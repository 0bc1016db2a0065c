package main

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/cmd/internal/config"
)

// TestDoctorConsoleName: a name that only browsers resolve is ok; one that
// resolves to another machine is a warning.
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

// TestDoctorPresence: if no approver can sign in to the console, requests of
// high risk cannot be approved.
func TestDoctorPresence(t *testing.T) {
	t.Parallel()
	groups := []broker.RoleGroup{{Group: "leads"}}
	for name, c := range map[string]struct {
		listen, issuer string
		approvers      []broker.RoleGroup
		state, remedy  string
	}{
		"loopback":          {"127.0.0.1:8420", "", nil, "ok", ""},
		"no sign-in":        {"0.0.0.0:8420", "", nil, "warn", "console.oidc.issuer"},
		"nobody approves":   {"0.0.0.0:8420", "https://sso.example.com", nil, "warn", "console.roles.approver"},
		"by oidc":           {"0.0.0.0:8420", "https://sso.example.com", groups, "ok", ""},
		"loopback and oidc": {"[::1]:8420", "https://sso.example.com", groups, "ok", ""},
	} {
		d := &doctor{}
		d.cfg.Listen, d.cfg.Console.OIDC.Issuer, d.cfg.Console.Roles.Approver = c.listen, c.issuer, c.approvers
		d.presence()
		if len(d.all) != 1 || d.all[0].State != c.state || !strings.Contains(d.all[0].Remedy, c.remedy) || c.state == "warn" && !strings.Contains(d.all[0].Said, "no request of high risk can be approved") {
			t.Errorf("%s: %+v", name, d.all)
		}
	}
}

// TestDoctorBreakGlass: approving alone must be notified.
func TestDoctorBreakGlass(t *testing.T) {
	t.Parallel()
	route := func(r config.NotifyRoute) []config.NotifyRoute {
		return []config.NotifyRoute{{Channels: []string{"a"}, Groups: []string{"x"}}, r}
	}
	at := []string{"a"}
	for name, c := range map[string]struct {
		people []string
		routes []config.NotifyRoute
		want   string // "" = no finding
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
