package main

import (
	"cmp"
	"context"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ebb-broker/ebb/attest/dpop"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/ask"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/autorun"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/bwrap"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/cgroup"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/docker"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/none"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/stdio"
	"github.com/ebb-broker/ebb/cmd/internal/keyfile"
	"github.com/ebb-broker/ebb/cmd/internal/out"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/web/client"
	"github.com/ebb-broker/ebb/web/wire"
)

// sandboxed is a command and the sandbox in which it will run.
type sandboxed struct {
	kind   sandbox.Kind
	plain  bool   // without a sandbox
	image  string // image of a Docker sandbox; "" = another kind
	joined bool   // the task was opened by another run
	spec   sandbox.Spec
	tool   string
	// Placeholders for variables, and hosts for which git requests credentials.
	credentials, git []given
	ssh              []sshGiven           // hosts of ssh
	aws              scopes.Set           // for AWS clients
	pg               scopes.Set           // of a database; empty = none
	hosts            []string             // host:port that are reached without proxy settings
	dir              string               // directory of this run, for sockets and keys
	out              *wire.EgressEndpoint // its egress endpoint; nil = none
	limits           cgroup.Limits
	bounded          bool           // limits were requested: without them no sandbox is started
	group            *cgroup.Group  // nil = the sandbox has no cgroup of its own
	guarding         *autorun.Guard // of the work directory; nil = it is not watched
	protect          bool           // files that make programs run are read-only
	sockets          []*os.File     // directories of the sandbox's sockets, to close in this process
	streams          *stdio.Streams // nil = the user's streams are passed directly
}

// sandboxOf checks the flags and returns the described sandbox. It has no side
// effects.
func (c runCommand) sandboxOf(flags *runFlags, args []string) (*sandboxed, error) {
	in := &sandboxed{tool: flags.tool, spec: sandbox.Spec{Argv: args, Read: flags.read, Stdin: file(c.stdin), Stdout: file(c.stdout), Stderr: file(c.stderr)}}
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
			return nil, usage("--read "+path+" is not an absolute, clean path", "write an absolute path without . and ..")
		}
	}
	if in.spec.Env, err = c.sandboxEnv(flags.env); err != nil {
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
		return nil, usage("--pg "+strconv.Quote(flags.pg)+" is not a scope", "write it like --pg provider:database:action")
	}
	in.spec.User, err = ownerOf(flags.user, in.spec.Work)
	return in, err
}

// keeper is the sandbox of a task, as accessible to a run: through its key, or
// through the run that has the key.
type keeper struct {
	taskID  string
	sandbox ask.Sandbox
	prove   func(method, url, token string) (string, error)
	// complete completes the task when the sandbox requests it; nil = the sandbox
	// may not.
	complete func(context.Context) (ask.Completed, error)
}

// furnish enrols the sandbox and prepares the command's access to ebb. For a
// sandbox that is a socket, served until serving is done: the key stays in this
// process.
func (c runCommand) furnish(ctx, serving context.Context, o *client.Operator, task wire.Task, in *sandboxed, ticket client.Ticket) error {
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
			done, err := o.Tasks.Complete(ctx, task.ID)
			return ask.Completed{Revoked: done.Revoked, AlreadyExpired: done.AlreadyExpired, Withdrawn: done.Withdrawn, PendingRevocations: done.PendingRevocations}, err
		},
	}
	if err := c.lend(serving, k, in); err != nil {
		return err
	}
	return c.equip(ctx, serving, o, in, k)
}

// equip creates the sockets and the environment of a sandbox.
func (c runCommand) equip(ctx, serving context.Context, o *client.Operator, in *sandboxed, k keeper) (err error) {
	if in.spec.Private, err = c.private(in.dir); err != nil {
		return err
	}
	l, dir, err := in.socket("ask")
	if err != nil {
		return err
	}
	in.mount("ask", dir)
	in.spec.Env = append(in.spec.Env, "EBB_TASK_ID="+k.taskID, "EBB_ASK="+sandbox.Dir+"/ask/socket")
	in.spec.Env = append(in.spec.Env, gitConfig(in.git, in.protect)...)
	if err := runReport(c).wayOut(ctx, serving, o, k.taskID, in); err != nil {
		return err
	}
	if err := runReport(c).give(ctx, k.sandbox, in); err != nil {
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
			Sandbox: k.sandbox, Keyless: true, Tool: in.tool, Prove: k.prove, Complete: k.complete, Asked: func(r client.TokenRequest, p client.Pending) { c.sayAsked(r.Scope, p) },
		})
	}()
	return nil
}

// socket listens in a new directory, which is mounted into the sandbox.
func (b *sandboxed) socket(name string) (net.Listener, *os.File, error) {
	path := filepath.Join(b.dir, name, "socket")
	err := os.Mkdir(filepath.Dir(path), 0o711)
	if err == nil {
		var l net.Listener
		if l, err = net.Listen("unix", path); err == nil {
			// The run's directory is accessible to this user only, so that besides
			// this user only the sandbox reaches the socket.
			if err = os.Chmod(path, 0o666); err == nil {
				var dir *os.File
				if dir, err = sandbox.OpenSocketDir(path, uint32(os.Geteuid())); err == nil {
					return l, dir, nil
				}
			}
			_ = l.Close()
		}
	}
	return nil, nil, fail(err.Error(), dirAdvice(b.dir))
}

// mount gives the sandbox a directory with a socket.
func (b *sandboxed) mount(name string, dir *os.File) {
	if b.spec.Sockets == nil {
		b.spec.Sockets = map[string]*os.File{}
	}
	b.spec.Sockets[name], b.sockets = dir, append(b.sockets, dir)
}

