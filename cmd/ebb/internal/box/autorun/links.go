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

// target is where a symbolic link of the work directory leads in that directory; "" = elsewhere, or nowhere.
func (g *Guard) target(at string) string {
	real, err := filepath.EvalSymlinks(filepath.Join(g.dir, at))
	if err != nil {
		return ""
	}
	return g.below(real)
}

// below is a path of the machine as one of the work directory; "" = it is in none.
func (g *Guard) below(at string) string {
	rel, err := filepath.Rel(g.real, at)
	if err != nil || rel == "." || rel == ".." || strings.HasPrefix(rel, "../") {
		return ""
	}
	return rel
}

// linked are files of the work directory that a home directory reads by a symbolic link, as homes do whose
// settings are kept in a repository.
func (g *Guard) linked(homes []string) (found []string) {
	for _, home := range homes {
		for _, dir := range []string{home, filepath.Join(home, ".config"), filepath.Join(home, ".local", "bin"), filepath.Join(home, "bin")} {
			entries, _ := os.ReadDir(dir) // not everybody has one
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

// named are files and directories of the work directory that settings of git name: scripts, hooks, further
// settings. Words of the values are tried, wherever they stand. in is where a relative path of a setting begins.
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
			continue // names of people and branches may be names of files
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

// resolve is a path of a setting as one of the work directory; "" = it is in none.
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

// aliases are further names of files that have several (hard links): who writes by one name writes them all.
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
