//go:build linux

package bwrap_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/autorun"
)

// plant is a file that a hostile command leaves in its work directory, as shell
// commands. RUN is a command that records that it ran. Plants of one tree do
// not affect each other.
type plant struct {
	tree, name, script string
	file               string // read by a program that is not installed here: its text must not be in the file
}

const (
	evil = `mkdir -p DIR && git init -q DIR && printf '[core]\n\tfsmonitor = "RUN; false"\n' >>DIR/.git/config`
	bare = `mkdir -p DIR/objects DIR/refs && printf 'ref: refs/heads/main\n' >DIR/HEAD && printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = "RUN; false"\n' >DIR/config`
	hook = `printf '#!/bin/sh\nRUN\n' >FILE; chmod +x FILE`
)

func in(dir, script string) string { return strings.ReplaceAll(script, "DIR", dir) }

func file(path, script string) string { return strings.ReplaceAll(script, "FILE", path) }

// plants are 75 ways to make a program run later.
func plants() []plant {
	all := []plant{
		{tree: "settings", name: "hook", script: file(".git/hooks/pre-commit", hook)},
		{tree: "settings", name: "hook-post-checkout", script: file(".git/hooks/post-checkout", hook)},
		{tree: "settings", name: "hooks-moved", script: `mv .git/hooks .git/old; mkdir .git/hooks; ` + file(".git/hooks/post-index-change", hook)},
		{tree: "settings", name: "fsmonitor", script: `git config core.fsmonitor 'RUN; false'`},
		{tree: "settings", name: "config-appended", script: `printf '[core]\n\tfsmonitor = "RUN; false"\n' >>.git/config`},
		{tree: "settings", name: "config-renamed-over", script: `cp .git/config c; printf '[core]\n\tfsmonitor = "RUN; false"\n' >>c; mv -f c .git/config`},
		{tree: "settings", name: "config-removed", script: `rm -f .git/config; printf '[core]\n\tfsmonitor = "RUN; false"\n' >.git/config`},
		{tree: "settings", name: "config-linked-to", script: `ln .git/config x1 && printf '[core]\n\tfsmonitor = "RUN; false"\n' >>x1`},
		{tree: "settings", name: "config-hard-link", script: `printf '[core]\n\tfsmonitor = "RUN; false"\n' >>tools/alias`},
		{tree: "settings", name: "config-symlink", script: `ln -s .git/config x2; printf '[core]\n\tfsmonitor = "RUN; false"\n' >>x2`},
		{tree: "settings", name: "config-by-proc", script: `printf '[core]\n\tfsmonitor = "RUN; false"\n' >>/proc/self/cwd/.git/config`},
		{tree: "settings", name: "include", script: `printf '[core]\n\tfsmonitor = "RUN; false"\n' >>tools/more.gitconfig`},
		{tree: "settings", name: "include-replaced", script: `rm -f tools/more.gitconfig; printf '[core]\n\tfsmonitor = "RUN; false"\n' >tools/more.gitconfig`},
		{tree: "settings", name: "include-parent", script: `mv tools tools2; mkdir tools; printf '[core]\n\tfsmonitor = "RUN; false"\n' >tools/more.gitconfig`},
		{tree: "filter", name: "filter", script: `printf '#!/bin/sh\nRUN\ncat\n' >tools/clean.sh; echo 2 >>a.dat`},
		{tree: "filter", name: "filter-replaced", script: `rm -f tools/clean.sh; printf '#!/bin/sh\nRUN\ncat\n' >tools/clean.sh; chmod +x tools/clean.sh; echo 3 >>a.dat`},
		{tree: "filter", name: "attributes", script: `echo '*.txt filter=own' >.git/info/attributes; printf '[filter "own"]\n\tclean = "RUN; cat"\n' >>.git/config; echo 2 >>a.txt`},
		{tree: "filter", name: "info-moved", script: `mv .git/info .git/i2; mkdir .git/info; echo '*.txt filter=x' >.git/info/attributes; printf '#!/bin/sh\nRUN\ncat\n' >tools/clean.sh; echo 2 >>a.txt`},
		{tree: "worktree-config", name: "worktree-config", script: `printf '[core]\n\tfsmonitor = "RUN; false"\n' >.git/config.worktree`},
		{tree: "commondir", name: "commondir", script: in("x", evil) + `; echo ../x/.git >.git/commondir`},
		{tree: "moved", name: "git-moved", script: `mv .git old; ` + in(".", evil)},
		{tree: "moved", name: "git-removed", script: `rm -rf .git; ` + in(".", evil)},
		{tree: "gitfile", name: "git-file", script: in("y", evil) + `; rm -rf .git; echo 'gitdir: y/.git' >.git`},
		{tree: "bare", name: "head-removed-bare", script: `rm .git/HEAD; ` + in(".", bare)},
		{tree: "bare", name: "bare-below", script: in("b1/b2", bare)},
		{tree: "bare", name: "bare-hooks", script: in("b3", strings.Replace(bare, `\tfsmonitor = "RUN; false"\n`, ``, 1)) + `; mkdir b3/hooks; ` + file("b3/hooks/pre-commit", hook)},
		{tree: "nested", name: "nested", script: in("n1", evil)},
		{tree: "nested", name: "nested-deep", script: in("n2/a/b/c", evil)},
		{tree: "nested", name: "nested-in-modules", script: in("node_modules/x", evil)},
		{tree: "nested", name: "nested-unreadable", script: in("n3/d", evil) + `; chmod 0311 n3`},
		{tree: "nested", name: "nested-hook", script: `git init -q n4; rm -rf n4/.git/hooks; mkdir n4/.git/hooks; ` + file("n4/.git/hooks/pre-commit", hook)},
		{tree: "nested", name: "nested-include", script: `git init -q n5; git -C n5 config include.path ../../evil.gitconfig; printf '[core]\n\tfsmonitor = "RUN; false"\n' >evil.gitconfig`},
		{tree: "nested", name: "nested-git-file", script: in("n6/real", evil) + `; mv n6/real/.git n6/g; echo 'gitdir: g' >n6/.git`},
		{tree: "nested", name: "nested-git-link", script: in("n7/real", evil) + `; mv n7/real/.git n7/g; ln -s g n7/.git`},
		{tree: "nested", name: "nested-commondir", script: `git init -q n8; ` + in("n9", evil) + `; echo ../../n9/.git >n8/.git/commondir`},
		{tree: "nested", name: "gitlink-of-the-index", script: in("n10", evil) + `; cd n10 && git commit -q --allow-empty -m x; cd .. && git update-index --add --cacheinfo 160000,$(git -C n10 rev-parse HEAD),n10`},
		{tree: "nested", name: "nested-transport", script: `git init -q n11; git -C n11 remote add origin "ext::RUN"; git -C n11 config protocol.ext.allow always`},
		{tree: "submodule", name: "submodule-config", script: `git config --file .git/modules/mod/config core.fsmonitor 'RUN; false'`},
		{tree: "submodule", name: "submodule-hook", script: file(".git/modules/mod/hooks/pre-commit", hook)},
		{tree: "submodule", name: "submodule-moved", script: `mv mod mod2; ` + in("mod", evil)},
		{tree: "submodule", name: "submodule-git-file", script: in("z", evil) + `; rm -f mod/.git; echo 'gitdir: ../z/.git' >mod/.git`},
		{tree: "submodule", name: "modules-moved", script: `mv .git/modules .git/m2; ` + in("z2", evil) + `; mkdir .git/modules; mv z2/.git .git/modules/mod`},
		{tree: "worktree", name: "worktree-commondir", script: in("w1", evil) + `; echo ../../../w1/.git >.git/worktrees/out/commondir`},
		{tree: "worktree", name: "worktrees-moved", script: in("w2", evil) + `; mv .git/worktrees .git/w; mkdir -p .git/worktrees/out; cp .git/w/out/* .git/worktrees/out; echo ../../../w2/.git >.git/worktrees/out/commondir`},
		{tree: "worktree", name: "new-worktree", script: in("w3", evil) + `; git worktree add -q inner; echo ../../../w3/.git >.git/worktrees/inner/commondir; echo 'gitdir: ../.git/worktrees/inner' >inner/.git`},
		{tree: "rebase", name: "rebase", script: `mkdir .git/rebase-merge; cd .git/rebase-merge; echo refs/heads/main >head-name; git rev-parse HEAD | tee onto >orig-head; : >interactive; echo 1 >msgnum; echo 1 >end; printf 'exec RUN\n' >git-rebase-todo`},
		{tree: "hookspath", name: "hooks-path", script: `mkdir -p tools/hooks/sub; ` + file("tools/hooks/sub/post-index-change", hook)},
		{tree: "direnv", name: "envrc", script: `echo 'RUN' >.envrc`, file: ".envrc"},
		{tree: "direnv", name: "envrc-sourced", script: `echo 'RUN' >.envrc.local`},
		{tree: "home", name: "home-link", script: `echo 'RUN' >>dots/aliases`},
		{tree: "home", name: "home-link-replaced", script: `rm -f dots/aliases; echo 'RUN' >dots/aliases`},
		{tree: "python", name: "sitecustomize", script: `echo 'import os; os.system("RUN")' >sitecustomize.py`},
	}
	for _, name := range []string{".bashrc", ".bash_profile", ".zshrc", ".zshenv", ".profile"} {
		all = append(all, plant{tree: "home-like", name: name, script: `echo 'RUN' >` + name})
	}
	all = append(all,
		plant{tree: "home-like", name: ".gitconfig", script: `printf '[core]\n\tfsmonitor = "RUN; false"\n' >.gitconfig`},
		plant{tree: "home-like-config", name: ".config/git", script: `mkdir -p .config/git; printf '[core]\n\tfsmonitor = "RUN; false"\n' >.config/git/config`})
	for _, name := range []string{
		".vscode/tasks.json", ".vscode/settings.json", ".idea/workspace.xml", ".claude/settings.json", ".cursor/mcp.json", ".mcp.json", ".codex/config.toml", ".cargo/config.toml", ".npmrc", ".yarnrc.yml",
		".husky/pre-commit", "lefthook.yml", ".pre-commit-config.yaml", ".github/workflows/x.yml", ".gitlab-ci.yml", ".devcontainer/devcontainer.json", "mise.toml", ".exrc", ".dir-locals.el", "shop.code-workspace", ".hg/hgrc", "sub/.vscode/tasks.json",
	} {
		all = append(all, plant{tree: "names", name: name, script: fmt.Sprintf("mkdir -p $(dirname %[1]s); echo 'RUN' >%[1]s", name), file: name})
	}
	for _, name := range []string{".idea", ".github", ".husky", ".vscode"} { // through a link, and over an existing file
		all = append(all, plant{tree: "links", name: name + "-link", script: fmt.Sprintf("mkdir -p real%[1]s; echo 'RUN' >real%[1]s/x; rm -rf %[1]s; ln -s real%[1]s %[1]s", name), file: name + "/x"})
	}
	return all
}

