//go:build linux

package docker_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/autorun"
)

// TestGuard: the mounts over the work directory are the same as with
// bubblewrap.
//
//ebb:invariant I6 No file that a sandbox leaves in its work directory makes git, a shell, an editor or CI run a program
func TestGuard(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	if err := os.Chmod(filepath.Dir(b.Spec.Work), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", "git init -q . && mkdir .github && echo 1 >.github/x")
	cmd.Dir = b.Spec.Work
	if u := b.Spec.User; u != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: u.UID, Gid: u.GID}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	g, err := autorun.Begin(b.Spec.Work, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	b.Spec.Fixed = g.Places()
	out := b.Sh(`try() { "$@" 2>/dev/null && echo "$@" worked; }
		try sh -c 'echo x >>.git/config'; try mv .git old; try mv .git/info i; try mv .git/hooks h; try sh -c 'echo x >.git/hooks/pre-commit'; try sh -c 'echo x >.git/info/attributes'
		try sh -c 'echo x >.vscode/tasks.json'; try rm -rf .github; try sh -c 'echo x >.github/x'; try ln .git/config c; try mv a .git/config
		echo x >.git/index && echo x >new && mkdir -p sub/.vscode && rm .git/index && echo fine`)
	if out != "fine\n" {
		t.Errorf("%s", out)
	}
	found, err := g.End()
	if err != nil || len(found) != 1 || !strings.HasPrefix(found[0].Aside, "sub/.vscode.") {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := os.Stat(filepath.Join(b.Spec.Work, ".vscode")); !os.IsNotExist(err) {
		t.Errorf("left behind is .vscode: %v", err)
	}
}
