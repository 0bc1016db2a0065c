package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/ask"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// runReport prints the messages of ebb run: how the sandbox was created, and
// the outcome of each credential.
type runReport struct{ *cli }

// given is a credential that is available in a sandbox from the start.
type given struct {
	name  string // name of a variable, or a host of git
	scope scopes.Set
}

// parseGiven parses NAME=SCOPE.
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

// wayOut opens the egress endpoint of the sandbox at ebb. The socket in the
// sandbox belongs to this process, so that it stays open while ebb restarts. If
// ebb provides no egress, the command runs without a network.
func (c runReport) wayOut(ctx, serving context.Context, o *client.Operator, taskID string, in *sandboxed) error {
	e := &endpoint{o: o, spec: wire.EgressEndpointSpec{Tool: in.tool, Forward: true}, find: c.openOut}
	err := e.open(ctx, taskID)
	switch {
	case !in.joined && client.IsKind(err, wire.KindNotFound):
		c.sayf("ebb: the sandbox has no egress endpoint: %s\n", explain(err))
		return nil
	case client.IsKind(err, wire.KindConflict): // the endpoint may have to be on ebb's machine, which is another
		return c.wayOutFar(ctx, serving, o, taskID, in, explain(err))
	case err != nil:
		return err
	}
	b := e.state
	in.out = &b
	err = e.connect(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		if _, err := o.Endpoints.Close(ctx, b); err != nil {
			return err
		}
		in.out = nil
		return c.wayOutFar(ctx, serving, o, taskID, in, "ebb runs on another machine, or this user cannot use its socket")
	case err != nil:
		return fail("connect to the egress endpoint that ebb returned: "+err.Error(), "check that --url is your ebb's; it must run as you or as root")
	}
	// ebb checks with the kernel which process connected, so this listener does
	// not.
	listener, err := egress.NewListener(in.dir, coreEndpoint(b), broker.EndpointBySocket, nil)
	if err != nil {
		return fail("create the egress endpoint of the sandbox: "+err.Error(), doorAdvice(err, dirAdvice(in.dir)))
	}
	return c.leadOut(serving, in, b, listener, egress.Forwarder{Pass: e.pass}, func(id sandbox.Identity) error { return e.register(ctx, id.NetNS) })
}

// wayOutFar opens the egress endpoint of a sandbox whose ebb is on another
// machine: this process checks with the kernel which process connected. why is
// the reason that the endpoint of an ebb on this machine cannot be used.
func (c runReport) wayOutFar(ctx, serving context.Context, o *client.Operator, taskID string, in *sandboxed, why string) error {
	e := &endpoint{o: o, spec: wire.EgressEndpointSpec{Tool: in.tool, Identity: wire.EndpointByRunner}}
	err := e.open(ctx, taskID)
	if client.IsKind(err, wire.KindConflict) {
		if said := explain(err); said != why {
			why += "; " + said
		}
		c.sayf("ebb: the sandbox has no egress endpoint: %s\n", why)
		return nil
	}
	if err != nil {
		return err
	}
	b := e.state
	in.out = &b
	listener, err := egress.NewListener(in.dir, coreEndpoint(b), broker.EndpointByKernel, c.strangers())
	if errors.Is(err, egress.ErrKernel) {
		c.sayf("ebb: the sandbox has no egress endpoint: %s\n", err)
		_, err = o.Endpoints.Close(ctx, b)
		in.out = nil
		return err
	}
	if err != nil {
		return fail("create the egress endpoint of the sandbox: "+err.Error(), doorAdvice(err, dirAdvice(in.dir)))
	}
	return c.leadOut(serving, in, b, listener, egress.Forwarder{Dial: e.dial}, func(id sandbox.Identity) error { return listener.Register(id.NetNS) })
}

// leadOut gives the sandbox the socket of a listener. carrier forwards its
// connections until serving is done.
func (c runReport) leadOut(serving context.Context, in *sandboxed, b wire.EgressEndpoint, listener *egress.Listener, carrier egress.Forwarder, register func(sandbox.Identity) error) error {
	dir, err := sandbox.OpenSocketDir(listener.Socket(), uint32(os.Geteuid()))
	if err != nil {
		_ = listener.Close()
		return fail(err.Error(), dirAdvice(in.dir))
	}
	carrier.Failed = c.notHandedOn()
	go func() { _ = carrier.Serve(serving, listener) }()
	return in.leads(dir, b, register)
}

// notHandedOn returns a function that prints why a connection could not be
// forwarded, unless the previous reason was the same.
func (c runReport) notHandedOn() func(error) {
	var said string
	return func(err error) {
		if why := explain(err); why != said {
			said = why
			c.sayf("ebb: a connection of the sandbox could not be forwarded: %s\n", why)
		}
	}
}

// strangers returns a function that prints once that a foreign process has
// connected.
func (c runReport) strangers() func(uint64, error) {
	say := sync.OnceFunc(func() {
		c.sayf("ebb: a process outside of the sandbox connected to its egress endpoint and was refused\n")
	})
	return func(uint64, error) { say() }
}

// leads connects the sandbox to its egress endpoint. The command starts only
// after register has told the endpoint which connections are the sandbox's.
func (b *sandboxed) leads(dir *os.File, x wire.EgressEndpoint, register func(sandbox.Identity) error) (err error) {
	ca, err := certificateOf(x)
	if err != nil {
		return errors.Join(err, dir.Close())
	}
	b.mount("out", dir)
	b.carry(sandbox.ProxyPort, sandbox.Tunnel)
	if b.spec.Direct, err = sandbox.Directs(b.hosts); err != nil {
		return err
	}
	b.spec.Files = map[string][]byte{sandbox.Bundle: ca}
	b.spec.Env = append(b.spec.Env, sandbox.Bootstrap()...)
	b.spec.Ready = func(id sandbox.Identity) error {
		if err := register(id); err != nil {
			return fmt.Errorf("register the sandbox at its egress endpoint: %w", err)
		}
		return nil
	}
	return nil
}

