//go:build linux

package egress_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// left has another process of the same network namespace connect, and end.
func left(path string) error {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env, cmd.Stdin = []string{childSocket + "=" + path}, strings.NewReader("connect\n")
	cmd.Stdout = os.Stdout // what has gone wrong
	return cmd.Run()
}

// E106: of a process that has gone before it is asked for, nobody says any more whose it was, also where its
// number is another's by then: it is not let in. Who is there still, is.
func TestPeerThatIsGone(t *testing.T) {
	t.Parallel()
	b := newKernelBox(t)
	b.in.say("leave") // it is accepted when the box is registered
	if got := b.in.answer(t); got != "left" {
		t.Fatal(got)
	}
	if _, err := b.register(b.in.namespace); err != nil {
		t.Fatal(err)
	}
	b.in.ask()
	if got := b.in.answer(t); got != "HTTP/1.1 200 OK" {
		t.Errorf("who is there: %q", got)
	}
	kinds := b.kinds(t, b.TaskID)
	if len(kinds) != 3 || !strings.HasPrefix(kinds[2], "box.stranger ") {
		t.Errorf("on the record: %s", fmt.Sprint(kinds))
	}
}
