//go:build linux

package bwrap

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"ebb/cmd/ebb/internal/box"
)

// stage is how root starts a box as somebody else: what goes into the box may be where only
// root can go. It is mounted again where all can, in a mount namespace that nobody but this
// thread and what it starts is in.
type stage struct{ at map[string]string }

// stageDir is hidden by the stage: what is there no box ever sees, and bubblewrap does not
// need it.
const stageDir = "/sys"

// newStage moves the calling thread, which must be locked and must end with the box, into a
// mount namespace of its own.
func newStage() (*stage, error) {
	err := wrap("unshare", unix.Unshare(unix.CLONE_NEWNS))
	if err == nil {
		err = wrap("mount", unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""))
	}
	if err == nil {
		err = wrap("mount", unix.Mount("ebb", stageDir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0711,size=64k"))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", box.ErrNone, err)
	}
	return &stage{at: map[string]string{}}, nil
}

// add mounts a place of the machine into the stage.
func (s *stage) add(path string) error {
	if s.at[path] != "" {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	to := filepath.Join(stageDir, strconv.Itoa(len(s.at)))
	if info.IsDir() {
		err = os.Mkdir(to, 0o700)
	} else {
		err = os.WriteFile(to, nil, 0o600)
	}
	if err == nil {
		err = wrap("mount", unix.Mount(path, to, "", unix.MS_BIND|unix.MS_REC, ""))
	}
	s.at[path] = to
	return err
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