// parseHosts parses --host.
func parseHosts(lines []string) ([]string, error) {
	var hosts []string
	for _, line := range lines {
		host, err := stricturl.ParseHost(line, 443)
		if err != nil {
			return nil, usage("--host "+strconv.Quote(line)+" is not a host name: "+err.Error(), "write it like --host api.example.com, or with :PORT where that is not 443")
		}
		hosts = append(hosts, host.String())
	}
	if _, err := sandbox.Directs(hosts); err != nil {
		return nil, usage("--host and --ssh: "+err.Error(), "name fewer hosts, or configure the programs to use HTTPS_PROXY")
	}
	return hosts, nil
}

// outSocket is the file name of ebb's socket of an egress endpoint.
const outSocket = "out"

// openOut opens the directory of the socket that ebb returned. The response is
// not trusted: the socket must be one that ebb could have created, so its
// directory must belong to root, to this user, or to the owner of the data
// directory of this machine's ebb.
func (c runReport) openOut(socket string) (*os.File, error) {
	owners := []uint32{0, uint32(os.Geteuid())}
	if c.url == "" && c.socket == "" {
		if info, err := os.Stat(c.dataDir()); err == nil {
			owners = append(owners, info.Sys().(*syscall.Stat_t).Uid)
		}
	}
	if !filepath.IsAbs(socket) || filepath.Base(socket) != outSocket {
		return nil, fmt.Errorf("%s: %w: its name is not %s", socket, sandbox.ErrPlace, outSocket)
	}
	return sandbox.OpenSocketDir(socket, owners...)
}

// give requests the credentials for the environment of the sandbox. They must
// be placeholders: a usable credential is never put into an environment.
func (c runReport) give(ctx context.Context, s ask.Sandbox, in *sandboxed) error {
	for _, g := range in.credentials {
		cred, err := c.placeholder(ctx, s, in, g.scope, "ebb run --credential "+g.name)
		if err != nil {
			return err
		}
		in.spec.Env = append(in.spec.Env, g.name+"="+cred.Token.Reveal())
	}
	return nil
}

// placeholder requests a credential that is delivered by egress.
func (c runReport) placeholder(ctx context.Context, s ask.Sandbox, in *sandboxed, scope scopes.Set, reason string) (client.Credential, error) {
	w := c.awaiting(scope.String())
	cred, err := s.Token(ctx, client.TokenRequest{Scope: scope.String(), Tool: in.tool, Reason: reason, Wait: true, Pending: w.told})
	err = w.done(ctx, "the task of this run ends now, and its request with it: start the same ebb run again", err)
	if err == nil && cred.Format != provider.PlaceholderFormat {
		err = usage("the credential for "+scope.String()+" is not a placeholder", "add @deliver(\"egress\") to its policy, or have CMD request it with `ebb token`")
	}
	return cred, err
}

// gitConfig configures git in the sandbox to request a credential for each
// host, and to use https for remotes with ssh URLs.
func gitConfig(hosts []given, protect bool) []string {
	var keys []string
	if protect { // else git checkout fails when it writes the upstream to .git/config
		keys = append(keys, "branch.autoSetupMerge", "false")
	}
	for _, h := range hosts {
		keys = append(keys,
			"credential.https://"+h.name+".helper", "!"+sandbox.Self+" credential git --scope '"+h.scope.String()+"'",
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

// passedOn are variables about the terminal and the locale, which identify
// neither the user nor the machine.
var passedOn = []string{"TERM", "COLORTERM", "NO_COLOR", "LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TZ"}

// sandboxEnv returns the environment of a sandbox. It contains no variable of this
// process that is not named.
func (c runCommand) sandboxEnv(asked []string) ([]string, error) {
	env := []string{"PATH=" + sandbox.Search, "HOME=" + sandbox.Home, "USER=" + sandbox.User, "LOGNAME=" + sandbox.User, "SHELL=/bin/sh", "TMPDIR=/tmp"}
	for _, name := range passedOn {
		if value := c.env(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	for _, line := range asked {
		name, value, whole := strings.Cut(line, "=")
		if !whole {
			value = c.env(name)
		}
		if name == "" || strings.ContainsAny(name, " \t\x00") || strings.Contains(value, "\x00") {
			return nil, usage("--env "+strconv.Quote(line)+" is not a variable", "write NAME=VALUE, or NAME to copy it from this environment")
		}
		env = append(env, name+"="+value)
	}
	return env, nil
}

// plainEnv returns the environment of a command without a sandbox: that of this
// process, and a key file.
func (c runCommand) plainEnv(id keyfile.File, path string) ([]string, error) {
	if err := keyfile.Write(path, id); err != nil {
		return nil, err
	}
	peer, err := c.peer()
	if err != nil {
		return nil, err
	}
	// Variables of the operator's own key or server must not reach the command.
	env := slices.DeleteFunc(slices.Clone(c.environ), func(line string) bool { return strings.HasPrefix(line, "EBB_") })
	env = append(env, "EBB_URL="+peer.Issuer, "EBB_TASK_ID="+id.TaskID, "EBB_CLIENT_ID="+id.ClientID, "EBB_KEY_FILE="+path)
	if c.caFile != "" {
		env = append(env, "EBB_CA_FILE="+c.caFile)
	}
	if c.socket != "" {
		env = append(env, "EBB_SOCKET="+c.socket)
	}
	return env, nil
}
