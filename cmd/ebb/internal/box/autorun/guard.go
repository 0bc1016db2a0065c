//go:build linux

package autorun

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"ebb/cmd/ebb/internal/box"
)

// maxPlaces is how many mounts a sandbox has for its work directory.
const maxPlaces = 400

// Guard watches one work directory during one run.
type Guard struct {
	root *os.Root
	dir  string
	real string // without symbolic links
	places
	State
}

// State is what End has to know, also one of a later process.
type State struct {
	Protect bool
	Before  scan
	Inner   map[string]Mark   // files of git directories, by path
	Wanted  map[string]Mark   // files that settings or links outside of the sandbox name
	Config  map[string][]byte // the text of files called config
	Made    []string          // files and directories that are there for the sandbox to be unable to make them
}

// places are paths of the work directory: true = it stays as it is, but can be written to.
type places map[string]bool

// Begin looks at a work directory before anything runs in the sandbox. protect: Places are to be mounted. Files
// that homes read by a link are among them.
func Begin(dir string, protect bool, homes []string) (*Guard, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, err
	}
	g := &Guard{root: root, dir: dir, real: real, places: places{}, State: State{Protect: protect, Inner: map[string]Mark{}, Wanted: map[string]Mark{}, Config: map[string][]byte{}}}
	if err := g.begin(homes); err != nil {
		_ = g.Close()
		return nil, err
	}
	return g, nil
}

func (g *Guard) begin(homes []string) error {
	if g.Protect {
		if err := g.hold(homes); err != nil {
			return err
		}
	}
	s, err := look(g.root, false)
	if err != nil {
		return fmt.Errorf("%w: %w", box.ErrPlace, err)
	}
	g.Before = *s
	for git, m := range s.Git {
		if !m.Mode.IsDir() {
			continue
		}
		for _, at := range s.innerOf(git) {
			if err := s.mark(g.Inner, at); err != nil {
				return err
			}
		}
		if text, err := read(g.root, path.Join(git, "config")); err == nil {
			g.Config[path.Join(git, "config")] = text
		}
	}
	if !g.Protect {
		return nil
	}
	g.collect(homes)
	return g.bound()
}

// hold makes what a program outside would read as soon as the sandbox made it: empty directories and files of
// those names, which mean nothing, are read-only in the sandbox, and are removed by End.
func (g *Guard) hold(homes []string) error {
	s, err := look(g.root, false)
	if err != nil {
		return fmt.Errorf("%w: %w", box.ErrPlace, err)
	}
	for name, r := range names {
		if r.live {
			if err := g.make(name, true); err != nil {
				return err
			}
		}
	}
	for git, m := range s.Git {
		if !m.Mode.IsDir() {
			continue
		}
		if err := g.hooks(git, homes); err != nil {
			return err
		}
		for _, one := range []struct {
			name string
			dir  bool
		}{{"hooks", true}, {"info", true}, {"info/attributes", false}, {"config.worktree", false}} {
			if err := g.make(path.Join(git, one.name), one.dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// hooks makes the directories that settings of git name as those of hooks.
func (g *Guard) hooks(git string, homes []string) error {
	text, _ := read(g.root, path.Join(git, "config")) // without one there are no hooks elsewhere
	for _, text := range append(global(homes), text) {
		all, _ := settings(text)
		for _, one := range all {
			at := g.resolve(one.value, path.Dir(git))
			if one.key != "core.hookspath" || at == "" {
				continue
			}
			for i, r := range at + "/" {
				if r == '/' {
					if err := g.make(at[:i], true); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// make makes an empty directory or file where there is nothing, of the owner of the directory that it is in.
func (g *Guard) make(at string, dir bool) error {
	err := error(nil)
	if dir {
		err = g.root.Mkdir(at, 0o755)
	} else {
		var f *os.File
		if f, err = g.root.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err == nil {
			err = f.Close()
		}
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return nil // it is there, or nobody makes it
	}
	if err != nil {
		return err
	}
	g.Made = append(g.Made, at)
	above, err := g.root.Lstat(path.Dir(at))
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	st := above.Sys().(*syscall.Stat_t)
	return g.root.Lchown(at, int(st.Uid), int(st.Gid))
}

// collect says what is mounted.
func (g *Guard) collect(homes []string) {
	for at, m := range g.Before.Named {
		if r, _ := ruleOf(at, false); !r.tell {
			g.fix(at, m.Mode)
		}
	}
	for git, m := range g.Before.Git {
		if !m.Mode.IsDir() {
			g.fix(git, m.Mode)
			continue
		}
		g.pin(git)
		g.pin(path.Join(git, "info"))
		for _, at := range g.Before.innerOf(git) {
			if m, there := g.Inner[at]; there && path.Base(at) != path.Base(todo) {
				g.pin(path.Dir(at))
				g.fix(at, m.Mode)
			}
		}
		for _, text := range append(global(homes), g.Config[path.Join(git, "config")]) {
			for _, at := range g.named(text, git, 5) {
				g.want(at)
			}
		}
	}
	for _, at := range g.linked(homes) {
		g.want(at)
	}
}

// global are the texts of the machine's and a person's own settings of git.
func global(homes []string) (all [][]byte) {
	files := []string{"/etc/gitconfig"}
	for _, home := range homes {
		files = append(files, filepath.Join(home, ".gitconfig"), filepath.Join(home, ".config", "git", "config"))
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && len(text) <= maxConfig {
			all = append(all, text)
		}
	}
	return all
}

// want fixes a file that other files name.
func (g *Guard) want(at string) {
	m, err := g.Before.markOf(at)
	if err != nil {
		return
	}
	g.Wanted[at] = m
	g.pin(path.Dir(at))
	g.fix(at, m.Mode)
}

// fix makes a file or directory read-only. A mount is no protection of a symbolic link: what it leads to is
// protected, and End sees whether the link has been replaced.
func (g *Guard) fix(at string, mode fs.FileMode) {
	if mode.Type() == fs.ModeSymlink {
		if at = g.target(at); at == "" {
			return
		}
	}
	g.places[at] = false
}

// pin keeps a directory where it is, and those above it: what is a mount cannot be renamed or removed (EBUSY).
func (g *Guard) pin(at string) {
	for ; at != "."; at = path.Dir(at) {
		info, err := g.root.Lstat(at)
		if _, fixed := g.places[at]; !fixed && err == nil && info.IsDir() {
			g.places[at] = true
		}
	}
}

// bound adds the further names of protected files and keeps the mounts in bounds.
func (g *Guard) bound() error {
	var fixed []string
	for at, write := range g.places {
		if !write {
			fixed = append(fixed, at)
		}
	}
	more, err := g.aliases(fixed)
	if err != nil {
		return err
	}
	for _, at := range more {
		g.places[at] = false
	}
	if len(g.places) > maxPlaces {
		return fmt.Errorf("%w: %s has %d files and directories to protect, and a sandbox has room for %d", box.ErrPlace, g.dir, len(g.places), maxPlaces)
	}
	return nil
}

// Places are the mounts over the work directory, in their order: nothing is below a place that is read-only.
func (g *Guard) Places() (all []box.Fixed) {
	for at, write := range g.places {
		covered := false
		for above := path.Dir(at); above != "." && !covered; above = path.Dir(above) {
			write, is := g.places[above]
			covered = is && !write
		}
		if !covered {
			all = append(all, box.Fixed{Path: at, Write: write})
		}
	}
	slices.SortFunc(all, func(a, b box.Fixed) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// Close lets go of the directory.
func (g *Guard) Close() error { return g.root.Close() }
