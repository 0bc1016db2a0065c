package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"ebb/broker"
	"ebb/broker/egress"
	"ebb/broker/exact"
	"ebb/broker/provider"
	"ebb/cmd/ebb/internal/ask"
	"ebb/cmd/ebb/internal/box"
	"ebb/cmd/ebb/internal/out"
	"ebb/scopes"
	"ebb/web/client"
)

// given is a credential that a box finds where it starts.
type given struct {
	name  string // of a variable, or a host of git
	scope scopes.Set
}

// parseGiven reads NAME=SCOPE.
func parseGiven(flag string, lines []string) ([]given, error) {
	var all []given
	for _, line := range lines {
		name, text, two := strings.Cut(line, "=")
		set, err := scopes.ParseSet(text)
		if !two || err != nil || set.Empty() || name == "" || strings.ContainsAny(name, " \t\r\n'\"\\") {
			return nil, usage("--"+flag+" "+strconv.Quote(line)+" is not NAME=SCOPE", "write it like --"+flag+" NAME=provider:resource:action")
		}
		all = append(all, given{name, set})
	}
	return all, nil
}

// wayOut opens the way out of the box at ebb. The socket of the sandbox is this process's, so that it outlives
// a restart of ebb. Where ebb has no way out the command runs without: it has no network then.
func (c *cli) wayOut(ctx, serving context.Context, o *client.Operator, taskID string, in *boxed) error {
	e := &endpoint{o: o, spec: broker.BoxSpec{Tool: in.tool, Forward: true}, find: c.openOut}
	err := e.open(ctx, taskID)
	switch {
	case !in.joined && client.IsKind(err, broker.NotFound):
		c.sayf("ebb: the box has no way out: %s\n", explain(err))
		return nil
	case client.IsKind(err, broker.Conflict): // it may be of ebb's machine, which is another
		return c.wayOutFar(ctx, serving, o, taskID, in, explain(err))
	case err != nil:
		return err
	}
	b := e.box
	in.out = &b
	err = e.connect(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		if _, err := o.CloseBox(ctx, b); err != nil {
			return err
		}
		in.out = nil
		return c.wayOutFar(ctx, serving, o, taskID, in, "ebb is not on this machine, or not for this user")
	case err != nil:
		return fail("what ebb names as the way out of the box is none: "+err.Error(), "check that --url is your ebb's; it must run as you or as root")
	}
	// Ebb asks the kernel who has connected, so nothing is asked here.
	door, err := egress.NewDoor(in.dir, b, broker.BoxBySocket, nil)
	if err != nil {
		return fail("the way out of the box cannot be made: "+err.Error(), doorAdvice(err, dirAdvice(in.dir)))
	}
	return c.leadOut(serving, in, b, door, egress.Carrier{Pass: e.pass}, func(id box.Identity) error { return e.register(ctx, id.NetNS) })
}

// wayOutFar opens the way out of a box whose ebb is on another machine: this process asks the kernel who has
// connected. why says what keeps the box from an ebb on this machine.
func (c *cli) wayOutFar(ctx, serving context.Context, o *client.Operator, taskID string, in *boxed, why string) error {
	e := &endpoint{o: o, spec: broker.BoxSpec{Tool: in.tool, Identity: broker.BoxByRunner}}
	err := e.open(ctx, taskID)
	if client.IsKind(err, broker.Conflict) {
		if said := explain(err); said != why {
			why += "; " + said
		}
		c.sayf("ebb: the box has no way out: %s\n", why)
		return nil
	}
	if err != nil {
		return err
	}
	b := e.box
	in.out = &b
	door, err := egress.NewDoor(in.dir, b, broker.BoxByKernel, c.strangers())
	if errors.Is(err, egress.ErrKernel) {
		c.sayf("ebb: the box has no way out: %s\n", err)
		_, err = o.CloseBox(ctx, b)
		in.out = nil
		return err
	}
	if err != nil {
		return fail("the way out of the box cannot be made: "+err.Error(), doorAdvice(err, dirAdvice(in.dir)))
	}
	return c.leadOut(serving, in, b, door, egress.Carrier{Dial: e.dial}, func(id box.Identity) error { return door.Register(id.NetNS) })
}

// leadOut gives the box the socket of a door, whose connections carrier takes until serving is done.
func (c *cli) leadOut(serving context.Context, in *boxed, b broker.Box, door *egress.Door, carrier egress.Carrier, register func(box.Identity) error) error {
	dir, err := box.OpenSocketDir(door.Socket(), uint32(os.Geteuid()))
	if err != nil {
		_ = door.Close()
		return fail(err.Error(), dirAdvice(in.dir))
	}
	carrier.Failed = c.notHandedOn()
	go func() { _ = carrier.Serve(serving, door) }()
	return in.leads(dir, b, register)
}

// notHandedOn says why a connection of a box could not be handed on, unless that is what it said last.
func (c *cli) notHandedOn() func(error) {
	var said string
	return func(err error) {
		if why := explain(err); why != said {
			said = why
			c.sayf("ebb: a connection of the box could not be handed on: %s\n", why)
		}
	}
}

