//go:build linux

package docker

import (
	"debug/elf"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"ebb/cmd/ebb/internal/box"
	"ebb/cmd/ebb/internal/box/place"
)

// Kind implements box.Kind.
type Kind struct {
	Image   string // by name, digest or id; the daemon must have it
	Program string // Docker's client; "" = docker on the PATH
	Host    string // the daemon's, like unix:///run/docker.sock; "" = as the client is set up
	Self    string // this binary, which has the command shim; "" = as the system says
}

// Start implements box.Kind.
func (k Kind) Start(s box.Spec) (box.Running, error) {
	if err := CheckImage(k.Image); err != nil {
		return nil, fmt.Errorf("%w: %w", box.ErrNone, err)
	}
	if s.User == nil {
		s.User = &box.Owner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	}
	if s.User.UID == 0 || s.User.GID == 0 {
		return nil, fmt.Errorf("%w: what runs as root in a container is root to the machine: a box needs a user of its own", box.ErrNone)
	}
	m, err := place.Of(s, k.Self)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if err := static(m.Self()); err != nil {
		return nil, fmt.Errorf("%w: %w", box.ErrNone, err)
	}
	c, err := k.client(s.Keep)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", box.ErrNone, err)
	}
	bounds, err := c.daemon()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", box.ErrNone, err)
	}
	s.Limits = s.Limits.OrDefault()
	s.Limits.CPU = min(s.Limits.CPU, bounds.processors*1000)
	if err := c.bury(); err != nil {
		return nil, fmt.Errorf("%w: %w", box.ErrNone, err)
	}
	image, err := c.image(k.Image)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", box.ErrNone, err)
	}
	return start(c, image, m, s)
}

// static refuses a binary that would be loaded by what the image has for a loader: it could not
// start, or the image would run before the shim does.
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

// bounds are what a daemon can keep.
type bounds struct{ processors uint64 }

// daemon refuses one that could not keep what a box promises.
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
		return bounds{}, fmt.Errorf("the daemon of Docker does not answer: %s", strings.Join(d.ServerErrors, "; "))
	case d.OSType != "linux":
		return bounds{}, fmt.Errorf("the daemon of Docker runs no containers of Linux")
	case strings.Contains(options, "name=rootless"), strings.Contains(options, "name=userns"):
		return bounds{}, fmt.Errorf("the daemon of Docker is rootless or remaps users: the box would be another user here, to whom the work directory is not: use a daemon of root's, without userns-remap")
	case !strings.Contains(options, "name=seccomp"), strings.Contains(options, "profile=unconfined"):
		return bounds{}, fmt.Errorf("the daemon of Docker filters no system calls (seccomp)")
	case !d.MemoryLimit, !d.CpuCfsQuota, !d.PidsLimit:
		return bounds{}, fmt.Errorf("the daemon of Docker cannot bound memory, processor time and processes of a container")
	}
	return bounds{processors: d.NCPU}, nil
}
