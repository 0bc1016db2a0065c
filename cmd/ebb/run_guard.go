package main

import (
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"ebb/cmd/ebb/internal/box/autorun"
	"ebb/cmd/ebb/internal/box/place"
	"ebb/cmd/ebb/internal/out"
)

// The modes of a work directory (--work-mode).
const (
	workProtect = "protect"
	workOpen    = "open"
)

// guardFile is the state of a work directory's guard in a run's directory. While it is there the guard has not ended.
const guardFile = "work"

// shownFindings is how many files are named at the end of a run.
const shownFindings = 40

// protects says whether the work directory is to be protected.
func (flags *runFlags) protects() (bool, error) {
	switch {
	case flags.workMode == workProtect:
		return flags.kind != "none", nil
	case flags.workMode == workOpen:
		return false, nil
	}
	return false, usage("--work-mode "+out.Line(flags.workMode)+" is not a mode of a work directory", "choose protect or open; --work names the directory")
}

// guard looks at the work directory before anything runs in the box. end compares it with how it was, once nothing
// of the box runs any more, and says what it found.
func (c *cli) guard(in *boxed) (end func(), err error) {
	c.resumeGuards()
	private, err := c.private(c.keyPath(operatorKey))
	if err != nil {
		return nil, err
	}
	if err := place.Check(in.spec.Work, private); in.plain && err != nil {
		return func() {}, nil // a home, or another place too wide to look through
	} else if err != nil {
		return nil, in.failure(err)
	}
	in.guarding, err = autorun.Begin(in.spec.Work, in.protect, c.homesOf(in))
	if err != nil && in.protect {
		return nil, in.failure(err)
	}
	if err != nil {
		c.sayf("ebb: files of %s that make programs run are not watched: %s\n", out.Line(in.spec.Work), out.Line(err.Error()))
		return func() {}, nil
	}
	in.spec.Fixed = in.guarding.Places()
	return func() { c.endGuard(in.guarding) }, nil
}

// homesOf are the home directories whose settings may lead into the work directory.
func (c *cli) homesOf(in *boxed) []string {
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

// saveGuard keeps the state of the guard until it has ended, for the next run if this one is killed.
func (b *boxed) saveGuard() error {
	if b.guarding == nil {
		return nil
	}
	if err := b.guarding.Save(filepath.Join(b.dir, guardFile)); err != nil {
		return fail(err.Error(), dirAdvice(b.dir))
	}
	return nil
}

// endGuard says which files make programs run that did not when the run began.
func (c *cli) endGuard(g *autorun.Guard) {
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
		c.sayf("ebb: the work directory could not be looked through, and may make programs run that you do not know: %s\n", out.Line(err.Error()))
	}
	_ = g.Close()
}

// resumeGuards ends the guards of runs that were killed.
func (c *cli) resumeGuards() {
	for _, data := range c.runPlaces() {
		files, _ := filepath.Glob(filepath.Join(data, runsDir, runPrefix+"*", guardFile)) // fails for a malformed pattern alone
		for _, file := range files {
			if ownAlone(filepath.Dir(file), os.Lstat, 0o077) != nil {
				continue
			}
			dead, err := flocked(filepath.Dir(file), syscall.LOCK_EX|syscall.LOCK_NB)
			if err != nil {
				continue // it lives
			}
			if g, err := autorun.Resume(file); err == nil {
				c.sayf("ebb: a run was killed before it could look through its work directory\n")
				c.endGuard(g)
			}
			_ = os.Remove(file)
			_ = dead.Close()
		}
	}
}
