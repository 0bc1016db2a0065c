//go:build linux

package egress_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// left has another process of the same network namespace connect, and exit.
func left(path string) error {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env, cmd.Stdin = []string{childSocket + "=" + path}, strings.NewReader("connect\n")
	cmd.Stdout = os.Stdout // shows its errors
	return cmd.Run()
}

// E106: a process that has exited before the check cannot be identified any more, even if its pid
// has been reused: it is rejected. A running process is admitted.
func TestPeerThatIsGone(t *testing.T) {
	t.Parallel()
	b := newKernelSandbox(t)
	b.in.say("leave") // it is accepted after the registration
	if got := b.in.answer(t); got != "left" {
		t.Fatal(got)
	}
	if _, err := b.register(b.in.namespace); err != nil {
		t.Fatal(err)
	}
	b.in.ask()
	if got := b.in.answer(t); got != "HTTP/1.1 200 OK" {
		t.Errorf("a running process: %q", got)
	}
	kinds := b.kinds(t, b.TaskID)
	if len(kinds) != 3 || !strings.HasPrefix(kinds[2], "box.stranger ") {
		t.Errorf("in the audit log: %s", fmt.Sprint(kinds))
	}
}
