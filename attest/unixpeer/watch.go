package unixpeer

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"ebb/attest"
)

// How a sandbox ended.
const (
	processExited  = "process_exited"
	namespaceEnded = "namespace_ended"
	containerEnded = "container_ended"
)

// Watch implements attest.Watcher. A process or a cgroup of another boot, another
// machine or another process namespace than ebb's is seen by nobody here.
func (a *Attestor) Watch(ctx context.Context, id attest.Identity) (attest.Death, error) {
	if err := ctx.Err(); err != nil {
		return attest.Death{}, err
	}
	if a.host == "" || id.Attestor != a.cfg.Name || id.Selectors["host"] != a.host {
		return attest.Death{}, attest.ErrElsewhere
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
			return attest.Death{}, attest.ErrElsewhere // cgroup v1 tells nobody
		}
		return a.watchCgroup(ctx, dir, number)
	}
	return attest.Death{}, attest.ErrElsewhere
}

func (a *Attestor) watchNumber(ctx context.Context, number, started, how string) (attest.Death, error) {
	pid, err := strconv.Atoi(number)
	start, err2 := strconv.ParseUint(started, 10, 64)
	if err != nil || err2 != nil || pid <= 0 {
		return attest.Death{}, attest.ErrElsewhere
	}
	d, err := a.watchProcess(ctx, pid, start)
	if err == nil {
		d.How = how
	}
	return d, err
}

var errEvents = errors.New("cgroup.events is not as cgroup v2 says")

// populated reads cgroup.events: whether any process is left, here or below.
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
