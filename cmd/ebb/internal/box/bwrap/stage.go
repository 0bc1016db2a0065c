//go:build linux

package bwrap

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"ebb/cmd/ebb/internal/box"
	"ebb/cmd/ebb/internal/box/place"
)

// stageDir is hidden by the stage: what is there no box ever sees, and bubblewrap does not
// need it.
const stageDir = "/sys"

// stage is how root starts a box as somebody else: what goes into the box may be where only
// root can go. It is mounted again where all can, in a mount namespace that nobody but this
// thread and what it starts is in. The calling thread must be locked and must end with the
// box. The answer is where the mounts are, in their order.
func stage(all place.Mounts) ([]string, error) {
	trees := make([]int, 0, len(all)) // taken before: a mount namespace mounts nothing of another
	defer func() {
		for _, tree := range trees {
			_ = unix.Close(tree)
		}
	}()
	for _, m := range all {
		tree, err := unix.OpenTree(int(m.From.Fd()), "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
		if err != nil {
			return nil, fmt.Errorf("%w: open_tree %s: %w", box.ErrNone, m.From.Name(), err)
		}
		trees = append(trees, tree)
	}
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
	var at []string
	for i, m := range all {
		to := filepath.Join(stageDir, strconv.Itoa(i))
		info, err := m.From.Stat()
		switch {
		case err == nil && info.IsDir():
			err = os.Mkdir(to, 0o700)
		case err == nil:
			err = os.WriteFile(to, nil, 0o600)
		}
		if err == nil {
			err = wrap("move_mount", unix.MoveMount(trees[i], "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH))
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", box.ErrNone, err)
		}
		at = append(at, to)
	}
	return at, nil
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
