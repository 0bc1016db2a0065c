package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/cgroup"
	"github.com/ebb-broker/ebb/cmd/internal/config"
)

// runPrefix is the prefix of the names of run directories. Links to lending
// runs are beside them.
const runPrefix = "run-"

// runName is the length of the rest of the name. It is fixed, so that socket
// paths have the same length in every run.
const runName = 10

// groupFile in a run's directory names the cgroup of its sandbox, so that the
// next run can remove it if this run is killed.
const groupFile = "cgroup"

// dirAdvice is the next step if a file cannot be created in a run's directory.
func dirAdvice(dir string) string {
	return "check that " + dir + " exists, is writable, and has free space"
}

// runPlaces returns the data directories in which this user's runs may have
// their directories: the user's own, that of the home in /etc/passwd, and that
// of the ebb on this machine. All of them are refused to every sandbox. Every
// run of this user knows the second, and also the first unless HOME or
// XDG_DATA_HOME differ, regardless of --config and EBB_DATA_DIR. So no sandbox
// of one run can have the directory of another, in any order of their starts.
func (c runCommand) runPlaces() []string {
	own := slices.DeleteFunc(slices.Clone(c.environ), func(line string) bool { return strings.HasPrefix(line, "EBB_DATA_DIR=") })
	all := []string{config.DataDir(own)}
	if u, err := user.LookupId(strconv.Itoa(os.Geteuid())); err == nil && u.HomeDir != "" {
		all = append(all, config.DataDir([]string{"HOME=" + u.HomeDir}))
	}
	all = append(all, c.dataDir())
	var whole []string
	for _, path := range all {
		if path == "" {
			continue
		}
		if path, err := filepath.Abs(path); err == nil { // Abs fails only without a working directory
			whole = append(whole, path)
		}
	}
	return whole
}

// ownDir creates the directory of a run, for its sockets and keys, in the first
// data directory that only this user can access. Without one the command does
// not run.
func ownDir(in *sandboxed, places []string) (remove func(), err error) {
	for _, data := range places {
		dir, held, one := makeRunDir(data)
		if one == nil {
			in.dir, in.spec.Keep = dir, dir
			return func() {
				_ = os.RemoveAll(dir)
				_ = held.Close()
			}, nil
		}
		err = errors.Join(err, one)
	}
	if err == nil {
		err = errors.New("this user has no home directory")
	}
	return nil, fail("the run's directory cannot be created: "+err.Error(), "set HOME to a directory of this user on a local file system, with a short path")
}

// makeRunDir creates a run's directory in a data directory. It is locked by
// this run while held is open.
func makeRunDir(data string) (dir string, held *os.File, err error) {
	runs := filepath.Join(data, runsDir)
	// The longest path is that of an egress endpoint's socket
	// (egress.NewListener); /lent/socket and others are shorter.
	if longest := filepath.Join(runs, runPrefix+strings.Repeat("A", runName), strings.Repeat("0", 16), "out"); len(longest) > config.MaxSocketPath {
		return "", nil, fmt.Errorf("%s is too long for the path of a socket", longest)
	}
	if err := ownAbove(data); err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(runs, 0o700); err != nil {
		return "", nil, err
	}
	if err := errors.Join(ownAlone(data, os.Stat, 0o022), ownAlone(runs, os.Lstat, 0o077)); err != nil {
		return "", nil, err
	}
	// A lock serializes the creation of directories and the search for those of
	// killed runs.
	turn, err := flocked(runs, syscall.LOCK_EX)
	if err != nil {
		return "", nil, err
	}
	defer turn.Close()
	if err := bury(runs); err != nil {
		return "", nil, err
	}
	dir = filepath.Join(runs, runPrefix+rand.Text()[:runName])
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", nil, err
	}
	if held, err = flocked(dir, syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = os.Remove(dir)
		return "", nil, err
	}
	return dir, held, nil
}

// ownAbove refuses to create a directory below one of another user. Root with
// the HOME of a user would else create directories that this user cannot use,
// but can move away.
func ownAbove(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	for above := filepath.Dir(path); ; above = filepath.Dir(above) {
		info, err := os.Stat(above)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if uid := info.Sys().(*syscall.Stat_t).Uid; uid != 0 && uid != uint32(os.Geteuid()) {
			return fmt.Errorf("%s belongs to another user", above)
		}
		return nil
	}
}

// ownAlone refuses a path that is not a directory, belongs to another user, or
// has one of the mode bits not. Package owndir is stricter: it opens only
// directories that no other user can enter.
func ownAlone(path string, stat func(string) (os.FileInfo, error), not os.FileMode) error {
	info, err := stat(path)
	switch {
	case err != nil:
		return err
	case info.Mode().Type() == fs.ModeSymlink:
		return fmt.Errorf("%s is a symbolic link", path)
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", path)
	case info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()):
		return fmt.Errorf("%s belongs to another user", path)
	case info.Mode().Perm()&not != 0:
		return fmt.Errorf("%s gives other users too many permissions (mode %04o)", path, info.Mode().Perm())
	}
	return nil
}

// flocked opens a directory and locks it until the file is closed.
func flocked(path string, how int) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), how); err != nil {
		return nil, errors.Join(&os.PathError{Op: "lock", Path: path, Err: err}, f.Close())
	}
	return f, nil
}

// bury removes the directories of killed runs, and the cgroups of their
// sandboxes.
func bury(runs string) error {
	entries, err := os.ReadDir(runs)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), runPrefix) {
			continue
		}
		path := filepath.Join(runs, e.Name())
		if _, err := os.Stat(filepath.Join(path, guardFile)); err == nil {
			continue // resumeGuards handles this run first
		}
		if dead, err := flocked(path, syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			if group, err := os.ReadFile(filepath.Join(path, groupFile)); err == nil {
				_ = cgroup.Remove(string(group)) // an empty group that is left does no harm
			}
			_ = os.RemoveAll(path) // the next run tries again if it fails
			_ = dead.Close()
		}
	}
	return nil
}
