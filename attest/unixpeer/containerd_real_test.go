//go:build linux

package unixpeer_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/unixpeer"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// realContainerd is a namespace of its own on a real containerd.
type realContainerd struct {
	t               testing.TB
	ctr, socket, ns string
}

func newRealContainerd(t testing.TB, suffix string) *realContainerd {
	t.Helper()
	r := &realContainerd{t: t, socket: counterpart.Need(t, "EBB_TEST_CONTAINERD"), ns: fmt.Sprintf("ebb-test-%d-%s", os.Getpid(), suffix)}
	r.ctr = counterpart.Program(t, "ctr")
	t.Cleanup(func() {
		for _, kind := range []string{"containers", "images", "snapshots"} {
			out, _ := r.command(kind, "ls", "-q").Output()
			for name := range strings.FieldsSeq(string(out)) {
				_ = r.command(kind, "rm", name).Run()
			}
		}
		_ = r.command("namespaces", "rm", r.ns).Run()
		for _, pattern := range []string{"/sys/fs/cgroup/" + r.ns, "/sys/fs/cgroup/*/" + r.ns} {
			trees, _ := filepath.Glob(pattern)
			for _, tree := range trees {
				_ = os.Remove(tree)
			}
		}
	})
	return r
}

func (r *realContainerd) command(args ...string) *exec.Cmd {
	return exec.Command(r.ctr, append([]string{"--address", r.socket, "--namespace", r.ns}, args...)...)
}

