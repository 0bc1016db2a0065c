package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// TestRenameModule renames a copy of this repository to another module path.
// Every import must still resolve there, and packages that import others of the
// repository must build.
func TestRenameModule(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	old, _, _ := strings.Cut(strings.TrimPrefix(string(mod), "module "), "\n")
	list, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		counterpart.Missing(t, "git", "a checkout of git: "+err.Error())
	}
	dir := t.TempDir()
	for name := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			continue // deleted and not committed yet
		}
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, args ...string) string {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as the packages that are compiled already
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	run("git", "init", "-q")
	run("git", "add", "-A")
	const path = "git.example.org/tools/broker"
	run("bash", ".ci/rename-module", path)
	if got := strings.TrimSpace(run("go", "list", "-m")); got != path {
		t.Errorf("the module is %s", got)
	}
	if out, err := exec.Command("grep", "-rnF", "--exclude-dir=.git", old+"/", dir).CombinedOutput(); err == nil {
		t.Errorf("the old path is left:\n%s", out)
	}
	run("go", "list", "-deps", "-test", "-f", "{{if .Error}}{{.Error}}{{end}}", "./...") // resolves each import of each package
	run("go", "build", "./web/verify", "./scopes/...")
	if cmd := exec.Command("bash", filepath.Join(dir, ".ci", "rename-module"), "nodot"); cmd.Run() == nil {
		t.Error("a path without a dot was taken: nobody could import it")
	}
}
