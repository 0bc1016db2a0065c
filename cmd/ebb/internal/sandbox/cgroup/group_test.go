//go:build linux

package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// TestPlaces: the path of groups comes from the kernel, and only a clean path
// is accepted.
func TestPlaces(t *testing.T) {
	t.Parallel()
	const v1 = "30 23 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
	for _, tt := range []struct{ text, want string }{
		{v1 + "31 23 0:27 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup/unified"},
		{"31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n", "/sys/fs/cgroup"},
		{v1, ""}, {"", ""}, {"- cgroup2", ""}, {"a - cgroup2 x y\n", ""},
		{"31 23 0:27 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", ""}, // not mounted from its root
		{"31 23 0:27 / /a\\040b rw - cgroup2 cgroup2 rw\n", ""},
	} {
		if got := mountOf(tt.text); got != tt.want {
			t.Errorf("mountOf(%q) = %q, want %q", tt.text, got, tt.want)
		}
	}
	for text, want := range map[string]string{
		"12:pids:/x\n0::/user.slice/a b\n": "/user.slice/a b", "0::/\n": "/", "0::/../up\n": "", "0::x\n": "", "1:name=systemd:/\n": "", "": "",
	} {
		if got := groupOf(text); got != want {
			t.Errorf("groupOf(%q) = %q, want %q", text, got, want)
		}
	}
}

// TestBound: each limit is written if the group has a file for it, and returned
// if it has none. A limit that the kernel refuses is an error.
//
//ebb:invariant I6 A sandbox with a memory limit cannot use swap in addition to that memory
func TestBound(t *testing.T) {
	t.Parallel()
	g := &Group{path: t.TempDir()}
	for _, name := range []string{"memory.max", "pids.max"} {
		if err := os.WriteFile(filepath.Join(g.path, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A kernel without swap accounting has no file for the limit, which does not
	// matter without swap. With accounting, the swap limit is 0.
	for swap, want := range map[bool][]string{false: {"cpu.max"}, true: {"memory.swap.max", "cpu.max"}} {
		unbound, err := g.bound(Limits{Memory: 1 << 30, CPU: 1500, Processes: 64}, swap)
		if err != nil || !slices.Equal(unbound, want) {
			t.Errorf("swap %v, unbound: %q, %v", swap, unbound, err)
		}
	}
	swap := filepath.Join(g.path, "memory.swap.max")
	if err := os.WriteFile(swap, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if unbound, err := g.bound(Limits{Memory: 1 << 30, Processes: 64}, true); err != nil || len(unbound) != 0 {
		t.Errorf("with swap unbound: %q, %v", unbound, err)
	}
	for name, want := range map[string]string{"memory.max": "1073741824", "memory.swap.max": "0", "pids.max": "64"} {
		if text, err := os.ReadFile(filepath.Join(g.path, name)); err != nil || string(text) != want {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
	if got := (Limits{CPU: 1500}).files(); !slices.Equal(got, []limit{{"cpu.max", "150000 100000"}}) {
		t.Errorf("%v", got)
	}
	if err := os.Mkdir(filepath.Join(g.path, "cpu.max"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := g.bound(Limits{CPU: 1000}, true); err == nil {
		t.Error("what cannot be written is taken for bound")
	}
}

// TestHasSwap: unexpected content counts as a machine with swap.
func TestHasSwap(t *testing.T) {
	t.Parallel()
	const heading = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
	for text, want := range map[string]bool{heading: false, heading + "/swap\tfile\t1\t0\t-2\n": true, "": true} {
		if hasSwap([]byte(text)) != want {
			t.Errorf("%q", text)
		}
	}
}

// TestEnd: a process that starts in a group stays in it with its children, and
// ends with it.
//
//ebb:invariant I6 Closing the cgroup of a sandbox kills every process that started in it
func TestEnd(t *testing.T) {
	t.Parallel()
	g, _, err := Make(Limits{})
	if err != nil {
		counterpart.Missing(t, "cgroups", err.Error())
	}
	cmd := exec.Command("sh", "-c", "setsid sleep 600 & setsid setsid sleep 600 & echo up; wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(g.Dir().Fd())}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	in, err := os.ReadFile(filepath.Join(g.path, "cgroup.procs"))
	if err != nil || len(strings.Fields(string(in))) < 2 {
		t.Errorf("in the group are %q, %v", in, err)
	}
	if err := g.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it was not killed")
	}
	if _, err := os.Stat(g.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the group is still there: %v", err)
	}
}