func (r *realContainerd) do(args ...string) string {
	r.t.Helper()
	out, err := r.command(args...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("ctr %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// load imports an image of one layer, with one file, under a name, and returns the
// digest of its manifest.
func (r *realContainerd) load(name, text string) string {
	r.t.Helper()
	type object = map[string]any
	var layout bytes.Buffer
	w := tar.NewWriter(&layout)
	add := func(w *tar.Writer, name string, content []byte) {
		if err := errors.Join(w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Format: tar.FormatPAX})); err != nil {
			r.t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			r.t.Fatal(err)
		}
	}
	blob := func(kind string, content []byte) object {
		sum := sha256.Sum256(content)
		add(w, "blobs/sha256/"+hex.EncodeToString(sum[:]), content)
		return object{"mediaType": kind, "digest": "sha256:" + hex.EncodeToString(sum[:]), "size": len(content)}
	}
	marshal := func(v object) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			r.t.Fatal(err)
		}
		return b
	}
	var files bytes.Buffer
	inner := tar.NewWriter(&files)
	add(inner, "which", []byte(text))
	if err := inner.Close(); err != nil {
		r.t.Fatal(err)
	}
	layer := blob("application/vnd.oci.image.layer.v1.tar", files.Bytes())
	config := blob("application/vnd.oci.image.config.v1+json", marshal(object{"architecture": goruntime.GOARCH, "os": "linux", "config": object{},
		"rootfs": object{"type": "layers", "diff_ids": []any{layer["digest"]}}}))
	manifest := blob("application/vnd.oci.image.manifest.v1+json", marshal(object{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": config, "layers": []any{layer}}))
	digest := fmt.Sprint(manifest["digest"])
	manifest["annotations"] = object{"io.containerd.image.name": name}
	add(w, "index.json", marshal(object{"schemaVersion": 2, "manifests": []any{manifest}}))
	add(w, "oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	if err := w.Close(); err != nil {
		r.t.Fatal(err)
	}
	file := filepath.Join(r.t.TempDir(), "image.tar")
	if err := os.WriteFile(file, layout.Bytes(), 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.do("images", "import", "--snapshotter", "native", file)
	return digest
}

// box returns the arguments of ctr's run and create: the test's own program, and mounts
// of the machine's libraries that it is linked with.
func (r *realContainerd) box(d *listener, image, id string, more ...string) []string {
	r.t.Helper()
	self, err := os.Executable()
	if err != nil {
		r.t.Fatal(err)
	}
	args := append([]string{"--snapshotter", "native", "--env", modeVar + "=stay", "--env", socketVar + "=" + d.path}, more...)
	for _, dir := range []string{"/usr", "/lib", "/lib64", "/bin", filepath.Dir(self), filepath.Dir(d.path)} {
		if _, err := os.Stat(dir); err == nil {
			args = append(args, "--mount", "type=bind,src="+dir+",dst="+dir+",options=rbind:ro")
		}
	}
	return append(args, image, id, self)
}

// start runs a container whose process connects, and returns the peer.
func (r *realContainerd) start(d *listener, image, id string, more ...string) *attest.Peer {
	r.t.Helper()
	r.do(append([]string{"run", "--detach", "--null-io"}, r.box(d, image, id, more...)...)...)
	r.t.Cleanup(func() { r.kill(id) })
	_, p := d.accept()
	return p
}

// kill ends a container's task, and waits until containerd knows.
func (r *realContainerd) kill(id string) {
	r.t.Helper()
	_ = r.command("tasks", "kill", "--signal", "SIGKILL", id).Run()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		out, _ := r.command("tasks", "ls").Output()
		running := false
		for line := range strings.Lines(string(out)) {
			running = running || strings.HasPrefix(line, id+" ") && !strings.Contains(line, "STOPPED")
		}
		if !running {
			return
		}
	}
	r.t.Errorf("%s does not end", id)
}

func (r *realContainerd) attestor(c unixpeer.Config) *unixpeer.Attestor {
	r.t.Helper()
	if c.Namespaces == nil {
		c.Namespaces = []string{r.ns}
	}
	c.Require, c.CgroupParents, c.Containerd, c.Labels = []string{"container_id"}, []string{"/" + r.ns}, r.socket, []string{"team", "task"}
	return newAttestor(r.t, c)
}

func TestContainerd(t *testing.T) {
	t.Parallel()
	r, d := newRealContainerd(t, "a"), newListener(t)
	digest := r.load("ebb.test/agent:1", "one")
	p := r.start(d, "ebb.test/agent:1", "box-1", "--label", "team=payments", "--label", "other=x")
	a := r.attestor(unixpeer.Config{})
	id, err := a.Attest(t.Context(), of(p))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"container_id": "box-1", "image": "ebb.test/agent:1", "image_digest": digest, "label/team": "payments",
		"runtime": "io.containerd.runc.v2", "containerd_namespace": r.ns}
	if err := attest.SelectorMatch(want, id); err != nil {
		t.Errorf("%v: got %v, want %v", err, id.Selectors, want)
	}
	for _, none := range []string{"label/task", "label/other", "image_id"} {
		if _, there := id.Selectors[none]; there {
			t.Errorf("%s is there: %v", none, id.Selectors)
		}
	}
	for name, value := range map[string]string{"label/team": "admin", "label/task": "payments", "image_digest": "sha256:" + imageID, "containerd_namespace": "moby"} {
		if err := attest.SelectorMatch(map[string]string{"container_id": "box-1", name: value}, id); attesttest.Reason(err) != attest.ReasonSelectors {
			t.Errorf("registered with %s %s: %v", name, value, err)
		}
	}
	// Another container of the same image has another identity.
	other, err := a.Attest(t.Context(), of(r.start(d, "ebb.test/agent:1", "box-2", "--label", "team=admin")))
	if err != nil || other.Subject == id.Subject || attest.SelectorMatch(want, other) == nil || other.Selectors["image_digest"] != digest {
		t.Errorf("got %v, %v", other.Selectors, err)
	}
	// Only the configured namespace is searched, not the one that has the container.
	if _, err := r.attestor(unixpeer.Config{Namespaces: []string{"moby"}}).Attest(t.Context(), of(p)); attesttest.Reason(err) != attest.ReasonMeasurement {
		t.Errorf("of a namespace that is not configured: %v", err)
	}
	r.kill("box-1")
	if _, err := a.Attest(t.Context(), of(p)); attesttest.Reason(err) != attest.ReasonExited {
		t.Errorf("killed: %v", err)
	}
}

// After an image name was moved, its digest is not reported for older containers.
func TestContainerdMovedName(t *testing.T) {
	t.Parallel()
	r, d := newRealContainerd(t, "moved"), newListener(t)
	first := r.load("ebb.test/agent:1", "one")
	p := r.start(d, "ebb.test/agent:1", "box")
	second := r.load("ebb.test/agent:1", "two")
	a := r.attestor(unixpeer.Config{})
	id, err := a.Attest(t.Context(), of(p))
	if err != nil || first == second || id.Selectors["image_digest"] != "" || id.Selectors["image"] != "ebb.test/agent:1" {
		t.Errorf("got %v, %v", id.Selectors, err)
	}
	if id, err := a.Attest(t.Context(), of(r.start(d, "ebb.test/agent:1", "new"))); err != nil || id.Selectors["image_digest"] != second {
		t.Errorf("a new container: got %v, %v", id.Selectors, err)
	}
	r.load("ebb.test/agent:1", "one")
	if id, err := a.Attest(t.Context(), of(p)); err != nil || id.Selectors["image_digest"] != first {
		t.Errorf("moved back: got %v, %v", id.Selectors, err)
	}
	r.do("images", "rm", "ebb.test/agent:1")
	if id, err := a.Attest(t.Context(), of(p)); err != nil || id.Selectors["image_digest"] != "" {
		t.Errorf("removed: got %v, %v", id.Selectors, err)
	}
}

// A process in a cgroup that only has the name of a container is rejected, because
// containerd does not list it.
func TestContainerdElsewhere(t *testing.T) {
	t.Parallel()
	r, d := newRealContainerd(t, "else"), newListener(t)
	r.load("ebb.test/agent:1", "one")
	r.start(d, "ebb.test/agent:1", "runs")
	r.start(d, "ebb.test/agent:1", "ended")
	r.kill("ended")
	r.do(append([]string{"containers", "create"}, r.box(d, "ebb.test/agent:1", "made")...)...)
	e, c := d.evidence()
	for name, want := range map[string]attest.Reason{"runs": attest.ReasonMeasurement, "none": attest.ReasonMeasurement, "a__b": attest.ReasonMeasurement,
		"ended": attest.ReasonExited, "made": attest.ReasonExited} {
		proc := procfs(t, map[int]string{os.Getpid(): "0::/ebb\n", c.cmd.Process.Pid: "0::/" + r.ns + "/" + name + "\n"})
		if id, err := r.attestor(unixpeer.Config{Proc: proc}).Attest(t.Context(), e); attesttest.Reason(err) != want {
			t.Errorf("%s: got %v, %v, want %q", name, id.Selectors, err, want)
		}
	}
}
