//go:build linux

package docker

import (
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/place"
)

// controlDir is the directory of the runner's socket for the shim.
const controlDir = sandbox.Dir + "/shim"

// Labels by which sandboxes of runs that were killed are found.
const (
	labelKeep = "ebb.sandbox.keep" // Spec.Keep
	labelUser = "ebb.sandbox.user" // user ID of the run
)

// temporary are tmpfs directories from which programs may run.
var temporary = []string{"/tmp", "/var/tmp", sandbox.Home}

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
	user  sandbox.Owner
	limit sandbox.Limits
	binds []bind
}

// args returns docker's arguments. They contain nothing of CMD or its
// environment.
func (p *plan) args() ([]string, error) {
	l := p.limit
	a := []string{
		"run", "--rm", "--pull", "never", "--name", p.name, "--label", labelKeep + "=" + p.keep, "--label", labelUser + "=" + strconv.Itoa(os.Geteuid()),
		"--network", "none", "--ipc", "private", "--cgroupns", "private", "--hostname", sandbox.User,
		"--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
		"--user", fmt.Sprintf("%d:%d", p.user.UID, p.user.GID), "--workdir", sandbox.WorkDir,
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
		if place != sandbox.WorkDir && !isTemporary(place) {
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
	a = append(a, "--sig-proxy=false", "--attach", "stderr", "--entrypoint", sandbox.Self)
	return append(a, "--", p.image.id, "shim", "--control", path.Join(controlDir, "socket")), nil
}

// mount returns the value of --mount: a CSV record, as docker reads it.
func (b bind) mount() (string, error) {
	if strings.ContainsAny(b.from+b.to, "\r\n\x00") { // a CSV record cannot contain these unchanged
		return "", fmt.Errorf("%w: the path %q cannot be passed to Docker", sandbox.ErrPlace, b.from)
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

// furnish returns the paths that are mounted into the sandbox, because the
// daemon accepts only paths, and opens each: verify checks that the opened file
// is the mounted one.
func furnish(m place.Mounts, s sandbox.Spec) (binds []bind, all place.Mounts, err error) {
	all = slices.Clone(m)
	files := filepath.Join(s.Keep, "files")
	if err := os.Mkdir(files, 0o711); err != nil {
		return nil, nil, err
	}
	etc := sandbox.Etc(s)
	for i, path := range slices.Sorted(maps.Keys(etc)) {
		from := filepath.Join(files, strconv.Itoa(i))
		if err := os.WriteFile(from, etc[path], 0o444); err != nil {
			return nil, nil, err
		}
		f, err := os.Open(from)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, place.Mount{From: f, To: path})
	}
	for _, one := range all {
		from, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(one.From.Fd())))
		if err != nil {
			return nil, nil, err
		}
		binds = append(binds, bind{from: from, to: one.To, write: one.Write})
	}
	return append(binds, bind{from: filepath.Join(s.Keep, "shim"), to: controlDir}), all, nil
}

// listen creates the socket for the shim. Only this sandbox has it, and it is
// removed once the shim has connected.
func listen(keep string) (*net.UnixListener, error) {
	dir := filepath.Join(keep, "shim")
	if err := os.Mkdir(dir, 0o711); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "socket"), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen for the shim of the sandbox: %w", err)
	}
	if err := os.Chmod(filepath.Join(dir, "socket"), 0o666); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// maxImage is the maximum length of an image's name, in bytes.
const maxImage = 512

// imageForm matches the name, digest or ID of an image (the reference grammar
// of distribution is narrower). It excludes options, line breaks and absolute
// paths.
var imageForm = lazyregexp.New(`\A[A-Za-z0-9][A-Za-z0-9._/:@-]*\z`)

// CheckImage refuses a text that is not the name of an image.
func CheckImage(name string) error {
	switch {
	case name == "":
		return errors.New("the image name is empty")
	case len(name) > maxImage || !imageForm.MatchString(name) || strings.Contains(name, "//"):
		return fmt.Errorf("%.80q is not a valid image name", name)
	}
	return nil
}

// image is an image that the daemon has.
type image struct {
	id      string   // digest of its configuration, which determines the whole image
	volumes []string // paths that it declares as volumes
}

// idForm matches the daemon's ID of an image.
var idForm = lazyregexp.New(`\Asha256:[0-9a-f]{64}\z`)

// image finds an image of the daemon. It pulls none, so that a sandbox never
// runs an image that was just published under that name.
func (c *client) image(name string) (image, error) {
	var found []struct {
		ID     string `json:"Id"`
		Config struct{ Volumes map[string]any }
	}
	if err := c.json(&found, "image", "inspect", "--", name); err != nil {
		return image{}, fmt.Errorf("the daemon does not have the image %s; pull it with `docker pull %[1]s`, preferably by its digest: %w", name, err)
	}
	if len(found) != 1 || !idForm.MatchString(found[0].ID) {
		return image{}, fmt.Errorf("%s does not name exactly one image", name)
	}
	i := image{id: found[0].ID, volumes: slices.Sorted(maps.Keys(found[0].Config.Volumes))}
	for _, v := range i.volumes {
		if err := checkVolume(v); err != nil {
			return image{}, err
		}
	}
	return i, nil
}

var volumeForm = lazyregexp.New(`\A(/[A-Za-z0-9._-]+)+\z`)

// checkVolume refuses a declared volume at a path that the sandbox uses itself.
func checkVolume(v string) error {
	if !volumeForm.MatchString(v) || path.Clean(v) != v {
		return fmt.Errorf("the image declares a volume at %.80q, which is not a supported path", v)
	}
	for _, own := range []string{sandbox.Dir, sandbox.WorkDir, sandbox.Home, "/dev", "/etc", "/proc", "/sys", "/tmp", "/var/tmp"} {
		if v != sandbox.WorkDir && !isTemporary(v) && (place.Within(v, own) || place.Within(own, v)) {
			return fmt.Errorf("the image declares a volume at %s, which the sandbox uses itself", v)
		}
	}
	return nil
}
