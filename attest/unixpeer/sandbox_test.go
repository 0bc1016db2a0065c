//go:build linux

package unixpeer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/unixpeer"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// bwrapInfo is the output of bwrap --info-fd.
type bwrapInfo struct {
	Child uint64 `json:"child-pid"`
	Net   uint64 `json:"net-namespace"`
	PID   uint64 `json:"pid-namespace"`
}

// startInBubblewrap starts a process that connects in a sandbox of its own.
func startInBubblewrap(t *testing.T, d *listener, more ...string) (bwrapInfo, *child) {
	t.Helper()
	bwrap := counterpart.Need(t, "EBB_TEST_BWRAP")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	args := append([]string{"--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "--die-with-parent", "--info-fd", "3"}, more...)
	cmd := exec.Command(bwrap, append(args, "--", self)...)
	cmd.ExtraFiles = []*os.File{w}
	c := run(t, cmd, "connect", d.path)
	_ = w.Close()
	var info bwrapInfo
	if err := json.NewDecoder(r).Decode(&info); err != nil {
		t.Fatalf("bwrap --info-fd: %v", err)
	}
	return info, c
}

// TestBubblewrap checks that a runner learns the network namespace of its sandbox from
// --info-fd, before a process runs in it, and can register it.
func TestBubblewrap(t *testing.T) {
	t.Parallel()
	counterpart.Need(t, "EBB_TEST_BWRAP")
	d := newListener(t)
	a := newAttestor(t, unixpeer.Config{Require: []string{"netns"}})
	info, box := startInBubblewrap(t, d)
	_, p := d.accept()
	other, _ := startInBubblewrap(t, d, "--uid", "1000", "--gid", "1000")
	_, p2 := d.accept()
	outside, _ := d.evidence()

	id, err := a.Attest(t.Context(), of(p))
	if err != nil {
		t.Fatal(err)
	}
	registered := map[string]string{"netns": strconv.FormatUint(info.Net, 10)}
	if err := errors.Join(a.CheckRegistration(registered), attest.SelectorMatch(registered, id)); err != nil {
		t.Errorf("%v: got %v", err, id.Selectors)
	}
	if id.Selectors["pidns"] != strconv.FormatUint(info.PID, 10) {
		t.Errorf("got %v, want %+v", id.Selectors, info)
	}
	id2, err := a.Attest(t.Context(), of(p2))
	if err != nil || attest.SelectorMatch(registered, id2) == nil || id2.Subject == id.Subject ||
		attest.SelectorMatch(map[string]string{"netns": strconv.FormatUint(other.Net, 10)}, id2) != nil {
		t.Errorf("another sandbox: %v, %v", id2.Selectors, err)
	}
	// The process has another uid inside the sandbox. Outside it has the uid of the user
	// that started the sandbox.
	if id2.Selectors["uid"] != strconv.Itoa(os.Getuid()) {
		t.Errorf("user 1000 of a user namespace is %s", id2.Selectors["uid"])
	}
	if _, err := a.Attest(t.Context(), outside); attesttest.Reason(err) != attest.ReasonMeasurement {
		t.Errorf("a process in no sandbox: %v", err)
	}
	// The sandbox ends with its init process, which is bwrap itself.
	if id.Selectors["init_pid"] != strconv.FormatUint(info.Child, 10) || id.Selectors["init_pid"] == id.Selectors["pid"] {
		t.Errorf("got %v, want %+v", id.Selectors, info)
	}
	if e, err := a.Attest(t.Context(), of(p2)); err != nil || e.Selectors["init_pid"] == id.Selectors["init_pid"] {
		t.Errorf("another sandbox: %v, %v", e.Selectors, err)
	}
	out := watch(t.Context(), a, stored(id))
	from := time.Now()
	box.kill()
	waitFor(t, from, out).is(t, "namespace_ended")
	if _, err := a.Attest(t.Context(), of(p)); attesttest.Reason(err) != attest.ReasonExited {
		t.Errorf("after its end: %v", err)
	}
}

// runcParent is the cgroup below which the test's containers are.
const runcParent = "/ebb-test-runc"

// startInRunc starts a process that connects in a container of runc.
func startInRunc(t *testing.T, d *listener, name string, uid int) *child {
	t.Helper()
	runc := counterpart.Need(t, "EBB_TEST_RUNC")
	if os.Getuid() != 0 {
		counterpart.Missing(t, "runc", "run the tests as root")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bundle := t.TempDir()
	if err := os.Mkdir(filepath.Join(bundle, "rootfs"), 0o755); err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	mounts := []object{{"destination": "/proc", "type": "proc", "source": "proc"}}
	// The program is linked with libraries of the machine.
	for _, dir := range []string{"/usr", "/lib", "/lib64", "/bin", filepath.Dir(self), filepath.Dir(d.path)} {
		if _, err := os.Stat(dir); err == nil {
			mounts = append(mounts, object{"destination": dir, "type": "bind", "source": dir, "options": []string{"rbind", "ro"}})
		}
	}
	spec := object{
		"ociVersion": "1.0.2",
		"process": object{
			"terminal": false, "user": object{"uid": uid, "gid": uid}, "args": []string{self}, "cwd": "/", "noNewPrivileges": true,
			"env": []string{modeVar + "=connect", socketVar + "=" + d.path},
		},
		"root": object{"path": "rootfs"}, "mounts": mounts,
		"linux": object{
			"cgroupsPath": runcParent + "/" + name,
			"namespaces":  []object{{"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}},
		},
	}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	c := run(t, exec.Command(runc, "--root", state, "run", "--bundle", bundle, name), "", "")
	t.Cleanup(func() {
		c.kill()
		_ = exec.Command(runc, "--root", state, "delete", "--force", name).Run()
		trees, _ := filepath.Glob("/sys/fs/cgroup/*" + runcParent)
		for _, tree := range append(trees, "/sys/fs/cgroup"+runcParent) {
			_ = os.Remove(tree) // fails while another container is in it
		}
	})
	return c
}

func TestRunc(t *testing.T) {
	t.Parallel()
	counterpart.Need(t, "EBB_TEST_RUNC")
	d := newListener(t)
	a := newAttestor(t, unixpeer.Config{Require: []string{"container_id", "uid"}, CgroupParents: []string{runcParent}})
	name := fmt.Sprintf("task-%d", os.Getpid())
	box := startInRunc(t, d, name, 10001)
	_, p := d.accept()
	box.says("connected")
	id, err := a.Attest(t.Context(), of(p))
	if err != nil {
		t.Fatal(err)
	}
	if err := attest.SelectorMatch(map[string]string{"container_id": name, "cgroup": runcParent + "/" + name, "uid": "10001", "gid": "10001"}, id); err != nil {
		t.Errorf("%v: got %v", err, id.Selectors)
	}
	if id.Selectors["netns"] == "" || id.Selectors["pidns"] == "" {
		t.Errorf("got %v", id.Selectors)
	}
	startInRunc(t, d, name+"-b", 10001)
	_, p2 := d.accept()
	id2, err := a.Attest(t.Context(), of(p2))
	if err != nil || attest.SelectorMatch(map[string]string{"container_id": name}, id2) == nil || id2.Subject == id.Subject {
		t.Errorf("another container: %v, %v", id2.Selectors, err)
	}
	how, watcher := "container_ended", a
	if id.Selectors["cgroup_id"] == "" { // cgroup v1 does not report the end of a container
		how, watcher = "process_exited", newAttestor(t, unixpeer.Config{Require: []string{"container_id"}, CgroupParents: []string{runcParent}, Liveness: unixpeer.LivenessProcess})
	}
	out := watch(t.Context(), watcher, stored(id))
	from := time.Now()
	if err := box.in.Close(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, from, out).is(t, how)
	if _, err := a.Attest(t.Context(), of(p)); attesttest.Reason(err) != attest.ReasonExited {
		t.Errorf("after its end: %v", err)
	}
}
