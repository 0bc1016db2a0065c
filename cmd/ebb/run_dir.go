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

	"ebb/cmd/ebb/internal/box/cgroup"
	"ebb/cmd/ebb/internal/config"
)

// runPrefix is how the name of a run's directory begins, beside the links of those that lend.
const runPrefix = "run-"

// runName is how long the rest of it is: every run's directory has room for the same sockets.
const runName = 10

// groupFile names the cgroup of a run's box in the run's directory, so that the next run removes it after a kill.
const groupFile = "cgroup"

// dirAdvice is what to do when a run's directory takes nothing more.
func dirAdvice(dir string) string {
	return "see that " + dir + " is there, can be written to, and has room"
}

// runPlaces are the data directories that may hold the directories of this user's runs: the
// user's own, that in the home which the system knows, and that of the ebb on this machine. All
// of them are private to every box. Every run of this user knows the second, and also the first
// unless HOME or XDG_DATA_HOME differ, whatever --config or EBB_DATA_DIR says. What a run keeps
// where another one looks as well is in no box of that, whichever began first.
func (c *cli) runPlaces() []string {
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
		if path, err := filepath.Abs(path); err == nil { // fails only without a working directory
			whole = append(whole, path)
		}
	}
	return whole
}

// ownDir makes the directory of a run, for its sockets and keys, in the first of the data
// directories that is this user's alone. Nothing runs where there is none.
func ownDir(in *boxed, places []string) (remove func(), err error) {
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
	return nil, fail("this run has no place for what no box may have: "+err.Error(), "set HOME to a directory on a local file system that is this user's own, with a short path")
}

// makeRunDir makes a directory of a run in a data directory. It is the run's while held is open.
func makeRunDir(data string) (dir string, held *os.File, err error) {
	runs := filepath.Join(data, runsDir)
	// The longest path is that of a box's way out (egress.NewDoor): /lent/socket and the like are shorter.
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
	// Who makes a directory and who looks for those of the dead take turns.
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

// ownAbove refuses to make a directory below what is neither root's nor this user's: root with the
// HOME of a user would leave there what that user cannot use, but can move away.
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
			return fmt.Errorf("%s is somebody else's", above)
		}
		return nil
	}
}

// ownAlone refuses what is no directory, is somebody else's, or gives others more than they may have.
// Package owndir opens what nobody else can enter; here others may have more, and the
// user is told what is wrong.
func ownAlone(path string, stat func(string) (os.FileInfo, error), not os.FileMode) error {
	info, err := stat(path)
	switch {
	case err != nil:
		return err
	case info.Mode().Type() == fs.ModeSymlink:
		return fmt.Errorf("%s is a link", path)
	case !info.IsDir():
		return fmt.Errorf("%s is no directory", path)
	case info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()):
		return fmt.Errorf("%s is somebody else's", path)
	case info.Mode().Perm()&not != 0:
		return fmt.Errorf("others may do too much in %s (mode %04o)", path, info.Mode().Perm())
	}
	return nil
}

// flocked opens a directory and locks it until that is closed.
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

// bury removes the directories of runs that were killed, and the cgroups of their boxes.
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
			continue // resumeGuards comes first
		}
		if dead, err := flocked(path, syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			if group, err := os.ReadFile(filepath.Join(path, groupFile)); err == nil {
				_ = cgroup.Remove(string(group)) // an empty group that stays bounds nothing
			}
			_ = os.RemoveAll(path) // what stays is tried again by the next run
			_ = dead.Close()
		}
	}
	return nil
}
