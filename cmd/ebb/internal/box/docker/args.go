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

	"ebb/cmd/ebb/internal/box"
)

// controlDir is where the shim finds the runner's socket.
const controlDir = box.Dir + "/shim"

// Labels by which boxes of runs that were killed are found.
const (
	labelKeep = "ebb.box.keep" // Spec.Keep
	labelUser = "ebb.box.user" // whose run it is
)

// temporary are places in memory that programs may run from.
var temporary = []string{"/tmp", "/var/tmp", box.Home}

func isTemporary(place string) bool { return slices.Contains(temporary, place) }

// bind is a place of the machine that a container has.
type bind struct {
	from, to string
	write    bool
}

// plan is a box as docker is told of it.
type plan struct {
	name  string
	image image
	keep  string
	user  box.Owner
	limit box.Limits
	binds []bind
}

// args are docker's. There is nothing of CMD in them.
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
		a = append(a, "--memory", bytes, "--memory-swap", bytes) // both together: no swap beside it
	}
	if l.CPU > 0 {
		a = append(a, "--cpus", fmt.Sprintf("%d.%03d", l.CPU/1000, l.CPU%1000))
	}
	for _, place := range temporary {
		// The box's own, because runc gives it the mode that the image has there.
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
	// Streams of the client's are for what the shim has to say before it has CMD's.
	a = append(a, "--sig-proxy=false", "--attach", "stderr", "--entrypoint", box.Self)
	return append(a, "--", p.image.id, "shim", "--control", path.Join(controlDir, "socket")), nil
}

// mount is one record of comma-separated values, as docker reads it.
func (b bind) mount() (string, error) {
	if strings.ContainsAny(b.from+b.to, "\r\n\x00") { // which such a record does not hold as they are
		return "", fmt.Errorf("%w: the path %q cannot be said to Docker", box.ErrPlace, b.from)
	}
	record := []string{"type=bind", "src=" + b.from, "dst=" + b.to}
	if !b.write {
		// What is mounted below it would not be read-only everywhere: it is not there.
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
