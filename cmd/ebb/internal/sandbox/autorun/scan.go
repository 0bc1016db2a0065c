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
	"path/filepath"
	"slices"
	"strings"
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
	// git(1) treats a directory of any name with these three entries as a
	// repository.
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

// target returns the path in the work directory to which a symbolic link leads;
// "" = outside of it, or the link is broken.
func (g *Guard) target(at string) string {
	real, err := filepath.EvalSymlinks(filepath.Join(g.dir, at))
	if err != nil {
		return ""
	}
	return g.below(real)
}

// below converts a path of the machine to one relative to the work directory;
// "" = outside of it.
func (g *Guard) below(at string) string {
	rel, err := filepath.Rel(g.real, at)
	if err != nil || rel == "." || rel == ".." || strings.HasPrefix(rel, "../") {
		return ""
	}
	return rel
}

// linked returns the files of the work directory to which symbolic links in
// home directories lead, as when a user keeps dotfiles in a repository.
func (g *Guard) linked(homes []string) (found []string) {
	for _, home := range homes {
		for _, dir := range []string{home, filepath.Join(home, ".config"), filepath.Join(home, ".local", "bin"), filepath.Join(home, "bin")} {
			entries, _ := os.ReadDir(dir) // the directory may not exist
			for _, e := range entries {
				if e.Type() != fs.ModeSymlink || dir == home && !strings.HasPrefix(e.Name(), ".") {
					continue
				}
				if real, err := filepath.EvalSymlinks(filepath.Join(dir, e.Name())); err == nil && g.below(real) != "" {
					found = append(found, g.below(real))
				}
			}
		}
	}
	return found
}

// named returns the files and directories of the work directory that git's
// settings refer to: scripts, hooks, included settings. Every word of a value
// is tried as a path. Relative paths are resolved against the directory of git;
// deep is the number of levels of includes that are followed.
func (g *Guard) named(text []byte, git string, deep int) (found []string) {
	all, err := settings(text)
	if err != nil {
		return nil
	}
	top := path.Dir(git)
	for _, one := range all {
		section, _, _ := strings.Cut(one.key, ".")
		switch section {
		case "branch", "remote", "user", "author", "committer":
			continue // names of people and branches can equal names of files
		case "include", "includeif":
			at := g.resolve(one.value, git)
			if at == "" || deep == 0 {
				continue
			}
			found = append(found, at)
			if more, err := read(g.root, at); err == nil {
				found = append(found, g.named(more, git, deep-1)...)
			}
			continue
		}
		if one.key == "core.hookspath" || one.key == "init.templatedir" {
			if at := g.resolve(one.value, top); at != "" {
				found = append(found, at)
			}
			continue
		}
		for word := range strings.FieldsFuncSeq(one.value, func(r rune) bool { return strings.ContainsRune(" \t'\"!;|&()<>=", r) }) {
			at := g.resolve(word, top)
			if info, err := g.root.Lstat(at); at != "" && err == nil && !info.IsDir() {
				found = append(found, at)
			}
		}
	}
	return found
}

// resolve converts the path in a setting to one relative to the work directory;
// "" = outside of it.
func (g *Guard) resolve(value, from string) string {
	if rest, is := strings.CutPrefix(value, "~/"); is {
		home, _ := os.UserHomeDir()
		value = filepath.Join(home, rest)
	}
	if !filepath.IsAbs(value) {
		value = filepath.Join(g.real, from, value)
	}
	return g.below(filepath.Clean(value))
}

// aliases returns the other hard links of the files: writing to one name
// changes them all.
func (g *Guard) aliases(files []string) (found []string, err error) {
	wanted := map[uint64]bool{}
	for _, at := range files {
		err := fs.WalkDir(g.root.FS(), at, func(_ string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return nil // a directory that cannot be read here cannot be read in the sandbox
			}
			info, err := e.Info()
			if err == nil && info.Sys().(*syscall.Stat_t).Nlink > 1 {
				wanted[info.Sys().(*syscall.Stat_t).Ino] = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	err = fs.WalkDir(g.root.FS(), ".", func(at string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || e.IsDir() {
			return err
		}
		if info, err := e.Info(); err == nil && wanted[info.Sys().(*syscall.Stat_t).Ino] {
			found = append(found, at)
		}
		return nil
	})
	return found, err
}
