package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"ebb/attest/dpop"
	"ebb/attest/jose"
	"ebb/broker"
	"ebb/cmd/ebb/internal/ask"
	"ebb/cmd/ebb/internal/box"
	"ebb/cmd/ebb/internal/box/autorun"
	"ebb/cmd/ebb/internal/box/cgroup"
	"ebb/cmd/ebb/internal/keyfile"
	"ebb/cmd/ebb/internal/stdio"
	"ebb/scopes"
	"ebb/web/client"
)

// boxed is a command on its way into a box.
type boxed struct {
	kind   box.Kind
	plain  bool   // in no box
	image  string // of a box of Docker's; "" = another kind
	joined bool   // in a task that another run has opened
	spec   box.Spec
	tool   string
	// Placeholders in variables, and hosts that git asks for.
	credentials, git []given
	ssh              []sshGiven  // hosts of ssh
	aws              scopes.Set  // for AWS's clients
	pg               scopes.Set  // of a database; empty = none
	hosts            []string    // that are reached without a proxy, with their ports
	dir              string      // of this run, for sockets and keys
	out              *broker.Box // its way out; nil = none
	limits           cgroup.Limits
	bounded          bool           // limits were asked for: there is no box without them
	group            *cgroup.Group  // nil = the box has none of its own
	guarding         *autorun.Guard // of the work directory; nil = it is looked at by nobody
	protect          bool           // files that make programs run are read-only
	sockets          []*os.File     // that the box has, to be closed here
	streams          *stdio.Streams // nil = the streams are passed on as they are
}

// boxOf is what the flags ask for. Nothing has happened yet when it says no.
func (c *cli) boxOf(flags *runFlags, args []string) (*boxed, error) {
	in := &boxed{tool: flags.tool, spec: box.Spec{Argv: args, Read: flags.read, Stdin: file(c.stdin), Stdout: file(c.stdout), Stderr: file(c.stderr)}}
	var err error
	if in.spec.Work, err = filepath.Abs(flags.work); err != nil {
		return nil, usage(err.Error(), "name an existing directory with --work")
	}
	if in.protect, err = flags.protects(); err != nil {
		return nil, err
	}
	if err := c.kindOf(flags, in); err != nil || in.plain {
		return in, err
	}
	if in.limits, in.bounded, err = flags.limits(); err != nil {
		return nil, err
	}
	in.spec.Limits.Processes = in.limits.Processes
	for _, path := range flags.read {
		if !filepath.IsAbs(path) || filepath.Clean(path) != path {
			return nil, usage("--read "+path+" is not a whole path", "write it from the root, without . and ..")
		}
	}
	if in.spec.Env, err = c.boxEnv(flags.env); err != nil {
		return nil, err
	}
	if in.credentials, err = parseGiven("credential", flags.credentials); err != nil {
		return nil, err
	}
	if in.git, err = parseGiven("git", flags.git); err != nil {
		return nil, err
	}
	if in.aws, err = parseAWS(flags.aws); err != nil {
		return nil, err
	}
	if in.ssh, err = parseSSH(flags.ssh); err != nil {
		return nil, err
	}
	if in.hosts, err = parseHosts(append(slices.Clone(flags.hosts), names(in.ssh)...)); err != nil {
		return nil, err
	}
	if in.pg, err = scopes.ParseSet(flags.pg); err != nil && flags.pg != "" {
		return nil, usage("--pg "+strconv.Quote(flags.pg)+" is no scope", "write it like --pg provider:database:action")
	}
	in.spec.User, err = ownerOf(flags.user, in.spec.Work)
	return in, err
}

// keeper is the sandbox of a task, as who holds its key lets it be used.
type keeper struct {
	taskID  string
	sandbox ask.Sandbox
	prove   func(method, url, token string) (string, error)
	// complete ends the task for a box that asks for it; nil = the box may not.
	complete func(context.Context) (ask.Completed, error)
}

// furnish enrols the sandbox and makes what the command needs to ask for credentials. In a
// box that is a socket, which serves until serving is done: the key stays in this process.
func (c *cli) furnish(ctx, serving context.Context, o *client.Operator, task broker.Task, in *boxed, ticket broker.Ticket) error {
	id, s, err := c.enrolled(ctx, ticket)
	if err != nil {
		return err
	}
	if in.plain {
		in.spec.Env, err = c.plainEnv(id, filepath.Join(in.dir, "sandbox.key"))
		return err
	}
	k := keeper{
		taskID: id.TaskID, sandbox: s,
		prove: func(method, url, token string) (string, error) {
			return dpop.NewProof(id.Key, method, url, token, "", time.Now())
		},
		complete: func(ctx context.Context) (ask.Completed, error) {
			done, err := o.Complete(ctx, task.ID)
			return ask.Completed{Revoked: done.Revoked, AlreadyExpired: done.AlreadyExpired, Withdrawn: done.Withdrawn, Owed: done.Owed}, err
		},
	}
	if err := c.lend(serving, k, in); err != nil {
		return err
	}
	return c.equip(ctx, serving, o, in, k)
}

