//go:build linux

package bwrap

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/box"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/box/place"
)

// stageDir is the mount point of the stage and hides the directory below, which
// no sandbox ever has and bubblewrap does not need.
const stageDir = "/sys"

// stage lets root start a sandbox as another user although the paths of the
// sandbox may be accessible to root only. It mounts them again where every user
// can reach them, in a mount namespace of this thread and its child processes.
// The calling thread must be locked and must end with the sandbox. The result
// is the mount points, in the order of all.
func stage(all place.Mounts) ([]string, error) {
	trees := make([]int, 0, len(all)) // taken before unshare: a mount namespace cannot mount trees of another
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