// base creates a tree for one group of plants, with a repository, a submodule
// and a worktree elsewhere.
const base = `set -e
cd "$W"
export GIT_CONFIG_GLOBAL=$HOME/.gitconfig
git init -q -b main .
mkdir -p tools dots
printf '#!/bin/sh\ncat\n' >tools/clean.sh; chmod +x tools/clean.sh
printf '[alias]\n\tz = status\n' >tools/more.gitconfig
echo 1 >a.txt; echo 1 >a.dat; echo '*.dat filter=x' >.gitattributes; : >dots/aliases
echo 'source_env_if_exists .envrc.local' >.envrc
git -c filter.x.clean=cat add -A
git -c filter.x.clean=cat commit -q -m base
git config filter.x.clean tools/clean.sh
git config include.path ../tools/more.gitconfig
if [ $T = worktree-config ]; then git config extensions.worktreeConfig true; fi
if [ $T = hookspath ]; then git config core.hooksPath tools/hooks/sub; fi
if [ $T = submodule ]; then git -c protocol.file.allow=always submodule --quiet add "$HOME/mod" mod; git commit -q -m mod; fi
if [ $T = worktree ]; then git worktree add -q "$HOME/out" -b out 2>/dev/null; mv .git/worktrees/* .git/worktrees/out 2>/dev/null || :; fi
if [ $T = settings ]; then ln .git/config tools/alias; fi
if [ $T = direnv ]; then direnv allow . 2>/dev/null || :; fi
if [ $T = home ]; then ln -s "$W/dots/aliases" "$HOME/.bash_aliases"; echo '. "$HOME/.bash_aliases"' >"$HOME/.bashrc"; fi
`

