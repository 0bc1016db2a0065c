package unixpeer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"ebb/attest"
	"ebb/attest/jose"
)

// Attestor judges the processes that connect to ebb's unix socket.
type Attestor struct {
	cfg     Config
	self    facts  // ebb's own, to be left out of others'
	inside  string // the container that ebb itself is in, "" = none
	cgroups string // where cgroup v2 is mounted, "" = nowhere
	host    string // this boot of this machine, as ebb's process namespace sees it
	exes    chan struct{}
	runtime runtime // nil = ask nobody
}

var _ attest.Watcher = (*Attestor)(nil)

// New makes an Attestor. It connects to nothing.
func New(c Config) (*Attestor, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Proc == "" {
		c.Proc = "/proc"
	}
	a := &Attestor{cfg: c, exes: make(chan struct{}, maxExes)}
	switch {
	case c.Runtime != "":
		a.runtime = newDocker(c.Runtime)
	case c.Containerd != "":
		a.runtime = newContainerd(c.Containerd, c.Namespaces)
	}
	// Where these are missing, Attest says so: it could not judge.
	a.self, a.host, a.cgroups = self(c.Proc)
	a.inside, _ = c.container(a.self.cgroup.path)
	return a, nil
}

// facts are what the kernel says of one process. Zero members are not known.
type facts struct {
	start                uint64 // ticks since boot
	cgroup               cgroup
	netns, pidns, userns uint64 // inodes
	unreadable           error  // why a namespace is not known
}

// replayLife is how long a process stays its first key's after it was last used: as
// long as a task lives when nobody says otherwise.
const replayLife = 24 * time.Hour

// Attest implements attest.Attestor.
func (a *Attestor) Attest(ctx context.Context, e attest.Evidence) (attest.Identity, error) {
	if err := ctx.Err(); err != nil {
		return attest.Identity{}, a.cannot(err)
	}
	p, err := a.peer(ctx, e)
	if err != nil {
		return attest.Identity{}, err
	}
	f, sel, err := a.examine(ctx, *p)
	if err != nil {
		return attest.Identity{}, err
	}
	for _, name := range a.cfg.Require {
		if sel[name] != "" {
			continue
		}
		if f.unreadable != nil {
			return attest.Identity{}, a.cannot(fmt.Errorf("%s cannot be read; ebb needs the user of the sandbox or CAP_SYS_PTRACE for it: %w", name, f.unreadable))
		}
		return attest.Identity{}, attest.Reject(attest.ReasonMeasurement,
			"the process is not in a sandbox of the kind that this attestor is for", fmt.Errorf("it has no %s", name))
	}
	attest.Passed(ctx, "required selectors", fmt.Sprint(a.cfg.Require))
	process := "process/" + sel["pid"] + "/" + sel["start_time"]
	id := attest.Identity{Attestor: a.cfg.Name, Subject: a.host + "/" + process, Class: attest.ClassKernel, Selectors: sel,
		ReplayID: a.host + "/" + process, ReplayUntil: a.cfg.Now().Add(replayLife)}
	switch a.cfg.Subject {
	case SubjectContainer:
		id.Subject = a.host + "/container/" + sel["container_id"]
	case SubjectNetns:
		id.Subject = a.host + "/netns/" + sel["netns"]
	}
	return id, nil
}

// peer is the process to judge, when the evidence is that and nothing else.
func (a *Attestor) peer(ctx context.Context, e attest.Evidence) (*attest.Peer, error) {
	p := e.Channel.Peer
	switch {
	case len(e.Document) > attest.MaxDocument:
		return nil, attest.Reject(attest.ReasonOversized, "the document is too large, and this attestor takes none", nil)
	case len(e.Document) > 0:
		return nil, attest.Reject(attest.ReasonMalformed, "this attestor judges the connection and takes no document; send none", nil)
	case p == nil:
		return nil, attest.Reject(attest.ReasonType, "this attestor judges processes that connect to the unix socket of ebb; use that", nil)
	case p.PIDFD < 0:
		return nil, a.cannot(errors.New("the kernel gives no pidfd of a peer: Linux 6.5 or newer is needed"))
	case p.PID <= 0:
		return nil, a.cannot(errors.New("the process is in no process namespace that ebb sees; run ebb in the machine's own"))
	case a.host == "":
		return nil, a.cannot(errors.New("procfs does not say which machine this is; mount it where ebb runs"))
	}
	attest.Passed(ctx, "connection", "a process on the unix socket")
	return p, nil
}

