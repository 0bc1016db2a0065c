//go:build linux

package docker

import (
	"encoding/csv"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/box"
)

// controlDir is the directory of the runner's socket for the shim.
const controlDir = box.Dir + "/shim"

// Labels by which sandboxes of runs that were killed are found.
const (
	labelKeep = "ebb.box.keep" // Spec.Keep
	labelUser = "ebb.box.user" // user ID of the run
)

// temporary are tmpfs directories from which programs may run.
var temporary = []string{"/tmp", "/var/tmp", box.Home}

func isTemporary(place string) bool { return slices.Contains(temporary, place) }

// bind is a path of the machine that is mounted into a container.
type bind struct {
	from, to string
	write    bool
}

// plan is a sandbox in terms of docker's options.
type plan struct {
	name  string
	image image
	keep  string
	user  box.Owner
	limit box.Limits
	binds []bind
}

// args returns docker's arguments. They contain nothing of CMD or its
// environment.
func (p *plan) args() ([]string, error) {
	l := p.limit
	a := []string{
		"run", "--rm", "--pull", "never", "--name", p.name, "--label", labelKeep + "=" + p.keep, "--label", labelUser + "=" + strconv.Itoa(os.Geteuid()),
		"--network", "none", "--ipc", "private", "--cgroupns", "private", "--hostname", box.User,
		"--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
		"--user", fmt.Sprintf("%d:%d", p.user.UID, p.user.GID), "--workdir", box.WorkDir,
		"--no-healthcheck", "--log-driver", "none", "--sysctl", "net.ipv4.ip_unprivileged_port_start=0",
		"--pids-limit", strconv.FormatUint(l.Processes, 10), "--shm-size", strconv.FormatUint(l.Temporary, 10),
	}
	if l.Memory > 0 {
		bytes := strconv.FormatUint(l.Memory, 10)
		a = append(a, "--memory", bytes, "--memory-swap", bytes) // equal values: no swap in addition
	}
	if l.CPU > 0 {
		a = append(a, "--cpus", fmt.Sprintf("%d.%03d", l.CPU/1000, l.CPU%1000))
	}
	for _, place := range temporary {
		// A tmpfs of its own, because runc would use the mode that the image has at
		// this path.
		a = append(a, "--tmpfs", fmt.Sprintf("%s:rw,exec,nosuid,nodev,uid=%d,gid=%d,mode=1777,size=%d", place, p.user.UID, p.user.GID, l.Temporary))
	}
	for _, place := range p.image.volumes {
		if place != box.WorkDir && !isTemporary(place) {
			a = append(a, "--mount", fmt.Sprintf("type=tmpfs,dst=%s,tmpfs-mode=1777,tmpfs-size=%d", place, l.Temporary))
		}
	}
	for _, b := range p.binds {
		mount, err := b.mount()
		if err != nil {
			return nil, err
		}
		a = append(a, "--mount", mount)
	}
	// The client is attached to stderr only: for the shim's messages before the
	// shim has CMD's streams.
	a = append(a, "--sig-proxy=false", "--attach", "stderr", "--entrypoint", box.Self)
	return append(a, "--", p.image.id, "shim", "--control", path.Join(controlDir, "socket")), nil
}

// mount returns the value of --mount: a CSV record, as docker reads it.
func (b bind) mount() (string, error) {
	if strings.ContainsAny(b.from+b.to, "\r\n\x00") { // a CSV record cannot contain these unchanged
		return "", fmt.Errorf("%w: the path %q cannot be passed to Docker", box.ErrPlace, b.from)
	}
	record := []string{"type=bind", "src=" + b.from, "dst=" + b.to}
	if !b.write {
		// Mounts below it would not be read-only on every kernel, so they are left
		// out.
		record = append(record, "readonly", "bind-nonrecursive=true")
	}
	var text strings.Builder
	w := csv.NewWriter(&text)
	if err := w.Write(record); err != nil {
		return "", err
	}
	w.Flush()
	return strings.TrimSuffix(text.String(), "\n"), w.Error()
}
