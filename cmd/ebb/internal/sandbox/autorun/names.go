//go:build linux

package autorun

import (
	"path"
	"strings"
)

// rule describes how a file of one name is treated.
type rule struct {
	reason string
	live   bool // programs outside read it as soon as it exists: the sandbox gets a read-only directory of this name
	tell   bool // only reported at the end and stays writable, because agents have to write it
}

// names are files and directories that a program runs, or reads names of
// programs from, without being asked to run this project. A name may have a
// parent directory. Names are in lower case, because a file system may ignore
// case.
//
// Not included are files with which a user asks to run the project itself
// (Makefile, package.json, build.gradle, conftest.py, eslint.config.js), text
// that runs nothing (AGENTS.md, .editorconfig, .nvmrc), and sources.
var names = func() map[string]rule {
	all := map[string]rule{}
	add := func(r rule, words string) {
		for _, name := range strings.Fields(words) {
			all[name] = r
		}
	}
	add(rule{reason: "editors run tasks and programs that it names", live: true}, ".vscode .idea .zed .fleet .helix")
	add(rule{reason: "editors run it"}, ".exrc .vimrc .nvimrc .nvim.lua .lvimrc .vim .dir-locals.el .dir-locals-2.el .ycm_extra_conf.py")
	add(rule{reason: "agents run hooks and servers that it names", live: true}, ".claude .cursor .codex .gemini .windsurf .kiro .opencode .amazonq .roo .continue")
	add(rule{reason: "agents run servers that it names"}, ".mcp.json opencode.json opencode.jsonc .aider.conf.yml")
	add(rule{reason: "the shell runs it on entering the directory"}, ".envrc .mise .mise.toml .mise.local.toml mise.toml mise.local.toml .tool-versions .rtx.toml .autoenv .autoenv.zsh")
	add(rule{reason: "shells and the programs of a session read it at their start, where this is a home or linked from one"},
		".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .login .cshrc .tcshrc .inputrc .tmux.conf .screenrc .xprofile .xsession .xinitrc .gitconfig .ripgreprc .curlrc .wgetrc .config")
	add(rule{reason: "interpreters and debuggers run it at their start"},
		".rprofile .renviron .irbrc .pryrc .pdbrc .octaverc .ghci .ocamlinit .iex.exs .gdbinit .lldbinit .valgrindrc sitecustomize.py usercustomize.py")
	add(rule{reason: "package managers run programs that it names"},
		".npmrc .yarnrc .yarnrc.yml .yarn/releases .yarn/plugins .pnpmfile.cjs .pnpmfile.mjs rust-toolchain rust-toolchain.toml .bazelrc tools/bazel .mvn mvnw mvnw.cmd gradlew gradlew.bat gradle/wrapper .bundle ansible.cfg")
	add(rule{reason: "cargo and editors run programs that it names", live: true}, ".cargo")
	add(rule{reason: "hooks of version control run it"},
		".husky .githooks .git-hooks .lefthook lefthook.yml lefthook.yaml lefthook.toml lefthook.json .lefthook.yml .lefthook.yaml .lefthook.toml .lefthook.json lefthook-local.yml .lefthook-local.yml .pre-commit-config.yaml .pre-commit-config.yml .overcommit.yml .hg/hgrc .hg/hgrc-not-shared .hg/sharedpath .jj/repo .gitmodules")
	add(rule{reason: "CI runs it"},
		".github .gitlab .gitlab-ci.yml .circleci .travis.yml jenkinsfile azure-pipelines.yml .azure-pipelines .drone.yml .buildkite bitbucket-pipelines.yml .woodpecker .woodpecker.yml .forgejo .gitea .cirrus.yml appveyor.yml .appveyor.yml .semaphore .teamcity cloudbuild.yaml cloudbuild.yml buildspec.yml .build.yml .builds .tekton")
	add(rule{reason: "development environments run it as they are made"}, ".devcontainer .devcontainer.json .gitpod.yml .gitpod.dockerfile .idx .replit")
	add(rule{reason: "it chooses which of your git filters and drivers run", tell: true}, ".gitattributes")
	add(rule{reason: "shells and tools load variables from it", tell: true}, ".env")
	add(rule{reason: "its programs run by name", tell: true}, "node_modules/.bin .venv/bin venv/bin .pnp.cjs .pnp.loader.mjs")
	return all
}()

// parts are prefixes of names: programs also read files with a longer name, by
// convention.
var parts = []string{".envrc", ".bashrc", ".zshrc", ".profile", ".gitconfig", ".env", ".mise"}

// dependencies are directories with files of other projects. In them only git
// directories are searched, and files whose rule has tell.
var dependencies = map[string]bool{"node_modules": true, "bower_components": true, "vendor": true, "site-packages": true, ".venv": true, "venv": true}

// ruleOf returns the rule of a path. inside a directory of dependencies only
// rules with tell count.
func ruleOf(at string, inside bool) (rule, bool) {
	at = strings.ToLower(at)
	base := path.Base(at)
	r, known := names[base]
	if !known {
		r, known = names[path.Base(path.Dir(at))+"/"+base]
	}
	if !known && strings.HasSuffix(base, ".code-workspace") {
		r, known = names[".vscode"]
	}
	for _, start := range parts {
		if !known && strings.HasPrefix(base, start) {
			r, known = names[start]
		}
	}
	return r, known && (!inside || r.tell)
}
