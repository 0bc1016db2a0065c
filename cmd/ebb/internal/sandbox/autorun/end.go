//go:build linux

package autorun

import (
	"crypto/rand"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
)

// suffix is added to the name of a file that is set aside, so that no program
// reads it.
const suffix = ".ebb-set-aside-"

// Finding is a file that makes programs run and that is new or was changed.
type Finding struct {
	Path   string
	Aside  string // its new name; "" = it was not renamed
	Reason string
}

// End compares the directory with its state at Begin. All processes of the
// sandbox must have ended. With Protect new files are set aside, so that no
// program outside of the sandbox runs them; changed files are only reported.
func (g *Guard) End() (all []Finding, err error) {
	for _, at := range slices.Backward(g.Made) {
		if info, err := g.root.Lstat(at); err == nil && (info.IsDir() || info.Mode().IsRegular() && info.Size() == 0) {
			_ = g.root.Remove(at) // a directory that is not empty stays
		}
	}
	e := &end{Guard: g}
	e.scan, err = look(g.root, g.Protect)
	for _, at := range slices.Sorted(maps.Keys(e.Git)) {
		if one := e.git(at); one != nil {
			err = errors.Join(err, one)
		}
	}
	for _, at := range slices.Sorted(maps.Keys(e.scan.Named)) {
		if one := e.file(at); one != nil {
			err = errors.Join(err, one)
		}
	}
	for _, at := range slices.Sorted(maps.Keys(g.Wanted)) {
		if one := e.wanted(at); one != nil {
			err = errors.Join(err, one)
		}
	}
	for at := range e.Dark {
		if !g.Before.Dark[at] {
			e.found = append(e.found, Finding{Path: at, Reason: "the directory cannot be read"})
		}
	}
	return e.found, err
}

// end is the state of one comparison.
type end struct {
	*Guard
	*scan
	found []Finding
}

// git checks a git directory, or a .git file that refers to one.
func (e *end) git(at string) error {
	now, before := e.scan.Git[at], e.Before.Git[at]
	if !now.Mode.IsDir() {
		if now == before || now.Mode.IsRegular() && e.leads(at, e.real, sandbox.WorkDir) {
			return nil
		}
		return e.aside(at, "it refers to another git directory, whose hooks and programs git would run")
	}
	if now.Ino == before.Ino {
		return e.known(at)
	}
	why := e.foreign(at)
	if why == "" {
		return nil
	}
	file := path.Join(at, "HEAD") // without HEAD git does not treat the directory as a repository
	if _, err := e.scan.root.Lstat(file); err != nil {
		file = path.Join(at, "config")
	}
	return e.aside(file, "a new repository: "+why)
}

// known checks a git directory that existed at Begin.
func (e *end) known(git string) error {
	var all error
	for _, at := range e.innerOf(git) {
		now, err := e.markOf(at)
		before, had := e.Inner[at]
		if err != nil || had && now == before {
			continue
		}
		name, _ := strings.CutPrefix(at, git+"/")
		switch {
		case name == "config":
			err = e.config(at)
		case path.Base(at) == "commondir" && name != "commondir" && e.common(at):
			continue
		case path.Base(at) == path.Base(todo) && !e.runs(at):
			continue
		case had && now.Ino == before.Ino && slices.Contains(e.Made, at) && now.Mode.IsDir():
			e.found = append(e.found, Finding{Path: at, Reason: "git runs it"})
		case had && now.Ino == before.Ino && name != todo:
			e.found = append(e.found, Finding{Path: at, Reason: "git runs programs that it names"})
		default:
			err = e.aside(at, "git runs programs that it names")
		}
		all = errors.Join(all, err)
	}
	return all
}

// config checks a changed git configuration file. If it has a setting that may
// run a program, the file is set aside and its earlier content is restored.
func (e *end) config(at string) error {
	text, err := read(e.scan.root, at)
	key := "settings that cannot be read"
	if err == nil {
		key = suspect(text, e.Config[at])
	}
	if key == "" {
		return nil
	}
	if err := e.aside(at, "git's settings have "+key); err != nil || !e.Protect {
		return err
	}
	f, err := e.scan.root.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(e.Config[at])
	if err = errors.Join(err, f.Close()); err != nil || os.Geteuid() != 0 {
		return err
	}
	above, err := e.scan.root.Lstat(path.Dir(at))
	if err != nil {
		return err
	}
	st := above.Sys().(*syscall.Stat_t)
	return e.scan.root.Lchown(at, int(st.Uid), int(st.Gid))
}

// file checks a file that a rule names.
func (e *end) file(at string) error {
	now := e.scan.Named[at]
	before, had := e.Before.Named[at]
	for above := path.Dir(at); above != "."; above = path.Dir(above) {
		if e.Before.Dark[above] {
			return nil // the file may have existed at Begin
		}
	}
	r, _ := ruleOf(at, false)
	switch {
	case had && now == before:
		return nil
	case r.tell, had && now.Ino == before.Ino:
		e.found = append(e.found, Finding{Path: at, Reason: r.reason})
		return nil
	}
	return e.aside(at, r.reason)
}

// wanted checks a file that other files refer to.
func (e *end) wanted(at string) error {
	const reason = "settings or links outside of the work directory refer to it"
	now, err := e.markOf(at)
	switch before := e.Wanted[at]; {
	case err != nil || now == before:
		return nil
	case now.Ino == before.Ino:
		e.found = append(e.found, Finding{Path: at, Reason: reason})
		return nil
	}
	return e.aside(at, reason)
}

// aside renames a file so that no program reads it. Without Protect it only
// reports the file.
func (e *end) aside(at, reason string) error {
	if _, err := e.scan.root.Lstat(at); errors.Is(err, fs.ErrNotExist) {
		return nil // the file, or its directory, is already set aside
	}
	f := Finding{Path: at, Reason: reason}
	if e.Protect {
		f.Aside = at + suffix + strings.ToLower(rand.Text()[:8])
		if err := e.scan.root.Rename(at, f.Aside); err != nil {
			return fmt.Errorf("set aside %s, which must be treated as hostile until it is removed: %w", at, err)
		}
	}
	e.found = append(e.found, f)
	return nil
}

// Save writes the state for Resume to a new file.
func (g *Guard) Save(file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(gob.NewEncoder(f).Encode(saved{g.real, g.State}), f.Close())
}

type saved struct {
	Dir string
	State
}

// Resume returns the guard of a process that was killed, from the file written
// by Save.
func Resume(file string) (*Guard, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var s saved
	if err := gob.NewDecoder(f).Decode(&s); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return nil, err
	}
	return &Guard{root: root, dir: s.Dir, real: s.Dir, State: s.State}, nil
}
