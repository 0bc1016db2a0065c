package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"ebb/broker"
	"ebb/broker/exact"
	"ebb/cmd/ebb/internal/box"
	"ebb/cmd/ebb/internal/sshagent"
	"ebb/scopes"
	"ebb/web/client"
)

// sshPort is the port of SSH (RFC 4251 section 4).
const sshPort = 22

// sshGiven is a host that ssh in the box logs in at, and what for.
type sshGiven struct {
	host  exact.Host
	scope scopes.Set
}

// parseSSH reads HOST[:PORT]=SCOPE.
func parseSSH(lines []string) ([]sshGiven, error) {
	var all []sshGiven
	for _, line := range lines {
		name, text, _ := strings.Cut(line, "=")
		host, err := exact.ParseHost(name, sshPort)
		set, serr := scopes.ParseSet(text)
		if err := errors.Join(err, serr); err != nil || set.Empty() {
			return nil, usage("--ssh "+strconv.Quote(line)+" is not HOST[:PORT]=SCOPE", "write it like --ssh web-1.example.com=ssh:web/deploy:login")
		}
		for _, one := range set.Scopes() { // it says what the host's keys are, and certifies logins
			if one.Provider() != set.Scopes()[0].Provider() {
				return nil, usage("--ssh "+strconv.Quote(line)+" has scopes of several providers", "give one --ssh for each host, with the scopes of the provider that knows it")
			}
		}
		all = append(all, sshGiven{host, set})
	}
	return all, nil
}

// names are the hosts, with their ports.
func names(all []sshGiven) (out []string) {
	for _, g := range all {
		out = append(out, g.host.String())
	}
	return out
}

// giveSSH has ssh in the box find an agent of this process, which keeps the keys, and the keys of
// the hosts where ebb knows them. Certificates are asked for before anything of CMD runs.
func (c *cli) giveSSH(ctx, serving context.Context, o *client.Operator, k keeper, in *boxed) error {
	if _, way := in.spec.Sockets["out"]; !way || len(in.ssh) == 0 { // the run has said that there is none
		return nil
	}
	var known []byte
	var ids []sshagent.Identity
	at := map[string]int{} // identities by scope
	for _, g := range in.ssh {
		text, err := o.KnownHosts(ctx, g.scope.Scopes()[0].Provider(), g.host.String())
		if err != nil {
			return err
		}
		keys, err := sshagent.ParseHostKeys(g.host.Name, g.host.Port, text)
		if err != nil {
			return fail(err.Error(), "check that --url is your ebb's")
		}
		if !keys.Pinned() {
			c.sayf("ebb: nothing is known of the host key of %s: ssh asks about it; the operator can name it under host_keys\n", g.host)
		}
		known = append(known, text...)
		name := g.scope.String()
		if i, is := at[name]; is {
			ids[i].Hosts = append(ids[i].Hosts, keys)
			continue
		}
		at[name] = len(ids)
		ids = append(ids, sshagent.Identity{Name: name, Hosts: []sshagent.HostKeys{keys}, Issue: issueSSH(k.sandbox, client.TokenRequest{
			Scope: g.scope, Tool: in.tool, Reason: "ebb run --ssh " + g.host.String(), Wait: true, Pending: func(client.Pending) { c.sayAsked(g.scope) },
		})})
	}
	a, err := sshagent.New(sshagent.Config{Identities: ids, State: openStateOf(o.Task, k.taskID, stateOf(k.sandbox)), Logger: c.agentLog()})
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
	in.spec.Env = append(in.spec.Env, "SSH_AUTH_SOCK="+box.Dir+"/ssh/socket")
	in.spec.Files["/etc/ssh/ssh_known_hosts"] = known
	in.spec.Files["/etc/ssh/ssh_config"] = sshConfig(in.ssh, func(g sshGiven) []string { return users[at[g.scope.String()]] })
	go func() { _ = a.Serve(serving, l) }()
	return nil
}

// openStateOf says how it is with a lease while its task is open: a task that is paused, or over,
// signs nothing.
func openStateOf(task func(context.Context, string) (broker.Task, error), taskID string, state func(context.Context, string) (broker.LeaseState, error)) func(context.Context, string) (broker.LeaseState, error) {
	return func(ctx context.Context, leaseID string) (broker.LeaseState, error) {
		ctx, cancel := context.WithTimeout(ctx, stateTime)
		defer cancel()
		t, err := task(ctx, taskID)
		switch {
		case err != nil:
			return "", err
		case t.State == broker.TaskPaused:
			return "", broker.ErrTaskPaused
		case t.State != broker.TaskOpen:
			return "", broker.ErrTaskClosed
		}
		return state(ctx, leaseID)
	}
}

// sshLogin is a name that is one word of a configuration.
var sshLogin = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// sshConfig is ssh's configuration of a box (ssh_config(5)): what CMD says itself comes first.
func sshConfig(all []sshGiven, users func(sshGiven) []string) []byte {
	var text []byte
	for _, g := range all {
		// Always with the port: where a name has several, the first is ssh's, with its user.
		text = fmt.Appendf(text, "Host %s\n  Port %d\n", g.host.Name, g.host.Port)
		if u := users(g); len(u) == 1 && sshLogin.MatchString(u[0]) {
			text = fmt.Appendf(text, "  User %s\n", u[0])
		}
	}
	return append(text, "Host *\n  ForwardAgent no\n  UpdateHostKeys no\n"...)
}
