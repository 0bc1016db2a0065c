//go:build linux

package bwrap_test

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox"
)

// TestBomb: a sandbox cannot start more processes than its limit, and other
// users of the machine still can.
func TestBomb(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.Spec.Limits.Processes = 64
	how := b.Try("spawn")["spawn"]
	m := regexp.MustCompile(`^after (\d+): .*resource temporarily unavailable`).FindStringSubmatch(how)
	if m == nil {
		t.Fatalf("spawn: %s", how)
	}
	if n, _ := strconv.Atoi(m[1]); n < 10 || n >= 64 {
		t.Errorf("%d processes of 64", n)
	}
	if err := exec.Command("true").Run(); err != nil {
		t.Errorf("the machine: %v", err)
	}
}

// TestMemory: the sizes of home and temporary directories are limited.
func TestMemory(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.Spec.Limits.Temporary = 1 << 20
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm", sandbox.Home} {
		if out := b.Sh("head -c 4000000 /dev/zero >" + dir + "/x 2>/dev/null; stat -c %s " + dir + "/x"); strings.TrimSpace(out) != "1048576" {
			t.Errorf("%s holds %s", dir, out)
		}
	}
}
