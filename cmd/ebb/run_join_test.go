package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// opener is a sandbox that runs until the test ends it.
type opener struct {
	cmd  *exec.Cmd
	errs bytes.Buffer
	task string
}

// openSandboxed opens a task with a sandbox that waits for the file end in its work
// directory.
func (b *outBed) openSandboxed(t *testing.T) *opener {
	t.Helper()
	o := &opener{}
	o.cmd = b.ebb("run", "--scope", "shop:**:*", "--tool", "first", "--credential", "KEY=shop:orders:read", "--", "sh", "-c", `printf %s $EBB_TASK_ID >id.new; printf %s "$KEY" >key; mv id.new id; while [ ! -e end ]; do sleep 0.05; done`)
	o.cmd.Stderr = &o.errs
	if err := o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.cmd.Process.Kill() })
	o.task = b.await("id")
	return o
}

// await returns the text of a file in the work directory, once it exists.
func (b *outBed) await(name string) string {
	b.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if text, err := os.ReadFile(filepath.Join(b.work, name)); err == nil {
			return string(text)
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s did not begin", name)
		}
	}
}

// end lets the first sandbox end, and its task with it.
func (b *outBed) end(t *testing.T, o *opener) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(b.work, "end"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := o.cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, o.errs.String())
	}
	for _, name := range []string{"end", "id"} {
		_ = os.Remove(filepath.Join(b.work, name))
	}
}

// join runs a script in another sandbox of a task.
func (b *outBed) join(task, script string, flags ...string) (code int, stdout, stderr string) {
	b.t.Helper()
	args := append([]string{"run", "--join", task, "--env", "HOST=" + b.host}, flags...)
	cmd := b.ebb(append(args, "--", "sh", "-c", script)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// TestRunJoin: a second sandbox of a task, for another tool, gets the
// credentials that it requests itself and none of the first one; when it ends
// the task stays open, and it cannot complete the task.
//
//ebb:invariant I6 A run that has joined a task neither opens that task again nor completes it
func TestRunJoin(t *testing.T) {
	t.Parallel()
	b := newOutBed(t)
	b.serve()
	b.put()
	o := b.openSandboxed(t)
	const code = `code() { curl -sS -o /dev/null -w '%{http_code}\n' -H "Authorization: Bearer $1" https://$HOST/v1/joined; }; `
	got, out, errs := b.join(o.task, code+`code "$(cat key)"; code "$MINE"; code "$(ebb token --scope shop:orders:read)"; env | grep -c EBB_TASK_ID=`+o.task,
		"--tool", "second", "--credential", "MINE=shop:orders:read")
	if got != 0 || out != "401\n200\n200\n1\n" || strings.Contains(errs, "ended:") {
		t.Errorf("exit code %d, %q\n%s", got, out, errs)
	}
	if text := b.must(b.ebb("task", "show", o.task, "-o", "json")); !strings.Contains(text, `"open"`) {
		t.Errorf("after the second sandbox the task is %s", text)
	}
	// The first sandbox continues, and so does a third one.
	if got, out, errs := b.join(o.task, `echo in; exit 7`, "--tool", "third"); got != 7 || out != "in\n" {
		t.Errorf("exit code %d, %q\n%s", got, out, errs)
	}
	// When the task ends all its sandboxes end.
	joined := make(chan int, 1)
	go func() {
		got, _, _ := b.join(o.task, `trap 'exit 42' TERM; touch up; while :; do sleep 0.05; done`)
		joined <- got
	}()
	b.await("up")
	b.end(t, o)
	if got := <-joined; got != 42 {
		t.Errorf("when the task is over a second sandbox ends with code %d", got)
	}
}

// TestRunJoinRefused: a task that has ended, does not exist, belongs to another
// user or has no runner cannot be joined, nothing runs, and the error names the
// reason.
//
//ebb:invariant I6 The directory of a run cannot be mounted into a sandbox of another run, whichever run started first
//ebb:invariant I6 A run that has joined a task neither opens that task again nor completes it
func TestRunJoinRefused(t *testing.T) {
	t.Parallel()
	b := newOutBed(t)
	b.serve()
	b.put()
	o := b.openSandboxed(t)
	refused := func(what, task, want string, flags ...string) {
		t.Helper()
		code, out, errs := b.join(task, `echo ran`, flags...)
		if code == 0 || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %q\n%s", what, code, out, errs)
		}
	}
	refused("no id", "../../etc/passwd", "needs a task ID")
	refused("a task that is none", "tsk_00000000000000000000000000000000", "There is no task")
	refused("with a scope", o.task, "describe a task", "--scope", "shop:**:*")
	refused("without a sandbox", o.task, "needs a sandbox", "--sandbox", "none")
	opened := strings.Fields(b.must(b.ebb("task", "open", "--scope", "shop:**:*", "-o", "csv")))
	other := strings.Split(opened[len(opened)-1], ",")[0]
	refused("one that no run has opened", other, "does not belong to an active `ebb run`")
	// A link to another file does not make a runner.
	fake := filepath.Join(b.home, "fake")
	if err := os.Symlink(fake, filepath.Join(b.home, "data", runsDir, other)); err != nil {
		t.Fatal(err)
	}
	refused("a link to nothing", other, "does not belong to an active `ebb run`")
	// Nor can the second sandbox have the directory of the socket that the first
	// run lends.
	socket, err := os.Readlink(filepath.Join(b.home, "data", runsDir, o.task))
	if err != nil {
		t.Fatal(err)
	}
	refused("the first run's socket", o.task, "no sandbox may have this path", "--read", filepath.Dir(socket))
	// Nor can it have the directory of a run without a sandbox, wherever its
	// TMPDIR is.
	plain := b.ebb("run", "--sandbox", "none", "--scope", "shop:**:*", "--", "sh", "-c", `printf %s "$EBB_KEY_FILE" >where.new; mv where.new where; while [ ! -e end ]; do sleep 0.05; done`)
	plain.Env = append(plain.Env, "TMPDIR="+b.work)
	if err := plain.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plain.Process.Kill() })
	key := b.await("where")
	if strings.HasPrefix(key, b.work) {
		t.Errorf("the key of a run without a sandbox is where the sandbox of another may write: %s", key)
	}
	refused("the key of a run without a sandbox", o.task, "no sandbox may have this path", "--read", filepath.Dir(key))
	b.end(t, o)
	if err := plain.Wait(); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(key)), runPrefix+"*")); err != nil || len(left) != 0 {
		t.Errorf("of runs that ended is left %q, %v", left, err)
	}
	refused("one that is over", o.task, "has ended")
	o = b.openSandboxed(t)
	if err := o.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = o.cmd.Wait()
	refused("one whose runner was killed", o.task, "does not belong to an active `ebb run`")
}