// examine reads all there is to know of a process between two looks that find it
// alive: then all of it is of that process.
func (a *Attestor) examine(ctx context.Context, p attest.Peer) (facts, map[string]string, error) {
	if err := a.alive(p); err != nil {
		return facts{}, nil, err
	}
	f, sel, err := a.read(ctx, p)
	// A process that has ended meanwhile explains every failure to read.
	if dead := a.alive(p); dead != nil {
		return facts{}, nil, dead
	}
	if err != nil {
		return facts{}, nil, err
	}
	attest.Passed(ctx, "process alive, before and after", "pid "+sel["pid"])
	return f, sel, nil
}

// alive is nil for a process that runs.
func (a *Attestor) alive(p attest.Peer) error {
	dead, err := exited(p.PIDFD)
	if err != nil {
		return a.cannot(err)
	}
	if dead {
		return attest.Reject(attest.ReasonDead, "the process that connected has ended", nil)
	}
	return nil
}

func (a *Attestor) read(ctx context.Context, p attest.Peer) (facts, map[string]string, error) {
	f, err := look(a.cfg.Proc, p.PID, p.PIDFD)
	if err != nil {
		return f, nil, a.cannot(err)
	}
	sel := map[string]string{
		"uid": strconv.FormatUint(uint64(p.UID), 10), "gid": strconv.FormatUint(uint64(p.GID), 10),
		"pid": strconv.Itoa(p.PID), "start_time": strconv.FormatUint(f.start, 10), "host": a.host,
	}
	for name, inode := range map[string]uint64{"netns": f.netns, "pidns": f.pidns, "userns": f.userns} {
		if inode != 0 && !(name == "netns" && inode == a.self.netns) {
			sel[name] = strconv.FormatUint(inode, 10)
		}
	}
	id, dir := a.cfg.container(f.cgroup.path)
	if id == a.inside {
		id = ""
	}
	if f.cgroup.path != "" && f.cgroup != a.self.cgroup && len(f.cgroup.path) <= maxPath && jose.Plain(f.cgroup.path) {
		sel["cgroup"] = f.cgroup.path
		if id == "" {
			dir = f.cgroup.path
		}
		if inode := a.cgroupID(f.cgroup, dir); inode != 0 {
			sel["cgroup_id"] = strconv.FormatUint(inode, 10)
		}
	}
	if id != "" {
		sel["container_id"] = id
		attest.Passed(ctx, "container", id)
	}
	if a.cfg.Liveness == LivenessNamespace && f.pidns != 0 && f.pidns != a.self.pidns {
		if first, start, err := a.first(p.PID, f.pidns); err == nil {
			sel["init_pid"], sel["init_start_time"] = strconv.Itoa(first), strconv.FormatUint(start, 10)
		}
	}
	inspects := id != "" && a.runtime != nil && a.runtime.mayKnow(id)
	if a.cfg.ExeDigest || inspects {
		leave, err := attest.Costly(ctx)
		if err != nil {
			return f, nil, a.cannot(err)
		}
		defer leave()
	}
	if a.cfg.ExeDigest {
		if sum, err := a.digest(ctx, p.PID); err != nil {
			f.unreadable = err
		} else {
			sel["exe_sha256"] = sum
		}
	}
	if inspects {
		if err := a.addImage(ctx, id, p.PID, sel); err != nil {
			return f, nil, err
		}
	}
	return f, sel, nil
}

// maxPath keeps a selector within what can be registered.
const maxPath = 2048

const labelPrefix = "label/"

func (a *Attestor) cannot(err error) error {
	return fmt.Errorf("attest/unixpeer %q: cannot judge: %w", a.cfg.Name, err)
}
