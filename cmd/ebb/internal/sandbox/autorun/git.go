//go:build linux

package autorun

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
)

// inner are the files of a git directory that make git(1) run programs, or that
// refer to another file which does (gitrepository-layout(5)). Refs, objects and
// the index cannot.
var inner = []string{"config", "config.worktree", "commondir", "hooks", "info/attributes", todo}

// todo is the list of an interactive rebase. Its exec lines run when the rebase
// continues.
const todo = "rebase-merge/git-rebase-todo"

// innerOf returns the paths of the inner files of a git directory, whether they
// exist or not.
func (s *scan) innerOf(git string) []string {
	var all []string
	for _, name := range inner {
		all = append(all, path.Join(git, name))
	}
	trees, _ := s.list(path.Join(git, "worktrees")) // the directory rarely exists
	for _, e := range trees {
		if e.IsDir() {
			tree := path.Join(git, "worktrees", e.Name())
			all = append(all, path.Join(tree, "commondir"), path.Join(tree, "config.worktree"), path.Join(tree, todo))
		}
	}
	return all
}

// setting is one setting of a git configuration file.
type setting struct{ key, value string }

// settings parses a git configuration file with git itself, because the grammar
// is git's. Includes are not followed and no program is run.
func settings(text []byte) ([]setting, error) {
	cmd := exec.Command("git", "config", "--file", "-", "--no-includes", "--null", "--list")
	cmd.Dir, cmd.Stdin = "/", bytes.NewReader(text)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}
	said, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git cannot read its settings: %w", err)
	}
	var all []setting
	for line := range strings.SplitSeq(strings.TrimSuffix(string(said), "\x00"), "\x00") {
		if key, value, _ := strings.Cut(line, "\n"); key != "" {
			all = append(all, setting{key, value})
		}
	}
	return all, nil
}

// harmless matches settings that run no program and name no file.
var harmless = lazyregexp.New(`\A(core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|sparsecheckout|sparsecheckoutcone|autocrlf|eol|safecrlf|quotepath|abbrev|preloadindex|untrackedcache)` +
	`|extensions\.(objectformat|refstorage|partialclone)|remote\..*\.(url|pushurl|fetch|push|tagopt|prune|mirror|promisor|partialclonefilter)|branch\..*\.(remote|merge|rebase|pushremote|description|vscode-merge-base|gh-merge-base)` +
	`|(user|author|committer)\.(name|email)|pull\.(rebase|ff)|push\.(default|autosetupremote)|fetch\.prune|init\.defaultbranch|submodule\..*\.(url|active)|submodule\.active|gc\.[a-z]+|lfs\.repositoryformatversion|merge\.conflictstyle|rerere\.enabled)\z`)

// helper matches a URL for which git runs a program (gitremote-helpers(7)).
var helper = lazyregexp.New(`\A(-|[A-Za-z0-9+.-]+::)`)

// suspect returns the first setting that is neither harmless nor in before; ""
// = none.
func suspect(text []byte, before []byte) string {
	now, err := settings(text)
	if err != nil {
		return "settings that cannot be read"
	}
	old, _ := settings(before) // a file that cannot be parsed allows no setting
	for _, one := range now {
		runs := strings.HasSuffix(one.key, "url") && helper.MatchString(one.value)
		if (!harmless.MatchString(one.key) || runs) && !slices.Contains(old, one) {
			return one.key
		}
	}
	return ""
}

// foreign returns the reason why a new git directory is set aside; "" = git
// runs no program for it.
func (s *scan) foreign(git string) string {
	text, err := read(s.root, path.Join(git, "config"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "its config cannot be read"
	}
	if key := suspect(text, nil); key != "" {
		return "its config has " + key
	}
	for _, name := range []string{"commondir", todo} {
		if _, err := s.root.Lstat(path.Join(git, name)); err == nil {
			return "it has " + name
		}
	}
	hooks := path.Join(git, "hooks")
	if info, err := s.root.Lstat(hooks); err == nil && !info.IsDir() {
		return "its hooks directory is not a directory"
	}
	in, err := s.list(hooks)
	if err != nil {
		return "its hooks cannot be read"
	}
	for _, e := range in {
		if !strings.HasSuffix(e.Name(), ".sample") {
			return "it has the hook " + e.Name()
		}
	}
	return ""
}

// leads reports whether a .git file refers to a git directory that End checks:
// one in this work directory, or a worktree of one. work is the path of the
// work directory in a sandbox.
func (s *scan) leads(at, dir, work string) bool {
	text, err := read(s.root, at)
	if err != nil {
		return false
	}
	to, is := strings.CutPrefix(strings.TrimRight(string(text), "\r\n"), "gitdir: ")
	if !is {
		return false
	}
	for _, above := range []string{dir, work} {
		if rest, is := strings.CutPrefix(to, above+"/"); is {
			to = rest
		} else if !path.IsAbs(to) {
			to = path.Join(path.Dir(at), to)
			break
		}
	}
	to = path.Clean(to)
	if m, known := s.Git[to]; known && m.Mode.IsDir() {
		return true
	}
	m, known := s.Git[path.Dir(path.Dir(to))]
	return known && m.Mode.IsDir() && path.Base(path.Dir(to)) == "worktrees" && s.common(path.Join(to, "commondir"))
}

// common reports whether the commondir file of a worktree refers to the git
// directory that contains it.
func (s *scan) common(at string) bool {
	text, err := read(s.root, at)
	return err == nil && strings.TrimRight(string(text), "\r\n") == "../.."
}

// runs reports whether the todo list of a rebase has a line that runs a
// program.
func (s *scan) runs(at string) bool {
	text, err := read(s.root, at)
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(text)) {
		if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); word == "exec" || word == "x" {
			return true
		}
	}
	return false
}