// equip gives a box its sockets and its environment.
func (c *cli) equip(ctx, serving context.Context, o *client.Operator, in *boxed, k keeper) (err error) {
	if in.spec.Private, err = c.private(in.dir); err != nil {
		return err
	}
	l, dir, err := in.socket("ask")
	if err != nil {
		return err
	}
	in.mount("ask", dir)
	in.spec.Env = append(in.spec.Env, "EBB_TASK_ID="+k.taskID, "EBB_ASK="+box.Dir+"/ask/socket")
	in.spec.Env = append(in.spec.Env, gitConfig(in.git, in.protect)...)
	if err := c.wayOut(ctx, serving, o, k.taskID, in); err != nil {
		return err
	}
	if err := c.give(ctx, k.sandbox, in); err != nil {
		return err
	}
	if err := c.giveAWS(serving, k.sandbox, in); err != nil {
		return err
	}
	if err := c.givePG(ctx, k.sandbox, in); err != nil {
		return err
	}
	if err := c.giveSSH(ctx, serving, o, k, in); err != nil {
		return err
	}
	go func() {
		_ = ask.Serve(serving, l, ask.Config{
			Sandbox: k.sandbox, Keyless: true, Tool: in.tool, Prove: k.prove, Complete: k.complete, Asked: func(r client.TokenRequest) { c.sayAsked(r.Scope) },
		})
	}()
	return nil
}

// socket listens in a directory of its own, which is mounted into the box.
func (b *boxed) socket(name string) (net.Listener, *os.File, error) {
	path := filepath.Join(b.dir, name, "socket")
	err := os.Mkdir(filepath.Dir(path), 0o711)
	if err == nil {
		var l net.Listener
		if l, err = net.Listen("unix", path); err == nil {
			// The run's own directory is this user's alone: who comes this far is the box.
			if err = os.Chmod(path, 0o666); err == nil {
				var dir *os.File
				if dir, err = box.OpenSocketDir(path, uint32(os.Geteuid())); err == nil {
					return l, dir, nil
				}
			}
			_ = l.Close()
		}
	}
	return nil, nil, fail(err.Error(), dirAdvice(b.dir))
}

// mount gives the box a directory with a socket in it.
func (b *boxed) mount(name string, dir *os.File) {
	if b.spec.Sockets == nil {
		b.spec.Sockets = map[string]*os.File{}
	}
	b.spec.Sockets[name], b.sockets = dir, append(b.sockets, dir)
}

// carry has a port of the box's loopback lead to a socket.
func (b *boxed) carry(port int, socket string) {
	if b.spec.Ports == nil {
		b.spec.Ports = map[int]string{}
	}
	b.spec.Ports[port] = socket
}

func (b *boxed) close() {
	if b.group != nil {
		_ = b.group.Close() // what it has killed may take its time to go
	}
	for _, dir := range b.sockets {
		_ = dir.Close()
	}
}

// private are places that are no box's: ebb's own, and those of this user's runs.
func (c *cli) private(dir string) ([]string, error) {
	cfg, err := c.loadConfig()
	if err != nil {
		return nil, err // what is ebb's own is not known
	}
	all := append(append(cfg.Places(), dir, c.keyPath(operatorKey)), c.runPlaces()...)
	for _, path := range []string{c.configFile, c.keyFile, c.caFile} {
		if path == "" {
			continue
		}
		if path, err = filepath.Abs(path); err != nil {
			return nil, err
		}
		all = append(all, path)
	}
	return all, nil
}

// enrolled makes the sandbox's key and spends the ticket.
func (c *cli) enrolled(ctx context.Context, ticket broker.Ticket) (keyfile.File, *client.Sandbox, error) {
	key, err := client.NewKey(jose.ES256)
	if err != nil {
		return keyfile.File{}, nil, err
	}
	s, err := c.newSandbox(keyfile.File{Key: key})
	if err != nil {
		return keyfile.File{}, nil, err
	}
	e, err := s.Enrol(ctx, ticket.Ticket)
	if err != nil {
		return keyfile.File{}, nil, err
	}
	id := keyfile.File{ClientID: e.ClientID, TaskID: e.TaskID, Key: key}
	s, err = c.newSandbox(id)
	return id, s, err
}