// act are the commands of the user afterwards.
const act = `cd "$W"
g() { git "$@" >/dev/null 2>&1 </dev/null; }
walk() {
	g status; g diff; g log -1; g add -A; g commit -q -m act; g checkout -q -B act; g checkout -q -; g stash; g submodule status; g rebase --continue; g fetch; g gc --auto
}
walk
find . -maxdepth 5 -type d -not -path '*/.git/*' -not -name .git 2>/dev/null | while read -r d; do (cd "$d" && g status && g commit -q --allow-empty -m act; g fetch); done
[ ! -d n3/d ] || (cd n3/d && g status)
[ ! -d "$HOME/out" ] || (cd "$HOME/out" && walk)
bash -ic 'cd "$W"; cd tools' >/dev/null 2>&1 </dev/null
if command -v direnv; then direnv exec . true; (cd tools && direnv exec . true); fi >/dev/null 2>&1 </dev/null
case $T in
home-like*)
	for sh in bash zsh; do HOME=$W $sh -ic true; HOME=$W $sh -lc true; done >/dev/null 2>&1 </dev/null
	unset GIT_CONFIG_GLOBAL
	HOME=$W git status >/dev/null 2>&1 ;;
python) PYTHONPATH=$W python3 -c pass >/dev/null 2>&1 ;;
esac
true
`

