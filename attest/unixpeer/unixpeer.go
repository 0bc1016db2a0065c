package unixpeer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
)

// Attestor judges the processes that connect to ebb's unix socket.
type Attestor struct {
	cfg     Config
	self    facts         // facts about ebb's own process, which selectors leave out
	inside  string        // id of the container that ebb itself runs in, "" for none
	cgroups string        // mount point of cgroup v2, "" for none
	host    string        // identifies this boot of this machine and ebb's process namespace
	exes    chan struct{} // limits concurrent digests to maxExes
	runtime runtime       // nil for none
}

var _ attest.Watcher = (*Attestor)(nil)

// New returns an Attestor. It makes no connections.
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
	// When these cannot be read, Attest returns an error.
	a.self, a.host, a.cgroups = ownFacts(c.Proc)
	a.inside, _ = c.container(a.self.cgroup.path)
	return a, nil
}

// facts are what the kernel reports about one process. Zero members are unknown.
type facts struct {
	start                uint64 // ticks since boot
	cgroup               cgroup
	netns, pidns, userns uint64 // inodes
	unreadable           error  // why a namespace is unknown
}

// replayLife is how long a process stays bound to its first key after its last use. It
// equals the default lifetime of a task.
const replayLife = 24 * time.Hour

// Attest implements attest.Attestor.
func (a *Attestor) Attest(ctx context.Context, e attest.Evidence) (attest.Identity, error) {
	if err := ctx.Err(); err != nil {
		return attest.Identity{}, a.cannot(err)
	}
	p, err := a.checkPeer(ctx, e)
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
			return attest.Identity{}, a.cannot(fmt.Errorf("%s cannot be read; run ebb as the user of the sandbox or with CAP_SYS_PTRACE: %w", name, f.unreadable))
		}
		return attest.Identity{}, attest.Reject(attest.ReasonMeasurement,
			"the process lacks a selector that this attestor requires, so it is not in a sandbox of the expected kind", fmt.Errorf("it has no %s", name))
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

// checkPeer returns the connected process, or an error when the evidence is not only a
// process or when the kernel or procfs cannot identify it.
func (a *Attestor) checkPeer(ctx context.Context, e attest.Evidence) (*attest.Peer, error) {
	p := e.Channel.Peer
	switch {
	case len(e.Document) > attest.MaxDocument:
		return nil, attest.Reject(attest.ReasonOversized, "the document is too large, and this attestor accepts no document; send none", nil)
	case len(e.Document) > 0:
		return nil, attest.Reject(attest.ReasonMalformed, "this attestor judges the connection and accepts no document; send none", nil)
	case p == nil:
		return nil, attest.Reject(attest.ReasonType, "this attestor judges processes that connect to the unix socket of ebb; connect to that socket", nil)
	case p.PIDFD < 0:
		return nil, a.cannot(errors.New("the kernel provides no pidfd of the peer; use Linux 6.5 or newer"))
	case p.PID <= 0:
		return nil, a.cannot(errors.New("the process is outside ebb's process namespace; run ebb in the process namespace of the machine"))
	case a.host == "":
		return nil, a.cannot(errors.New("boot_id or ebb's own namespace cannot be read from procfs; mount procfs where ebb runs"))
	}
	attest.Passed(ctx, "connection", "a process on the unix socket")
	return p, nil
}

// examine reads the facts about a process and its selectors. It checks before and after
// that the process is alive, which proves that all facts are of that process.
func (a *Attestor) examine(ctx context.Context, p attest.Peer) (facts, map[string]string, error) {
	if err := a.alive(p); err != nil {
		return facts{}, nil, err
	}
	f, sel, err := a.read(ctx, p)
	// When the process exited meanwhile, that is the reason for any read error.
	if dead := a.alive(p); dead != nil {
		return facts{}, nil, dead
	}
	if err != nil {
		return facts{}, nil, err
	}
	attest.Passed(ctx, "process alive, before and after", "pid "+sel["pid"])
	return f, sel, nil
}

// alive returns nil while the process runs, and a rejection after it has exited.
func (a *Attestor) alive(p attest.Peer) error {
	dead, err := exited(p.PIDFD)
	if err != nil {
		return a.cannot(err)
	}
	if dead {
		return attest.Reject(attest.ReasonExited, "the process that connected has exited; connect from a running process", nil)
	}
	return nil
}

// read reads the facts about a process and makes its selectors.
func (a *Attestor) read(ctx context.Context, p attest.Peer) (facts, map[string]string, error) {
	f, err := readFacts(a.cfg.Proc, p.PID, p.PIDFD)
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
		if first, start, err := a.initProcess(p.PID, f.pidns); err == nil {
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

// maxPath is the maximum length of a selector's value that can be registered.
const maxPath = 2048

const labelPrefix = "label/"

// cannot wraps an error which means that the process could not be judged.
func (a *Attestor) cannot(err error) error {
	return fmt.Errorf("attest/unixpeer %q: cannot judge: %w", a.cfg.Name, err)
}

// The values of attest.Exit.How.
const (
	processExited  = "process_exited"
	namespaceEnded = "namespace_ended"
	containerEnded = "container_ended"
)

// Watch implements attest.Watcher. It returns attest.ErrElsewhere for a process or a
// cgroup of another machine, an earlier boot, or a process namespace other than ebb's.
func (a *Attestor) Watch(ctx context.Context, id attest.Identity) (attest.Exit, error) {
	if err := ctx.Err(); err != nil {
		return attest.Exit{}, err
	}
	if a.host == "" || id.Attestor != a.cfg.Name || id.Selectors["host"] != a.host {
		return attest.Exit{}, attest.ErrElsewhere
	}
	switch a.cfg.Liveness {
	case LivenessProcess:
		return a.watchNumber(ctx, id.Selectors["pid"], id.Selectors["start_time"], processExited)
	case LivenessNamespace:
		return a.watchNumber(ctx, id.Selectors["init_pid"], id.Selectors["init_start_time"], namespaceEnded)
	case LivenessContainer:
		dir := id.Selectors["cgroup"]
		if _, own := a.cfg.container(dir); own != "" {
			dir = own
		}
		number, err := strconv.ParseUint(id.Selectors["cgroup_id"], 10, 64)
		if err != nil || a.cgroups == "" || !strings.HasPrefix(dir, "/") || strings.Contains(dir+"/", "/../") {
			return attest.Exit{}, attest.ErrElsewhere // cgroup v1 reports no events
		}
		return a.watchCgroup(ctx, dir, number)
	}
	return attest.Exit{}, attest.ErrElsewhere
}

// watchNumber waits for the exit of the process whose selectors are number and started.
func (a *Attestor) watchNumber(ctx context.Context, number, started, how string) (attest.Exit, error) {
	pid, err := strconv.Atoi(number)
	start, err2 := strconv.ParseUint(started, 10, 64)
	if err != nil || err2 != nil || pid <= 0 {
		return attest.Exit{}, attest.ErrElsewhere
	}
	d, err := a.watchProcess(ctx, pid, start)
	if err == nil {
		d.How = how
	}
	return d, err
}

var errEvents = errors.New("cgroup.events has no line populated, which cgroup v2 defines")

// populated parses cgroup.events and reports whether the cgroup, or one below it, has a
// process.
func populated(text string) (bool, error) {
	for line := range strings.Lines(text) {
		switch strings.TrimSuffix(line, "\n") {
		case "populated 1":
			return true, nil
		case "populated 0":
			return false, nil
		}
	}
	return false, errEvents
}
