package main

import (
	"context"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ebb/attest/dpop"
	"ebb/attest/jose"
	"ebb/broker"
	"ebb/cmd/ebb/internal/ask"
	"ebb/cmd/ebb/internal/box"
	"ebb/cmd/ebb/internal/box/bwrap"
	"ebb/cmd/ebb/internal/box/none"
	"ebb/cmd/ebb/internal/keyfile"
	"ebb/cmd/ebb/internal/pty"
	"ebb/web/client"
)

// boxed is a command on its way into a box.
type boxed struct {
	kind  box.Kind
	plain bool // in no box
	spec  box.Spec
	tool  string
	// Placeholders in variables, and hosts that git asks for.
	credentials, git []given
	dir              string    // of this run, for sockets and keys
	pair             *pty.Pair // nil = the streams are passed on as they are
}

// boxOf is what the flags ask for. Nothing has happened yet when it says no.
func (c *cli) boxOf(flags *runFlags, args []string) (*boxed, error) {
	in := &boxed{tool: flags.tool, spec: box.Spec{Argv: args, Read: flags.read, Stdin: file(c.stdin), Stdout: file(c.stdout), Stderr: file(c.stderr)}}
	var err error
	if in.spec.Work, err = filepath.Abs(flags.work); err != nil {
		return nil, usage(err.Error(), "name an existing directory with --work")
	}
	switch flags.kind {
	case "none":
		in.kind, in.plain = none.Kind{}, true
		return in, c.noneOf(flags)
	case "auto", "bwrap":
		in.kind = bwrap.Kind{}
	default:
		return nil, usage("--box "+strconv.Quote(flags.kind)+" is no kind of box", "choose auto, bwrap or none")
	}
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
	in.spec.User, err = ownerOf(flags.user, in.spec.Work)
	return in, err
}

// noneOf refuses flags that only a box could keep.
func (c *cli) noneOf(flags *runFlags) error {
	if len(flags.read)+len(flags.env)+len(flags.credentials)+len(flags.git) > 0 || flags.user != "" {
		return usage("--read, --env, --credential, --git and --user are for a box", "leave them out with --box none: CMD sees what you see")
	}
	return nil
}

// passedOn are variables that say how to talk to a person, and nothing of who that is.
var passedOn = []string{"TERM", "COLORTERM", "NO_COLOR", "LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES", "TZ"}

// boxEnv is the environment of a box: nothing of this process's but what is named.
func (c *cli) boxEnv(asked []string) ([]string, error) {
	env := []string{"PATH=" + box.Search, "HOME=" + box.Home, "USER=" + box.User, "LOGNAME=" + box.User, "SHELL=/bin/sh", "TMPDIR=/tmp"}
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
			return nil, usage("--env "+strconv.Quote(line)+" is no variable", "write NAME=VALUE, or NAME to pass yours on")
		}
		env = append(env, name+"="+value)
	}
	return env, nil
}

// ownerOf is who a box is to the machine: this process's user, and never root.
func ownerOf(flag, work string) (*box.Owner, error) {
	if os.Geteuid() != 0 {
		if flag != "" {
			return nil, usage("--user is for root", "leave it out: the box is you")
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
		return nil, usage("the work directory belongs to root, and no box runs as root", "name with --user who may write to "+work+", and give it to them, or choose another --work")
	}
	return &box.Owner{UID: st.Uid, GID: st.Gid}, nil
}

func parseOwner(flag string) (*box.Owner, error) {
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
		return nil, usage("--user "+strconv.Quote(flag)+" is nobody that a box may be", "write a number, as in 1000 or 1000:1000, or the name of a user who is not root")
	}
	return &box.Owner{UID: uint32(uid), GID: uint32(gid)}, nil
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
	l, dir, err := in.socket("ask")
	if err != nil {
		return err
	}
	in.spec.Sockets = map[string]string{"ask": dir}
	in.spec.Env = append(in.spec.Env, "EBB_TASK_ID="+id.TaskID, "EBB_ASK="+box.Dir+"/ask/socket")
	in.spec.Env = append(in.spec.Env, gitConfig(in.git)...)
	if err := c.wayOut(ctx, o, task, in); err != nil {
		return err
	}
	if err := c.give(ctx, s, in); err != nil {
		return err
	}
	go func() {
		_ = ask.Serve(serving, l, ask.Config{
			Sandbox: s, Tool: in.tool,
			Prove: func(method, url, token string) (string, error) {
				return dpop.NewProof(id.Key, method, url, token, "", time.Now())
			},
			Asked: func(r client.TokenRequest) { c.sayAsked(r.Scope) },
		})
	}()
	return nil
}

// socket listens in a directory of its own, which is mounted into the box.
func (b *boxed) socket(name string) (net.Listener, string, error) {
	dir := filepath.Join(b.dir, name)
	err := os.Mkdir(dir, 0o711)
	if err == nil {
		var l net.Listener
		if l, err = net.Listen("unix", filepath.Join(dir, "socket")); err == nil {
			// The run's own directory is this user's alone: who comes this far is the box.
			return l, dir, os.Chmod(filepath.Join(dir, "socket"), 0o666)
		}
	}
	return nil, "", fail(err.Error(), "set TMPDIR to a directory that this user can write to")
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

// plainEnv is what a child without a box gets: this process's environment, and a key file.
func (c *cli) plainEnv(id keyfile.File, path string) ([]string, error) {
	if err := keyfile.Write(path, id); err != nil {
		return nil, err
	}
	peer, err := c.peer()
	if err != nil {
		return nil, err
	}
	// What points at the operator's own key or server must not reach the child.
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

// openTerminal gives a box a terminal of its own where the command would have this one.
func (b *boxed) openTerminal() (closing func(), err error) {
	if b.plain || b.spec.Stdin == nil || !pty.Is(b.spec.Stdin) {
		return func() {}, nil
	}
	person := b.spec.Stdin
	if b.pair, err = pty.Open(person, person); err != nil {
		return nil, err
	}
	b.spec.TTY, b.spec.Stdin = true, b.pair.Inner
	for _, f := range []**os.File{&b.spec.Stdout, &b.spec.Stderr} {
		if *f != nil && pty.Is(*f) {
			*f = b.pair.Inner
		}
	}
	return b.pair.Close, nil
}

// file is a stream that a process can have; nil = none of its own.
func file(stream any) *os.File {
	f, _ := stream.(*os.File)
	return f
}

// asker is the runner's socket, where this process is in a box.
func (c *cli) asker() (*ask.Client, error) {
	socket := c.env("EBB_ASK")
	if socket == "" {
		return nil, usage("this is no box of ebb run: EBB_ASK is not set", "start it with `ebb run`")
	}
	return ask.NewClient(socket), nil
}
