package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRunGuard: a run reports at its end the files that make programs run, and
// sets new ones aside. For a killed run the next one does. With --work-mode
// open they stay and are reported.
//
//ebb:invariant I6 After a run was killed, the next run sets aside the files in its work directory that could make programs run
func TestRunGuard(t *testing.T) {
	t.Parallel()
	b := newOutBed(t)
	b.serve()
	as := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-c", "safe.directory=*", "-C", b.work, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		said, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v: %s", args, err, said)
		}
		return string(said)
	}
	as("init", "-q")
	b.must(exec.Command("chown", "-R", "4242:4242", b.work))
	run := func(script string, flags ...string) (int, string) {
		cmd := b.ebb(append(append([]string{"run", "--scope", "shop:**:*"}, flags...), "--", "sh", "-c", script)...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		_ = cmd.Run()
		return cmd.ProcessState.ExitCode(), errs.String()
	}
	aside := func() string {
		t.Helper()
		found, _ := filepath.Glob(filepath.Join(b.work, ".envrc*"))
		if len(found) != 1 {
			t.Fatalf("%q", found)
		}
		_ = os.Remove(found[0])
		return filepath.Base(found[0])
	}
	code, errs := run("echo x >.git/hooks/pre-commit || echo x >.envrc")
	name := aside()
	if code != 0 || !strings.HasPrefix(name, ".envrc.ebb-set-aside-") || !strings.Contains(errs, "SET ASIDE .envrc (the shell runs it on entering the directory). It is now "+name) {
		t.Errorf("%d, %s: %s", code, name, errs)
	}
	code, errs = run("printf 'x\\n' >.git/hooks/pre-commit && echo x >.envrc && git config core.pager x", "--work-mode", "open")
	if name := aside(); code != 0 || name != ".envrc" || !strings.Contains(errs, "LOOK AT .envrc ") || !strings.Contains(errs, "LOOK AT .git/hooks ") || !strings.Contains(errs, "LOOK AT .git/config ") {
		t.Errorf("%d, %s: %s", code, name, errs)
	}
	// In a directory and a repository that the command itself created: not during
	// the run, but after it.
	code, errs = run("mkdir app && echo x >app/.envrc && git init -q lib && echo x >lib/.git/hooks/pre-commit && git init -q plain && echo 'gitdir: /elsewhere' >app/.git && git -C lib status >/dev/null && test -e app/.envrc && test -e app/.git")
	for at, why := range map[string]string{"app/.envrc": "the shell runs it on entering the directory", "app/.git": "it refers to another git directory, whose hooks and programs git would run", "lib/.git/HEAD": "a new repository: it has the hook pre-commit"} {
		found, _ := filepath.Glob(filepath.Join(b.work, at+".ebb-set-aside-*"))
		if _, err := os.Lstat(filepath.Join(b.work, at)); err == nil || code != 0 || len(found) != 1 || !strings.Contains(errs, "SET ASIDE "+at+" ("+why+"). It is now "+filepath.Base(found[0])+"\n") {
			t.Errorf("%s: %v, %d, %q: %s", at, err, code, found, errs)
		}
	}
	if as("-C", "plain", "status", "--porcelain"); strings.Contains(errs, "plain") {
		t.Errorf("a repository that runs nothing: %s", errs)
	}
	for _, made := range []string{"app", "lib", "plain"} {
		if err := os.RemoveAll(filepath.Join(b.work, made)); err != nil {
			t.Fatal(err)
		}
	}
	for _, flags := range [][]string{{"--work-mode", "closed"}, {"--work-mode", "protect", "--sandbox", "none"}} {
		if code, errs := run("true", flags...); code != int(exitUsage) {
			t.Errorf("%q: exit code %d, %s", flags, code, errs)
		}
	}
	cmd := b.ebb("run", "--scope", "shop:**:*", "--", "sh", "-c", "echo x >.envrc; exec sleep 600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(b.work, ".envrc")); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("nothing runs")
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	code, errs = run("true")
	if name := aside(); code != 0 || !strings.HasPrefix(name, ".envrc.ebb-set-aside-") || !strings.Contains(errs, "a run was killed") {
		t.Errorf("%d, %s: %s", code, name, errs)
	}
	if left := as("-c", "core.pager=cat", "status", "--porcelain", "--ignored"); left != "" {
		t.Errorf("left behind: %s", left)
	}
	if found, _ := filepath.Glob(filepath.Join(b.work, ".*")); len(found) != 1 {
		t.Errorf("left behind: %q", found)
	}
}
