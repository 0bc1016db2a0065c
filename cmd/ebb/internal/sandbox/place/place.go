//go:build linux

package place

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
)

// system are paths that a sandbox has anyway or must not replace: no sandbox is
// given one of them, or a directory that contains one.
var system = []string{"/bin", "/boot", "/etc", "/home", "/lib", "/lib64", "/opt", "/root", "/sbin", "/tmp", "/usr", "/var/lib", "/var/run", "/var/tmp"}

// closed are paths of which a sandbox is not given any part either: interfaces
// of the kernel and the system, and files that only root may read.
var closed = []string{
	"/dev", "/proc", "/run", "/sys", "/var/run", "/etc/gshadow", "/etc/gshadow-", "/etc/shadow", "/etc/shadow-", "/etc/ssh", "/etc/ssl/private", "/etc/sudoers", "/etc/sudoers.d",
}

// keys are the paths below a home directory at which programs store a user's
// keys.
var keys = []string{
	".aws", ".azure", ".config/gcloud", ".config/gh", ".docker", ".git-credentials", ".gnupg", ".kube", ".netrc", ".npmrc", ".password-store", ".pgpass", ".pypirc", ".ssh",
}

// places knows the paths of the machine that no sandbox may have.
type places struct {
	whole   []string // neither these paths nor directories that contain them
	nothing []string // the same, and paths inside of them
}

// readPlaces reads the homes of all users, because the private files of each are
// refused to every sandbox.
func readPlaces(private []string) (*places, error) {
	homes, err := homes()
	if err != nil {
		return nil, err
	}
	p := &places{whole: system, nothing: slices.Concat(closed, private)}
	for _, home := range homes {
		p.whole = append(p.whole, home)
		for _, name := range keys {
			p.nothing = append(p.nothing, filepath.Join(home, name))
		}
	}
	p.whole, p.nothing = resolved(p.whole), resolved(p.nothing)
	return p, nil
}

// resolved adds the target of each path that is a symbolic link.
func resolved(paths []string) []string {
	for _, path := range slices.Clone(paths) {
		if _, err := os.Lstat(path); err != nil {
			continue // most paths do not exist, and EvalSymlinks would check each directory above them
		}
		if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
			paths = append(paths, real)
		}
	}
	return paths
}

// homes returns the home directories of this machine's users and of this
// process. It leaves out /, the home of some system users.
func homes() ([]string, error) {
	text, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return nil, fmt.Errorf("%w: read the homes of users: %w", sandbox.ErrNone, err)
	}
	mine, _ := os.UserHomeDir()
	all := []string{mine}
	for line := range strings.Lines(string(text)) {
		if field := strings.Split(line, ":"); len(field) == 7 { // passwd(5)
			all = append(all, field[5])
		}
	}
	below, err := filepath.Glob("/home/*") // of users that are not in /etc/passwd
	if err != nil {
		return nil, err
	}
	all = append(all, below...)
	slices.Sort(all)
	all = slices.Compact(all) // system users share /nonexistent
	return slices.DeleteFunc(all, func(home string) bool { return !filepath.IsAbs(home) || filepath.Clean(home) == "/" }), nil
}

// Check refuses a path that no sandbox may have. private is as in sandbox.Spec.
func Check(path string, private []string) error {
	p, err := readPlaces(private)
	if err != nil {
		return err
	}
	f, err := p.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// Open opens a path and checks the path that was really opened, so that the
// checked file is the mounted one.
func (p *places) Open(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", sandbox.ErrPlace, path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	real, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err == nil {
		err = p.check(real)
	}
	if err == nil {
		err = p.check(filepath.Clean(path))
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func (p *places) check(path string) error {
	for _, place := range p.whole {
		if Within(place, path) {
			return fmt.Errorf("%w: %s is or contains %s", sandbox.ErrPlace, path, place)
		}
	}
	for _, place := range p.nothing {
		if Within(place, path) || Within(path, place) {
			return fmt.Errorf("%w: %s is, contains or is inside of %s", sandbox.ErrPlace, path, place)
		}
	}
	return nil
}

// Within reports whether path is dir or below it. Both must be absolute and
// clean.
func Within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}