// strangers says once that somebody else has come to a box's way out.
func (c *cli) strangers() func(uint64, error) {
	say := sync.OnceFunc(func() { c.sayf("ebb: a process that is not in the box has come to its way out, and was turned away\n") })
	return func(uint64, error) { say() }
}

// leads has a box find its way out. Nothing of the command runs until it is known, by register, which
// connections are the box's.
func (b *boxed) leads(dir *os.File, x broker.Box, register func(box.Identity) error) (err error) {
	ca, err := certificateOf(x)
	if err != nil {
		return errors.Join(err, dir.Close())
	}
	b.mount("out", dir)
	b.carry(box.ProxyPort, box.Tunnel)
	if b.spec.Direct, err = box.Directs(b.hosts); err != nil {
		return err
	}
	b.spec.Files = map[string][]byte{box.Bundle: ca}
	b.spec.Env = append(b.spec.Env, box.Bootstrap()...)
	b.spec.Ready = func(id box.Identity) error {
		if err := register(id); err != nil {
			return fmt.Errorf("the box could not be made known to its way out: %w", err)
		}
		return nil
	}
	return nil
}

// parseHosts reads the hosts that are reached without a proxy.
func parseHosts(lines []string) ([]string, error) {
	var hosts []string
	for _, line := range lines {
		host, err := exact.ParseHost(line, 443)
		if err != nil {
			return nil, usage("--host "+strconv.Quote(line)+" is no name of a host: "+err.Error(), "write it like --host api.example.com, or with :PORT where that is not 443")
		}
		hosts = append(hosts, host.String())
	}
	if _, err := box.Directs(hosts); err != nil {
		return nil, usage("--host and --ssh: "+err.Error(), "name fewer, or have the programs use HTTPS_PROXY")
	}
	return hosts, nil
}

// outSocket is what ebb calls the socket of a box.
const outSocket = "out"

// openOut opens the directory of the socket that ebb names. Whoever answers there is believed
// nothing: what is mounted into the box is a socket that ebb could have made, of root or of this
// user, or of the owner of the data directory whose ebb this is.
func (c *cli) openOut(socket string) (*os.File, error) {
	owners := []uint32{0, uint32(os.Geteuid())}
	if c.url == "" && c.socket == "" {
		if info, err := os.Stat(c.dataDir()); err == nil {
			owners = append(owners, info.Sys().(*syscall.Stat_t).Uid)
		}
	}
	if !filepath.IsAbs(socket) || filepath.Base(socket) != outSocket {
		return nil, fmt.Errorf("%s: %w: it is not called %s", socket, box.ErrPlace, outSocket)
	}
	return box.OpenSocketDir(socket, owners...)
}

// give asks for what the box finds in its environment, which is a placeholder or nothing: a
// credential that works by itself goes into no environment.
func (c *cli) give(ctx context.Context, s ask.Sandbox, in *boxed) error {
	for _, g := range in.credentials {
		cred, err := c.placeholder(ctx, s, in, g.scope, "ebb run --credential "+g.name)
		if err != nil {
			return err
		}
		in.spec.Env = append(in.spec.Env, g.name+"="+cred.Token.Reveal())
	}
	return nil
}

// placeholder asks for a credential that stays in ebb.
func (c *cli) placeholder(ctx context.Context, s ask.Sandbox, in *boxed, scope scopes.Set, reason string) (client.Credential, error) {
	cred, err := s.Token(ctx, client.TokenRequest{Scope: scope, Tool: in.tool, Reason: reason, Wait: true, Pending: func(client.Pending) { c.sayAsked(scope) }})
	if err == nil && cred.Format != provider.PlaceholderFormat {
		err = usage("what "+scope.String()+" is given is no placeholder", "let policy say @deliver(\"egress\") for it, or have CMD ask with `ebb token`")
	}
	return cred, err
}

func (c *cli) sayAsked(s scopes.Set) {
	c.sayf("ebb: a person has to decide about %s: `ebb requests list`\n", out.Line(s.String()))
}

// gitConfig has git in the box ask for a credential where a host wants one, and use https
// where a remote says ssh.
func gitConfig(hosts []given, protect bool) []string {
	var keys []string
	if protect { // git checkout would fail where it could not note the upstream in .git/config
		keys = append(keys, "branch.autoSetupMerge", "false")
	}
	for _, h := range hosts {
		keys = append(keys,
			"credential.https://"+h.name+".helper", "!"+box.Self+" credential git --scope '"+h.scope.String()+"'",
			"url.https://"+h.name+"/.insteadOf", "git@"+h.name+":",
			"url.https://"+h.name+"/.insteadOf", "ssh://git@"+h.name+"/")
	}
	if len(keys) == 0 {
		return nil
	}
	env := []string{"GIT_CONFIG_COUNT=" + strconv.Itoa(len(keys)/2)}
	for i := 0; i < len(keys); i += 2 {
		n := strconv.Itoa(i / 2)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+keys[i], "GIT_CONFIG_VALUE_"+n+"="+keys[i+1])
	}
	return env
}
