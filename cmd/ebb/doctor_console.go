package main

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"

	"ebb/broker/keys"
	"ebb/broker/notify"
	"ebb/cmd/ebb/internal/config"
)

// console says where people see the console, and what to do when their browser does not
// find it there. d.url is known by now.
func (d *doctor) console(ctx context.Context) {
	if _, err := os.Stat(d.cfg.Signing.KeysDir); d.c.url != "" || err != nil {
		return // an ebb elsewhere, or one that has not begun: its name is not known here
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

// consoleName judges what the resolver of this machine says of the console's name.
func (d *doctor) consoleName(pages, name string, addrs []netip.Addr, err error) {
	line := "add the line `127.0.0.1 " + name + "` to /etc/hosts"
	switch {
	case err != nil || len(addrs) == 0:
		d.ok("console", "at %s. Chromium and Firefox know that this is this machine; for Safari, curl and others %s", pages, line)
	case slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !a.Unmap().IsLoopback() }):
		d.warn("console", "this machine's resolver says that "+name+" is another machine", line+": a browser that asks the resolver would be led there")
	default:
		d.ok("console", "at %s", pages)
	}
}

// breakGlass says whether anybody hears of it when somebody approves alone, outside of the
// console's own pages.
func (d *doctor) breakGlass() {
	if !d.cfg.Console.BreakGlass.On() {
		return
	}
	hears := func(r config.NotifyRoute) bool {
		return len(r.Channels) > 0 && len(r.Groups)+len(r.Providers) == 0 && (len(r.Events) == 0 || slices.Contains(r.Events, string(notify.BreakGlass)))
	}
	if !slices.ContainsFunc(d.cfg.Notify.Routes, hears) {
		d.warn("break-glass", "nobody is told when somebody approves alone: no route takes "+string(notify.BreakGlass), "add a route without groups and providers to notify.routes, such as {events: ["+string(notify.BreakGlass)+"], channels: [...]}")
		return
	}
	d.ok("break-glass", "a route takes it")
}
