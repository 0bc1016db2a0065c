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

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
)

// maxPlaces is the maximum number of mounts over the work directory of a
// sandbox.
const maxPlaces = 400

// Guard protects one work directory during one run.
type Guard struct {
	root *os.Root
	dir  string
	real string // without symbolic links
	places
	State
}

// State is the state that End needs, also in a later process.
type State struct {
	Protect bool
	Before  scan
	Inner   map[string]Mark   // files of git directories, by path
	Wanted  map[string]Mark   // files that settings or links outside of the sandbox refer to
	Config  map[string][]byte // the text of files called config
	Made    []string          // empty files and directories created so that the sandbox cannot create them
}

// places maps paths of the work directory to true if they cannot be renamed but
// can be written to, and to false if they are read-only.
type places map[string]bool

// Begin scans a work directory before a command runs in the sandbox. With
// protect, Places returns mounts that protect the files, including those to
// which symbolic links in homes lead.
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
		return fmt.Errorf("%w: %w", sandbox.ErrPlace, err)
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

// hold creates files that a program outside would read as soon as the sandbox
// created them. They are empty, so they have no effect; they are read-only in
// the sandbox, and End removes them.
func (g *Guard) hold(homes []string) error {
	s, err := look(g.root, false)
	if err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrPlace, err)
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

// hooks creates the directories that core.hooksPath in git's settings refers
// to.
func (g *Guard) hooks(git string, homes []string) error {
	text, _ := read(g.root, path.Join(git, "config")) // without a config file there are no hooks elsewhere
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

// make creates an empty directory or file if the path does not exist, with the
// owner of its parent directory.
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
		return nil // it exists, or the sandbox cannot create it either
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

// collect adds the paths to protect to places.
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

// global returns the contents of the git configuration files of the machine and
// of the homes.
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

// want protects a file that other files refer to.
func (g *Guard) want(at string) {
	m, err := g.Before.markOf(at)
	if err != nil {
		return
	}
	g.Wanted[at] = m
	g.pin(path.Dir(at))
	g.fix(at, m.Mode)
}

// fix makes a file or directory read-only. A mount cannot protect a symbolic
// link: its target is protected, and End detects a replaced link.
func (g *Guard) fix(at string, mode fs.FileMode) {
	if mode.Type() == fs.ModeSymlink {
		if at = g.target(at); at == "" {
			return
		}
	}
	g.places[at] = false
}

// pin prevents renaming a directory and its parents: a mount point cannot be
// renamed or removed (EBUSY).
func (g *Guard) pin(at string) {
	for ; at != "."; at = path.Dir(at) {
		info, err := g.root.Lstat(at)
		if _, fixed := g.places[at]; !fixed && err == nil && info.IsDir() {
			g.places[at] = true
		}
	}
}

// bound adds the hard links of protected files, and checks the number of
// mounts.
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
		return fmt.Errorf("%w: %s has %d files and directories to protect; the maximum is %d", sandbox.ErrPlace, g.dir, len(g.places), maxPlaces)
	}
	return nil
}

// Places returns the mounts over the work directory, parents first. Paths below
// a read-only one are left out.
func (g *Guard) Places() (all []sandbox.Fixed) {
	for at, write := range g.places {
		covered := false
		for above := path.Dir(at); above != "." && !covered; above = path.Dir(above) {
			write, is := g.places[above]
			covered = is && !write
		}
		if !covered {
			all = append(all, sandbox.Fixed{Path: at, Write: write})
		}
	}
	slices.SortFunc(all, func(a, b sandbox.Fixed) int { return strings.Compare(a.Path, b.Path) })
	return all
}

// Close closes the work directory.
func (g *Guard) Close() error { return g.root.Close() }
