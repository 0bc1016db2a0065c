package unixpeer

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/ebb-broker/ebb/attest"
)

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
