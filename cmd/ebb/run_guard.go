package main

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/autorun"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/place"
	"github.com/ebb-broker/ebb/cmd/internal/out"
)

// The modes of a work directory (--work-mode).
const (
	workProtect = "protect"
	workOpen    = "open"
)

// guardFile is the state of a work directory's guard in a run's directory. It
// exists until the guard has ended.
const guardFile = "work"

// shownFindings is the maximum number of files reported at the end of a run.
const shownFindings = 40

// protects reports whether the work directory is to be protected.
func (flags *runFlags) protects() (bool, error) {
	switch {
	case flags.workMode == workProtect:
		return flags.kind != "none", nil
	case flags.workMode == workOpen:
		return false, nil
	}
	return false, usage("--work-mode "+out.Line(flags.workMode)+" is not protect or open", "choose protect or open; name the directory with --work")
}

// guard scans the work directory before the command runs. end compares it with
// that state, after all processes of the sandbox have ended, and reports the
// differences.
func (c runCommand) guard(in *sandboxed) (end func(), err error) {
	c.resumeGuards()
	private, err := c.private(keyCommands(c).keyPath(operatorKey))
	if err != nil {
		return nil, err
	}
	if err := place.Check(in.spec.Work, private); in.plain && err != nil {
		return func() {}, nil // a home, or another directory too large to scan
	} else if err != nil {
		return nil, in.failure(err)
	}
	in.guarding, err = autorun.Begin(in.spec.Work, in.protect, c.homesOf(in))
	if err != nil && in.protect {
		return nil, in.failure(err)
	}
	if err != nil {
		c.sayf("ebb: files of %s that make programs run cannot be watched: %s\n", out.Line(in.spec.Work), out.Line(err.Error()))
		return func() {}, nil
	}
	in.spec.Fixed = in.guarding.Places()
	return func() { c.endGuard(in.guarding) }, nil
}

// homesOf returns the home directories whose settings may refer to the work
// directory.
func (c runCommand) homesOf(in *sandboxed) []string {
	var all []string
	for _, line := range c.environ {
		if home, is := strings.CutPrefix(line, "HOME="); is && filepath.IsAbs(home) {
			all = append(all, home)
		}
	}
	if in.spec.User != nil {
		if u, err := user.LookupId(strconv.FormatUint(uint64(in.spec.User.UID), 10)); err == nil && filepath.IsAbs(u.HomeDir) {
			all = append(all, u.HomeDir)
		}
	}
	return all
}

// saveGuard stores the state of the guard, for the next run if this one is
// killed.
func (b *sandboxed) saveGuard() error {
	if b.guarding == nil {
		return nil
	}
	if err := b.guarding.Save(filepath.Join(b.dir, guardFile)); err != nil {
		return fail(err.Error(), dirAdvice(b.dir))
	}
	return nil
}

// endGuard reports the files that make programs run and are new or changed.
func (c runCommand) endGuard(g *autorun.Guard) {
	found, err := g.End()
	for i, f := range found {
		switch {
		case i == shownFindings:
			c.sayf("ebb:   and %d more\n", len(found)-i)
		case i > shownFindings:
		case f.Aside != "":
			c.sayf("ebb: SET ASIDE %s (%s). It is now %s\n", out.Line(f.Path), out.Line(f.Reason), out.Line(filepath.Base(f.Aside)))
		default:
			c.sayf("ebb: LOOK AT %s before you use the work directory: %s\n", out.Line(f.Path), out.Line(f.Reason))
		}
	}
	if err != nil {
		c.sayf("ebb: scanning the work directory failed; it may contain files that make unknown programs run: %s\n", out.Line(err.Error()))
	}
	_ = g.Close()
}

// resumeGuards ends the guards of killed runs.
func (c runCommand) resumeGuards() {
	for _, data := range c.runPlaces() {
		files, _ := filepath.Glob(filepath.Join(data, runsDir, runPrefix+"*", guardFile)) // fails only for a malformed pattern
		for _, file := range files {
			if ownAlone(filepath.Dir(file), os.Lstat, 0o077) != nil {
				continue
			}
			dead, err := flocked(filepath.Dir(file), syscall.LOCK_EX|syscall.LOCK_NB)
			if err != nil {
				continue // the run is active
			}
			if g, err := autorun.Resume(file); err == nil {
				c.sayf("ebb: a run was killed before it could check its work directory\n")
				c.endGuard(g)
			}
			_ = os.Remove(file)
			_ = dead.Close()
		}
	}
}
