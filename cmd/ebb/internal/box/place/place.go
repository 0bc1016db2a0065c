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

	"ebb/cmd/ebb/internal/box"
)

// system are places that a box sees anyway or must not replace: nothing that is one of them,
// or holds one, is given to a box.
var system = []string{"/bin", "/boot", "/etc", "/home", "/lib", "/lib64", "/opt", "/root", "/sbin", "/tmp", "/usr", "/var/lib", "/var/run", "/var/tmp"}

// closed are places of which nothing is given to a box either: the kernel's and the system's
// doors, and what is kept from users.
var closed = []string{
	"/dev", "/proc", "/run", "/sys", "/var/run", "/etc/gshadow", "/etc/gshadow-", "/etc/shadow", "/etc/shadow-", "/etc/ssh", "/etc/ssl/private", "/etc/sudoers", "/etc/sudoers.d",
}

// keys are where programs keep a person's keys, below a home directory.
var keys = []string{
	".aws", ".azure", ".config/gcloud", ".config/gh", ".docker", ".git-credentials", ".gnupg", ".kube", ".netrc", ".npmrc", ".password-store", ".pgpass", ".pypirc", ".ssh",
}

// Places says what of the machine a box may have.
type Places struct {
	whole   []string // may not be given, nor what holds them
	nothing []string // nor what is in them
}

// New knows the homes of all users: what is private to one is so to every box.
func New(private []string) (*Places, error) {
	homes, err := homes()
	if err != nil {
		return nil, err
	}
	p := &Places{whole: system, nothing: slices.Concat(closed, private)}
	for _, home := range homes {
		p.whole = append(p.whole, home)
		for _, name := range keys {
			p.nothing = append(p.nothing, filepath.Join(home, name))
		}
	}
	p.whole, p.nothing = resolved(p.whole), resolved(p.nothing)
	return p, nil
}

// resolved adds to each path what it leads to.
func resolved(paths []string) []string {
	for _, path := range slices.Clone(paths) {
		if real, err := filepath.EvalSymlinks(path); err == nil && real != path {
			paths = append(paths, real)
		}
	}
	return paths
}

// homes are the home directories of this machine's users, and of whoever this process says it
// is. One that is / is nobody's.
func homes() ([]string, error) {
	text, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return nil, fmt.Errorf("%w: whose homes there are cannot be read: %w", box.ErrNone, err)
	}
	mine, _ := os.UserHomeDir()
	all := []string{mine}
	for line := range strings.Lines(string(text)) {
		if field := strings.Split(line, ":"); len(field) == 7 { // passwd(5)
			all = append(all, field[5])
		}
	}
	below, err := filepath.Glob("/home/*") // of users that /etc/passwd does not know
	if err != nil {
		return nil, err
	}
	all = append(all, below...)
	return slices.DeleteFunc(all, func(home string) bool { return !filepath.IsAbs(home) || filepath.Clean(home) == "/" }), nil
}

// Check refuses a place that no box may have. private is as in box.Spec.
func Check(path string, private []string) error {
	p, err := New(private)
	if err != nil {
		return err
	}
	f, err := p.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// Open opens a place, so that what is checked is what is mounted, and says which it really is.
func (p *Places) Open(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", box.ErrPlace, path, err)
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

func (p *Places) check(path string) error {
	for _, place := range p.whole {
		if Within(place, path) {
			return fmt.Errorf("%w: %s is or holds %s", box.ErrPlace, path, place)
		}
	}
	for _, place := range p.nothing {
		if Within(place, path) || Within(path, place) {
			return fmt.Errorf("%w: %s is, holds or is part of %s", box.ErrPlace, path, place)
		}
	}
	return nil
}

// Within reports whether path is dir or below it. Both are from the root, and clean.
func Within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}
