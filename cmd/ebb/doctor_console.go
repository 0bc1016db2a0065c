package main

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"

	"github.com/ebb-broker/ebb/broker/keys"
	"github.com/ebb-broker/ebb/broker/notify"
	"github.com/ebb-broker/ebb/cmd/internal/config"
)

// console reports the console's address, and a remedy for browsers that do not
// resolve its name. d.url must be set.
func (d *doctor) console(ctx context.Context) {
	if _, err := os.Stat(d.cfg.Signing.KeysDir); d.c.url != "" || err != nil {
		return // the name is known only for an ebb on this machine that has created its keys
	}
	dir, err := keys.Open(keysConfig(d.cfg))
	if err != nil {
		return // what is wrong with the keys is said above
	}
	pages, err := pagesURL(d.url, dir.Ring())
	if err != nil {
		d.failed("console", err, "check public_url")
		return
	}
	if pages == d.url {
		d.ok("console", "at %s", pages)
		return
	}
	u, err := url.Parse(pages)
	if err != nil {
		d.failed("console", err, "check public_url")
		return
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	d.consoleName(pages, u.Hostname(), addrs, err)
}

// consoleName judges the addresses to which this machine's resolver resolves
// the console's name.
func (d *doctor) consoleName(pages, name string, addrs []netip.Addr, err error) {
	line := "add the line `127.0.0.1 " + name + "` to /etc/hosts"
	switch {
	case err != nil || len(addrs) == 0:
		d.ok("console", "at %s. Chromium and Firefox resolve it to this machine; for Safari, curl and others %s", pages, line)
	case slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !a.Unmap().IsLoopback() }):
		d.warn("console", "this machine's resolver resolves "+name+" to another machine", line+", or a browser that uses the resolver connects there")
	default:
		d.ok("console", "at %s", pages)
	}
}

// presence reports whether an approver can prove user presence at the console,
// which an approval of high risk requires (docs/risk.md).
func (d *doctor) presence() {
	const check, said = "approvals", "no request of high risk can be approved: "
	switch {
	case d.cfg.Loopback():
		d.ok(check, "an approver on this machine signs in by `ebb console`, and can approve high risk")
	case d.cfg.Console.OIDC.Issuer == "":
		d.warn(check, said+"ebb listens on "+d.cfg.Listen+", which is not loopback, and console.oidc.issuer is empty, so no approver can sign in to the console", "set console.oidc.issuer, client_id and client_secret_file, and name groups in console.roles.approver")
	case len(d.cfg.Console.Roles.Approver) == 0:
		d.warn(check, said+"console.roles.approver is empty, so no person who signs in by console.oidc is an approver", "name groups in console.roles.approver")
	default:
		d.ok(check, "approvers sign in by %s, and can approve high risk", d.cfg.Console.OIDC.Issuer)
	}
}

// breakGlass reports whether a notification is sent when a person approves
// alone in an emergency.
func (d *doctor) breakGlass() {
	if !d.cfg.Console.BreakGlass.On() {
		return
	}
	hears := func(r config.NotifyRoute) bool {
		return len(r.Channels) > 0 && len(r.Groups)+len(r.Providers) == 0 && (len(r.Events) == 0 || slices.Contains(r.Events, string(notify.BreakGlass)))
	}
	if !slices.ContainsFunc(d.cfg.Notify.Routes, hears) {
		d.warn("break-glass", "an approval by one person alone is not notified: no route takes "+string(notify.BreakGlass), "add a route without groups and providers to notify.routes, such as {events: ["+string(notify.BreakGlass)+"], channels: [...]}")
		return
	}
	d.ok("break-glass", "a route takes its events")
}
