package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/ask"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/awskeys"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sshagent"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// parseAWS parses --aws.
func parseAWS(text string) (scopes.Set, error) {
	if text == "" {
		return scopes.Set{}, nil
	}
	set, err := scopes.ParseSet(text)
	if err != nil || set.Empty() {
		return scopes.Set{}, usage("--aws "+strconv.Quote(text)+" is not a scope", "write it like --aws 's3:bucket/in/**:read'")
	}
	return set, nil
}

// giveAWS serves credentials to AWS clients on the sandbox's loopback, where
// SDKs look if these variables are set (container credentials). A credential is
// requested only when a client asks.
func (c runCommand) giveAWS(serving context.Context, s ask.Sandbox, in *sandboxed) error {
	if in.aws.Empty() {
		return nil
	}
	l, dir, err := in.socket("aws")
	if err != nil {
		return err
	}
	in.mount("aws", dir)
	in.carry(sandbox.AWSPort, sandbox.Dir+"/aws/socket")
	authorization := rand.Text()
	in.spec.Env = append(in.spec.Env,
		"AWS_CONTAINER_CREDENTIALS_FULL_URI=http://127.0.0.1:"+strconv.Itoa(sandbox.AWSPort)+awskeys.Path, "AWS_CONTAINER_AUTHORIZATION_TOKEN="+authorization)
	var told sync.Map // requests already reported: an SDK repeats its request after a timeout
	go func() {
		_ = awskeys.Serve(serving, l, awskeys.Config{Authorization: authorization, Get: func(ctx context.Context) (client.Credential, error) {
			return s.Token(ctx, client.TokenRequest{Scope: in.aws.String(), Tool: in.tool, Reason: "ebb run --aws", Wait: true, Pending: func(p client.Pending) {
				if _, known := told.LoadOrStore(p.RequestID, true); !known {
					c.sayAsked(in.aws.String(), p)
				}
			}})
		}})
	}()
	return nil
}

// givePG requests database access before CMD starts. The database's host name
// leads through the proxy, and the variables of libpq (PostgreSQL, "Environment
// Variables") contain its address, and a placeholder as the password. The
// connection to the proxy is not encrypted, because it stays on the sandbox's
// loopback.
func (c runCommand) givePG(ctx context.Context, s ask.Sandbox, in *sandboxed) error {
	if in.pg.Empty() {
		return nil
	}
	cred, err := runReport(c).placeholder(ctx, s, in, in.pg, "ebb run --pg")
	if err != nil {
		return err
	}
	at := cred.Endpoint
	var host stricturl.Host
	if at != nil {
		host, err = stricturl.ParseHost(at.Host, 0)
	}
	if at == nil || err != nil || at.Protocol != provider.PostgreSQL {
		return usage("--pg: the credential for "+in.pg.String()+" is not for PostgreSQL", "name a scope of a provider of kind postgres whose address is a host name")
	}
	if _, way := in.spec.Sockets["out"]; way {
		if in.spec.Direct, err = sandbox.Directs(append(in.hosts, host.String())); err != nil {
			return usage("--pg: "+err.Error(), "name fewer hosts with --host and --ssh")
		}
	}
	in.spec.Env = append(in.spec.Env,
		"PGHOST="+host.Name, "PGPORT="+strconv.Itoa(int(host.Port)), "PGDATABASE="+at.Database, "PGUSER="+sandbox.User, "PGPASSWORD="+cred.Token.Reveal(),
		"PGSSLMODE=disable", "PGGSSENCMODE=disable")
	return nil
}

// sshPort is the port of SSH (RFC 4251 section 4).
const sshPort = 22

// sshGiven is a host at which ssh in the sandbox logs in, and the scope of the
// login.
type sshGiven struct {
	host  stricturl.Host
	scope scopes.Set
}

// parseSSH parses HOST[:PORT]=SCOPE.
func parseSSH(lines []string) ([]sshGiven, error) {
	var all []sshGiven
	for _, line := range lines {
		name, text, _ := strings.Cut(line, "=")
		host, err := stricturl.ParseHost(name, sshPort)
		set, serr := scopes.ParseSet(text)
		if err := errors.Join(err, serr); err != nil || set.Empty() {
			return nil, usage("--ssh "+strconv.Quote(line)+" is not HOST[:PORT]=SCOPE", "write it like --ssh web-1.example.com=ssh:web/deploy:login")
		}
		for _, one := range set.Scopes() { // the provider returns the host's keys and certifies logins
			if one.Provider() != set.Scopes()[0].Provider() {
				return nil, usage("--ssh "+strconv.Quote(line)+" has scopes of several providers", "use one --ssh per host, with scopes of the provider of that host")
			}
		}
		all = append(all, sshGiven{host, set})
	}
	return all, nil
}

