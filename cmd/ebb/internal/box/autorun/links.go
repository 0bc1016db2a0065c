//go:build linux

package autorun

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

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
