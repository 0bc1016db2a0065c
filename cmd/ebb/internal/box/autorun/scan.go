//go:build linux

package autorun

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"
)

// maxEntries is the maximum number of files and directories of a scan.
const maxEntries = 2_000_000

// maxConfig is the maximum size in bytes of a configuration file.
const maxConfig = 1 << 20

// errMany is returned by a scan that stopped at maxEntries.
var errMany = fmt.Errorf("the work directory has more than %d files", maxEntries)

// Mark is the state of a file. Two marks of a path are equal if the file was
// not written to in between: a process cannot set the change time (ctime).
type Mark struct {
	Ino  uint64
	Mode fs.FileMode
	Seen string // a hash of the metadata of the file and of all files below it
}

// scan is the content of a directory.
type scan struct {
	root  *os.Root
	open  bool            // change the mode of directories that cannot be read: the sandbox may have hidden files in them
	Named map[string]Mark // files that a rule names, by path
	Git   map[string]Mark // git directories and .git files, including those of submodules and bare repositories
	Dark  map[string]bool // directories that cannot be read
	left  int
}

// look scans a directory. After an error the scan contains the files seen so
// far.
func look(root *os.Root, open bool) (*scan, error) {
	s := &scan{root: root, open: open, Named: map[string]Mark{}, Git: map[string]Mark{}, Dark: map[string]bool{}, left: maxEntries}
	return s, s.walk(".", false)
}

// walk scans a directory. inside a directory of dependencies only git's files
// count.
func (s *scan) walk(dir string, inside bool) error {
	entries, err := s.list(dir)
	if err != nil {
		return err
	}
	has := map[string]bool{}
	for _, e := range entries {
		if s.left--; s.left < 0 {
			return errMany
		}
		has[e.Name()] = true
		at := path.Join(dir, e.Name())
		if e.Name() == ".git" {
			if err := s.mark(s.Git, at); err != nil {
				return err
			}
			if e.IsDir() {
				if err := s.modules(at); err != nil {
					return err
				}
			}
			continue
		}
		_, named := ruleOf(at, inside)
		if named {
			if err := s.mark(s.Named, at); err != nil {
				return err
			}
		}
		if e.IsDir() {
			if err := s.walk(at, inside || named || dependencies[e.Name()]); err != nil {
				return err
			}
		}
	}
	// git(1) treats a directory with these three entries as a repository,
	// whatever its name.
	if has["HEAD"] && has["objects"] && has["refs"] {
		return s.mark(s.Git, dir)
	}
	return nil
}

// modules scans the git directories of submodules and worktrees, where a
// repository could also be hidden.
func (s *scan) modules(git string) error {
	for _, name := range []string{"modules", "worktrees"} {
		if info, err := s.root.Lstat(path.Join(git, name)); err == nil && info.IsDir() {
			if err := s.walk(path.Join(git, name), true); err != nil {
				return err
			}
		}
	}
	return nil
}

// list reads a directory. One that cannot be read counts as empty and is added
// to Dark.
func (s *scan) list(dir string) ([]fs.DirEntry, error) {
	f, err := s.root.Open(dir)
	if errors.Is(err, fs.ErrPermission) && s.open && s.root.Chmod(dir, 0o700) == nil {
		f, err = s.root.Open(dir)
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENAMETOOLONG) {
		s.Dark[dir] = true
		return nil, nil
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // removed meanwhile
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int {
		if a.Name() < b.Name() {
			return -1
		}
		return 1
	})
	return entries, err
}

func (s *scan) mark(into map[string]Mark, at string) error {
	m, err := s.markOf(at)
	if err == nil {
		into[at] = m
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// markOf returns the mark of a path. For a git directory it leaves out the
// content, which changes with every commit.
func (s *scan) markOf(at string) (Mark, error) {
	info, err := s.root.Lstat(at)
	if err != nil {
		return Mark{}, err
	}
	m := Mark{Ino: info.Sys().(*syscall.Stat_t).Ino, Mode: info.Mode()}
	hash := sha256.New()
	if m.Mode.IsDir() && (path.Base(at) == ".git" || s.isGit(at)) {
		return m, nil
	}
	err = s.sum(hash, at, info)
	m.Seen = hex.EncodeToString(hash.Sum(nil))
	return m, err
}

func (s *scan) isGit(dir string) bool {
	_, err := s.root.Lstat(path.Join(dir, "HEAD"))
	return err == nil
}

// sum adds a file, and all files below a directory, to the hash.
func (s *scan) sum(hash io.Writer, at string, info fs.FileInfo) error {
	st := info.Sys().(*syscall.Stat_t)
	_, _ = fmt.Fprintf(hash, "%q %d %d %d", at, st.Dev, st.Ino, st.Mode)
	if !info.IsDir() {
		_, _ = fmt.Fprintf(hash, " %d %v %v\n", st.Size, st.Mtim, st.Ctim)
		return nil
	}
	entries, err := s.list(at)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if s.left--; s.left < 0 {
			return errMany
		}
		below := path.Join(at, e.Name())
		info, err := s.root.Lstat(below)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = s.sum(hash, below, info)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// read reads a regular file of at most maxConfig bytes.
func read(root *os.Root, at string) ([]byte, error) {
	f, err := root.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK, 0) // without O_NONBLOCK opening a named pipe would block
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxConfig {
		return nil, fmt.Errorf("%s is not a file of settings", at)
	}
	return io.ReadAll(io.LimitReader(f, maxConfig))
}
