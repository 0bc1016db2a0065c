//go:build linux

package docker

import (
	"debug/elf"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/place"
)

// Kind implements sandbox.Kind.
type Kind struct {
	Image   string // name, digest or ID; the daemon must have the image
	Program string // path of the Docker client; "" = docker on the PATH
	Host    string // address of the daemon, like unix:///run/docker.sock; "" = the client's current context
	Self    string // path of this binary, which has the command shim; "" = os.Executable
}

// Start implements sandbox.Kind.
func (k Kind) Start(s sandbox.Spec) (sandbox.Running, error) {
	if err := CheckImage(k.Image); err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrNone, err)
	}
	if s.User == nil {
		s.User = &sandbox.Owner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	}
	if s.User.UID == 0 || s.User.GID == 0 {
		return nil, fmt.Errorf("%w: a sandbox needs a user and group other than root, because a container's root is the machine's root", sandbox.ErrNone)
	}
	m, err := place.Of(s, k.Self)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if err := static(m.Self()); err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrNone, err)
	}
	c, err := k.client(s.Keep)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrNone, err)
	}
	bounds, err := c.daemon()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrNone, err)
	}
	s.Limits = s.Limits.OrDefault()
	s.Limits.CPU = min(s.Limits.CPU, bounds.processors*1000)
	if err := c.bury(); err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrNone, err)
	}
	image, err := c.image(k.Image)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", sandbox.ErrNone, err)
	}
	return start(c, image, m, s)
}

// static refuses a dynamically linked binary: the image's loader would load it,
// so it might not start, or code of the image would run before the shim.
func static(self *os.File) error {
	f, err := elf.Open("/proc/self/fd/" + strconv.Itoa(int(self.Fd())))
	if err != nil {
		return err
	}
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return fmt.Errorf("%s is linked dynamically and cannot be the first process of a container: build ebb with CGO_ENABLED=0", self.Name())
	}
	return nil
}

// bounds are limits of the daemon's machine.
type bounds struct{ processors uint64 }

// daemon refuses a daemon that cannot isolate or limit a sandbox as required.
func (c *client) daemon() (bounds, error) {
	var d struct {
		ServerErrors                        []string
		OSType                              string
		SecurityOptions                     []string
		MemoryLimit, CpuCfsQuota, PidsLimit bool
		NCPU                                uint64
	}
	if err := c.json(&d, "info", "--format", "{{json .}}"); err != nil {
		return bounds{}, err
	}
	options := strings.Join(d.SecurityOptions, " ")
	switch {
	case len(d.ServerErrors) > 0:
		return bounds{}, fmt.Errorf("the Docker daemon reports errors: %s", strings.Join(d.ServerErrors, "; "))
	case d.OSType != "linux":
		return bounds{}, fmt.Errorf("the Docker daemon does not run Linux containers")
	case strings.Contains(options, "name=rootless"), strings.Contains(options, "name=userns"):
		return bounds{}, fmt.Errorf("the Docker daemon is rootless or remaps users, so the sandbox's user could not access the work directory; use a daemon that runs as root, without userns-remap")
	case !strings.Contains(options, "name=seccomp"), strings.Contains(options, "profile=unconfined"):
		return bounds{}, fmt.Errorf("the Docker daemon does not filter system calls (seccomp); enable its default seccomp profile")
	case !d.MemoryLimit, !d.CpuCfsQuota, !d.PidsLimit:
		return bounds{}, fmt.Errorf("the Docker daemon cannot limit memory, processor time and processes of a container")
	}
	return bounds{processors: d.NCPU}, nil
}
