package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
	"github.com/ebb-broker/ebb/cmd/ebb/internal/sandbox/cgroup"
)

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint64{"1": 1, "512M": 512 << 20, "4G": 4 << 30, "1T": 1 << 40, "7K": 7 << 10} {
		if got, err := parseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "0G", "G", "-1", "1.5G", "4g", "4GB", " 4G", "99999999T", "18446744073709551616", "0x10"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// TestRunLimits: a sandbox is in a cgroup of its own, which is removed. Limits
// that cannot be set are refused before the command runs, and the limit of
// processes always applies.
//
//ebb:invariant I6 A sandbox for which the user requested a memory or processor limit does not start if the limit cannot be applied
func TestRunLimits(t *testing.T) {
	t.Parallel()
	b := newOutBed(t)
	g, unbound, err := cgroup.Make(cgroup.Limits{Memory: 1 << 30, CPU: 1000})
	if err != nil {
		counterpart.Missing(t, "cgroups", err.Error())
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	b.serve()
	limited := func(script string, flags ...string) (int, string, string) {
		cmd := b.ebb(append(append([]string{"run", "--scope", "shop:**:*"}, flags...), "--", "sh", "-c", script)...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		_ = cmd.Run()
		return cmd.ProcessState.ExitCode(), out.String(), errs.String()
	}
	for _, flags := range [][]string{{"--memory", "lots"}, {"--memory", "0"}, {"--cpus", "-1"}, {"--cpus", "NaN"}, {"--pids", "0"}, {"--memory", "1G", "--sandbox", "none"}, {"--pids", "9", "--sandbox", "none"}} {
		if code, out, errs := limited("echo ran", flags...); code != int(exitUsage) || out != "" {
			t.Errorf("%q: exit code %d, %q\n%s", flags, code, out, errs)
		}
	}
	code, out, errs := limited("echo ran", "--memory", "1G", "--cpus", "0.5")
	if kept := len(unbound) == 0; kept != (code == 0 && out == "ran\n") || !kept && (out != "" || !strings.Contains(errs, "cgroup controller is missing for memory.max")) {
		t.Errorf("unbound here are %q: exit code %d, %q\n%s", unbound, code, out, errs)
	}
	if code, out, errs := limited(`for i in 1 2 3 4 5 6 7 8 9; do sleep 60 & done; echo all of them`, "--pids", "6"); code == 0 || strings.Contains(out, "all of them") {
		t.Errorf("more processes than may be: exit code %d, %q\n%s", code, out, errs)
	}
	word := fmt.Sprintf("600.%d", os.Getpid())
	cmd := b.ebb("run", "--scope", "shop:**:*", "--", "sleep", word)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var group string
	for end := time.Now().Add(patience); group == ""; time.Sleep(20 * time.Millisecond) {
		group = groupOfSleep(t, word)
		if time.Now().After(end) {
			t.Fatal("no process of a sandbox is in a cgroup of its own")
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(root + group); err == nil {
			t.Errorf("of the sandbox is left %s%s", root, group)
		}
	}
}

// TestRunLeavesNoGroup: the next run removes the cgroup of a killed run.
//
//ebb:invariant I6 The next run removes the cgroup of a run that was killed
func TestRunLeavesNoGroup(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	dead, held, err := makeRunDir(data)
	if err != nil {
		t.Fatal(err)
	}
	c := &cli{stderr: t.Output()}
	in := &sandboxed{dir: dead, limits: cgroup.Limits{Processes: 9}}
	if err := (runCommand{c}).confine(in); err != nil {
		t.Fatal(err)
	}
	if in.group == nil {
		counterpart.Missing(t, "cgroups", "no cgroup can be made")
	}
	for _, f := range []*os.File{held, in.group.Dir()} { // as the kernel does
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	remove, err := ownDir(&sandboxed{}, []string{data})
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	if _, err := os.Stat(in.group.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", in.group.Path(), err)
	}
}

// groupOfSleep is the cgroup of a process sleep with this argument, if ebb
// created it; "" = not yet.
func groupOfSleep(t *testing.T, word string) string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if line, err := os.ReadFile(path); err != nil || string(line) != "sleep\x00"+word+"\x00" {
			continue
		}
		in, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cgroup"))
		if m := regexp.MustCompile(`(?m)^0::(.*/ebb-[a-z0-9]+)$`).FindSubmatch(in); m != nil {
			return string(m[1])
		}
	}
	return ""
}
