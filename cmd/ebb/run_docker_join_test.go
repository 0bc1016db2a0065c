package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRunDockerJoin: a second sandbox of a task, for another tool, is a Docker
// sandbox like the first one. When it ends the task stays open.
func TestRunDockerJoin(t *testing.T) {
	t.Parallel()
	b := newDockerBed(t)
	b.serve()
	b.put()
	first, _, said := b.sandboxed(`printf %s $EBB_TASK_ID >id.new; mv id.new id; while [ ! -e end ]; do sleep 0.05; done; exit 3`, "--tool", "first")
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.Process.Kill() })
	task := b.await("id")
	second, out, errs := b.run(`nc -w 30 ${HOST%:*} ${HOST#*:} </dev/null && echo reached; echo "$KEY"; ebb token --scope shop:orders:read >/dev/null && echo asked; echo $EBB_TASK_ID; exit 7`,
		"--join", task, "--tool", "second", "--credential", "KEY=shop:orders:read", "--host", b.outBed.host, "--env", "HOST="+b.outBed.host)
	_ = second.Run()
	if code := second.ProcessState.ExitCode(); code != 7 || !strings.HasPrefix(out.String(), "reached\nebb-placeholder.") || !strings.HasSuffix(out.String(), "\nasked\n"+task+"\n") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if err := os.WriteFile(filepath.Join(b.work, "end"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait()
	if code := first.ProcessState.ExitCode(); code != 3 {
		t.Errorf("exit code %d\n%s", code, said)
	}
}