// field is a work directory with the user's files beside it.
type field struct {
	*bed
	home, marks string
	tree        string
}

func (f *field) sh(script string) {
	f.T.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = f.home
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.home, "W=" + f.Spec.Work, "T=" + f.tree, "GIT_CONFIG_NOSYSTEM=1"}
	if u := f.Spec.User; u != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.UID, Gid: u.GID}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		f.T.Fatalf("%s: %v: %s", f.tree, err, out)
	}
}

func newField(t *testing.T, tree string) *field {
	t.Helper()
	f := &field{bed: newBed(t), home: t.TempDir(), marks: t.TempDir(), tree: tree}
	if err := os.Chmod(filepath.Dir(f.home), 0o755); err != nil { // for a user other than the one that runs the test
		t.Fatal(err)
	}
	if u := f.Spec.User; u != nil {
		for _, dir := range []string{f.home, f.marks} {
			if err := os.Chown(dir, int(u.UID), int(u.GID)); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.Spec.Env = append(f.Spec.Env, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	f.sh(`git config --file "$HOME/.gitconfig" user.name a; git config --file "$HOME/.gitconfig" user.email a@b; git init -q -b main mod; cd mod; git commit -q --allow-empty -m mod`)
	f.sh(base)
	return f
}

// acted plants all files of one tree, ends the run, runs the user's commands,
// and returns the plants that ran.
func (f *field) acted(protect bool) (ran []string) {
	f.T.Helper()
	g, err := autorun.Begin(f.Spec.Work, protect, []string{f.home})
	if err != nil {
		f.T.Fatal(err)
	}
	defer g.Close()
	f.Spec.Fixed = g.Places()
	var script strings.Builder
	var mine []plant
	for _, p := range plants() {
		if p.tree == f.tree {
			run := "touch " + filepath.Join(f.marks, strings.ReplaceAll(p.name, "/", "-"))
			_, _ = fmt.Fprintf(&script, "(%s) >/dev/null 2>&1\n", strings.ReplaceAll(p.script, "RUN", run))
			mine = append(mine, p)
		}
	}
	f.Sh(script.String() + "true")
	if _, err := g.End(); err != nil {
		f.T.Fatal(err)
	}
	f.sh(act)
	for _, p := range mine {
		mark := filepath.Join(f.marks, strings.ReplaceAll(p.name, "/", "-"))
		text, _ := os.ReadFile(filepath.Join(f.Spec.Work, p.file))
		if _, err := os.Stat(mark); err == nil || p.file != "" && strings.Contains(string(text), mark) {
			ran = append(ran, p.name)
		}
	}
	return ran
}

// TestPlants: no file that a command leaves in its work directory makes the
// user's git, shell, editor or CI run a program. Without protection each plant
// runs, if it is alone in its tree; trees of many show that here.
//
//ebb:invariant I6 No file that a sandbox leaves in its work directory makes git, a shell, an editor or CI run a program
//ebb:invariant I6 When the command ends, new or replaced files in the work directory that could make programs run are set aside
func TestPlants(t *testing.T) {
	t.Parallel()
	var trees []string
	for _, p := range plants() {
		trees = append(trees, p.tree)
	}
	slices.Sort(trees)
	if n := len(plants()); n < 60 {
		t.Errorf("%d plants", n)
	}
	least := map[string]int{"names": 22, "nested": 8, "home-like": 3}
	if _, err := exec.LookPath("zsh"); err == nil {
		least["home-like"] += 2
	}
	for _, tree := range slices.Compact(trees) {
		t.Run(tree, func(t *testing.T) {
			t.Parallel()
			if ran := newField(t, tree).acted(true); len(ran) > 0 {
				t.Errorf("these ran: %q", ran)
			}
			if least := least[tree]; least > 0 {
				if ran := newField(t, tree).acted(false); len(ran) < least {
					t.Errorf("where nothing is protected only %q ran", ran)
				}
			}
		})
	}
}

// TestGitOfAGuard: git works in the sandbox, except for its settings and hooks.
// New repositories that run no program are unchanged, and no file that existed
// only for the sandbox is left.
//
//ebb:invariant I6 Git works in the sandbox despite the write protection of such files, and no placeholder file remains in the work directory afterwards
func TestGitOfAGuard(t *testing.T) {
	t.Parallel()
	f := newField(t, "worktree")
	f.sh(`cd "$W"; git init -q --bare up.git; echo /up.git >>.git/info/exclude; git remote add origin ./up.git; git push -q origin main:main main:other; git fetch -q; rm -f .gitattributes; git commit -qam x; git ls-files >"$HOME/before"; find . -not -path './.git/*' | sort >"$HOME/tree"`)
	g, err := autorun.Begin(f.Spec.Work, true, []string{f.home})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	f.Spec.Fixed = g.Places()
	f.Spec.Env = append(f.Spec.Env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=branch.autoSetupMerge", "GIT_CONFIG_VALUE_0=false")
	out := f.Sh(`set -e; git status --porcelain; git checkout -q -b feature; echo 1 >new; git add -A; git commit -q -m new; git checkout -q other; git checkout -q feature; git branch third
		git stash list; git rebase -q other; git push -q origin feature; git fetch -q; git tag v1; git gc -q; git worktree add -q inner third; git worktree remove inner; git reset -q --hard; mv new newer; git add -A; git commit -q -m moved
		git init -q fresh; git clone -q up.git cloned 2>/dev/null; (cd cloned; git config user.name b)
		git config user.name b 2>&1 && exit 9; git log --oneline | wc -l`)
	if want := "error: could not write config file .git/config: Device or resource busy\n4\n"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
	found, err := g.End()
	if err != nil || len(found) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
	f.sh(`cd "$W"; git status --porcelain | grep -vx '?? cloned/\|?? fresh/' && exit 1; (cd cloned && git fetch && git status --porcelain); (cd fresh && git status --porcelain); rm -rf cloned fresh newer; find . -not -path './.git/*' | sort | cmp - "$HOME/tree"; ! ls .git/config.worktree .git/info/attributes 2>/dev/null`)
}

// TestGuardOfAChangedTree: the user's own changes during a run are not set
// aside.
//
//ebb:invariant I6 Changes that the user makes to such files in the work directory during a run are not set aside
func TestGuardOfAChangedTree(t *testing.T) {
	t.Parallel()
	f := newField(t, "names")
	f.sh(`mkdir "$W/.github"; echo 1 >"$W/.github/x"`)
	g, err := autorun.Begin(f.Spec.Work, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	f.sh(`cd "$W"; echo 2 >.github/x; echo '{}' >.vscode/settings.json; git config branch.main.remote origin; git config user.name c`)
	found, err := g.End()
	var paths []string
	for _, one := range found {
		paths = append(paths, one.Path+one.Aside)
	}
	slices.Sort(paths)
	if err != nil || !slices.Equal(paths, []string{".github", ".vscode"}) {
		t.Errorf("%q, %v", paths, err)
	}
}