// names returns the hosts with their ports.
func names(all []sshGiven) (out []string) {
	for _, g := range all {
		out = append(out, g.host.String())
	}
	return out
}

// giveSSH runs an SSH agent for the sandbox in this process, which keeps the
// private keys, and gives ssh the host keys that ebb knows. Certificates are
// requested before CMD starts.
func (c runCommand) giveSSH(ctx, serving context.Context, o *client.Operator, k keeper, in *sandboxed) error {
	if _, way := in.spec.Sockets["out"]; !way || len(in.ssh) == 0 { // the missing endpoint was already reported
		return nil
	}
	var known []byte
	var ids []sshagent.Identity
	at := map[string]int{} // identities by scope
	for _, g := range in.ssh {
		text, err := o.Providers.KnownHosts(ctx, g.scope.Scopes()[0].Provider(), g.host.String())
		if err != nil {
			return err
		}
		keys, err := sshagent.ParseHostKeys(g.host.Name, g.host.Port, text)
		if err != nil {
			return fail(err.Error(), "check that --url is your ebb's")
		}
		if !keys.Pinned() {
			c.sayf("ebb: the host key of %s is not configured: ssh asks to confirm it; the operator can set it in host_keys\n", g.host)
		}
		known = append(known, text...)
		name := g.scope.String()
		if i, is := at[name]; is {
			ids[i].Hosts = append(ids[i].Hosts, keys)
			continue
		}
		at[name] = len(ids)
		ids = append(ids, sshagent.Identity{Name: name, Hosts: []sshagent.HostKeys{keys}, Issue: issueSSH(k.sandbox, client.TokenRequest{
			Scope: g.scope.String(), Tool: in.tool, Reason: "ebb run --ssh " + g.host.String(), Wait: true, Pending: func(p client.Pending) { c.sayAsked(g.scope.String(), p) },
		})})
	}
	a, err := sshagent.New(sshagent.Config{Identities: ids, State: openStateOf(o.Tasks.Get, k.taskID, stateOf(k.sandbox)), Logger: credentialCommands(c).agentLog()})
	if err != nil {
		return err
	}
	users, err := a.Ready(ctx)
	if err != nil {
		return err
	}
	l, dir, err := in.socket("ssh")
	if err != nil {
		return err
	}
	in.mount("ssh", dir)
	in.spec.Env = append(in.spec.Env, "SSH_AUTH_SOCK="+sandbox.Dir+"/ssh/socket")
	in.spec.Files["/etc/ssh/ssh_known_hosts"] = known
	in.spec.Files["/etc/ssh/ssh_config"] = sshConfig(in.ssh, func(g sshGiven) []string { return users[at[g.scope.String()]] })
	go func() { _ = a.Serve(serving, l) }()
	return nil
}

// openStateOf returns the state of a lease while its task is open. It returns
// an error if the task is paused or has ended, so that the agent signs nothing.
func openStateOf(task func(context.Context, string) (wire.Task, error), taskID string, state func(context.Context, string) (wire.LeaseState, error)) func(context.Context, string) (wire.LeaseState, error) {
	return func(ctx context.Context, leaseID string) (wire.LeaseState, error) {
		ctx, cancel := context.WithTimeout(ctx, stateTime)
		defer cancel()
		t, err := task(ctx, taskID)
		switch {
		case err != nil:
			return "", err
		case t.State == wire.TaskPaused:
			return "", broker.ErrTaskPaused
		case t.State != wire.TaskOpen:
			return "", broker.ErrTaskClosed
		}
		return state(ctx, leaseID)
	}
}

// sshLogin matches a user name that is a single word in ssh_config.
var sshLogin = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// sshConfig returns the ssh_config(5) of a sandbox. Options of CMD's command
// line take precedence.
func sshConfig(all []sshGiven, users func(sshGiven) []string) []byte {
	var text []byte
	for _, g := range all {
		// The port is always set: for a name with several entries ssh uses the
		// first, with its user.
		text = fmt.Appendf(text, "Host %s\n  Port %d\n", g.host.Name, g.host.Port)
		if u := users(g); len(u) == 1 && sshLogin.MatchString(u[0]) {
			text = fmt.Appendf(text, "  User %s\n", u[0])
		}
	}
	return append(text, "Host *\n  ForwardAgent no\n  UpdateHostKeys no\n"...)
}