// carry forwards a port of the sandbox's loopback to a socket.
func (b *sandboxed) carry(port int, socket string) {
	if b.spec.Ports == nil {
		b.spec.Ports = map[int]string{}
	}
	b.spec.Ports[port] = socket
}

func (b *sandboxed) close() {
	if b.group != nil {
		_ = b.group.Close() // the killed processes may take some time to end
	}
	for _, dir := range b.sockets {
		_ = dir.Close()
	}
}

// private returns the paths that no sandbox may have: those of ebb, and those
// of this user's runs.
func (c runCommand) private(dir string) ([]string, error) {
	cfg, err := c.loadConfig()
	if err != nil {
		return nil, err // without the configuration, ebb's own paths are unknown
	}
	all := append(append(cfg.Places(), dir, keyCommands(c).keyPath(operatorKey)), c.runPlaces()...)
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

// enrolled generates the sandbox's key and enrols with the ticket.
func (c runCommand) enrolled(ctx context.Context, ticket client.Ticket) (keyfile.File, *client.Sandbox, error) {
	key, err := client.NewKey(jose.ES256)
	if err != nil {
		return keyfile.File{}, nil, err
	}
	s, err := tokenCommands(c).newSandbox(keyfile.File{Key: key})
	if err != nil {
		return keyfile.File{}, nil, err
	}
	e, err := s.Enrol(ctx, ticket.Ticket)
	if err != nil {
		return keyfile.File{}, nil, err
	}
	id := keyfile.File{ClientID: e.ClientID, TaskID: e.TaskID, Key: key}
	s, err = tokenCommands(c).newSandbox(id)
	return id, s, err
}

// kindOf chooses the kind of the sandbox.
func (c runCommand) kindOf(flags *runFlags, in *sandboxed) error {
	kind := flags.kind
	if kind == "auto" {
		kind = "bwrap"
		if _, err := exec.LookPath(kind); err != nil && flags.image != "" {
			kind = "docker"
		} else if flags.image != "" {
			c.sayf("ebb: bubblewrap creates the sandbox with this machine's programs; use --sandbox docker for --image\n")
		}
	} else if flags.image != "" && kind != "docker" {
		return usage("--image needs --sandbox docker", "remove --image, or choose --sandbox docker")
	}
	switch kind {
	case "none":
		in.kind, in.plain = none.Kind{}, true
		return c.noneOf(flags)
	case "bwrap":
		in.kind = bwrap.Kind{}
		return nil
	case "docker":
		if err := docker.CheckImage(flags.image); err != nil {
			return usage("--image: "+err.Error(), "name an image that the daemon has, preferably by its digest: --image NAME@sha256:...")
		}
		in.kind, in.image = docker.Kind{Image: flags.image}, flags.image
		return nil
	}
	return usage("--sandbox "+strconv.Quote(flags.kind)+" is not a kind of sandbox", "choose auto, bwrap, docker or none")
}

// noneOf refuses flags that need a sandbox.
func (c runCommand) noneOf(flags *runFlags) error {
	if len(flags.read)+len(flags.env)+len(flags.credentials)+len(flags.git)+len(flags.hosts)+len(flags.ssh) > 0 || flags.user != "" || flags.aws != "" || flags.pg != "" || flags.memory != "" || flags.cpus != 0 || flags.pids != defaultPIDs {
		return usage("--read, --env, --credential, --git, --ssh, --aws, --host, --pg, --user, --memory, --cpus and --pids need a sandbox", "remove them: with --sandbox none CMD has the access of this user")
	}
	return nil
}

// ownerOf returns the user of a sandbox on the machine: nil for the user of
// this process, and never root.
func ownerOf(flag, work string) (*sandbox.Owner, error) {
	if os.Geteuid() != 0 {
		if flag != "" {
			return nil, usage("--user is allowed for root only", "remove it: the sandbox runs as this user")
		}
		return nil, nil
	}
	if flag != "" {
		return parseOwner(flag)
	}
	info, err := os.Stat(work)
	if err != nil {
		return nil, usage(err.Error(), "name an existing directory with --work")
	}
	st, is := info.Sys().(*syscall.Stat_t)
	if !is || st.Uid == 0 {
		return nil, usage("the work directory "+work+" belongs to root, and no sandbox runs as root", rootAdvice(work))
	}
	return &sandbox.Owner{UID: st.Uid, GID: st.Gid}, nil
}

// rootAdvice returns the flag with which root can run a sandbox in a directory of root.
func rootAdvice(work string) string {
	name := cmp.Or(os.Getenv("SUDO_USER"), "nobody")
	if name == "root" {
		name = "nobody"
	}
	return "run CMD as another user: --user " + out.Line(name) + "; CMD can write to " + work + " only if that user may (chown -R " + out.Line(name) + " " + work + "), or choose a --work of that user"
}

func parseOwner(flag string) (*sandbox.Owner, error) {
	name, group, two := strings.Cut(flag, ":")
	if u, err := user.Lookup(name); err == nil && !two {
		name, group = u.Uid, u.Gid
	}
	uid, err1 := strconv.ParseUint(name, 10, 32)
	gid, err2 := uid, error(nil)
	if group != "" {
		gid, err2 = strconv.ParseUint(group, 10, 32)
	}
	if err1 != nil || err2 != nil || uid == 0 || gid == 0 {
		return nil, usage("--user "+strconv.Quote(flag)+" is not a user of a sandbox", "write an ID such as 1000 or 1000:1000, or the name of a user other than root")
	}
	return &sandbox.Owner{UID: uint32(uid), GID: uint32(gid)}, nil
}
