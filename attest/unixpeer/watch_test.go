//go:build linux

package unixpeer_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/unixpeer"
	"github.com/ebb-broker/ebb/broker/brokertest/counterpart"
)

// stored returns the members of an identity that the database keeps.
func stored(id attest.Identity) attest.Identity {
	return attest.Identity{Attestor: id.Attestor, Subject: id.Subject, Class: id.Class, Selectors: id.Selectors}
}

// ended is the result of Watch.
type ended struct {
	exit attest.Exit
	err  error
}

func watch(ctx context.Context, a *unixpeer.Attestor, id attest.Identity) <-chan ended {
	out := make(chan ended, 1)
	go func() {
		d, err := a.Watch(ctx, id)
		out <- ended{d, err}
	}()
	return out
}

func (e ended) is(t *testing.T, how string) {
	t.Helper()
	if e.err != nil || e.exit.How != how {
		t.Errorf("got %+v, %v; want %s", e.exit, e.err, how)
	}
}

// waitFor waits for the result of a watch, for at most two minutes. The kernel needs far
// less; the limit only keeps a failing test from hanging.
func waitFor(t *testing.T, from time.Time, out <-chan ended) ended {
	t.Helper()
	select {
	case e := <-out:
		t.Logf("seen after %v", time.Since(from))
		return e
	case <-time.After(2 * time.Minute):
		t.Fatal("the end is not seen")
		return ended{}
	}
}

func TestWatchProcess(t *testing.T) {
	t.Parallel()
	d, a := newListener(t), newAttestor(t, unixpeer.Config{})
	e, c := d.evidence()
	id, err := a.Attest(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	id = stored(id)
	ctx, cancel := context.WithCancel(t.Context())
	tired := watch(ctx, a, id)
	out := watch(t.Context(), a, id)
	restarted := watch(t.Context(), newAttestor(t, unixpeer.Config{}), id)
	cancel()
	if e := waitFor(t, time.Now(), tired); !errors.Is(e.err, context.Canceled) || e.exit != (attest.Exit{}) {
		t.Errorf("cancelled: %+v", e)
	}
	select {
	case e := <-out:
		t.Fatalf("it is dead already: %+v", e)
	case e := <-restarted:
		t.Fatalf("it is dead already: %+v", e)
	default:
	}
	from := time.Now()
	c.kill()
	for _, w := range []<-chan ended{out, restarted} {
		end := waitFor(t, from, w)
		end.is(t, "process_exited")
	}
	found := waitFor(t, time.Now(), watch(t.Context(), a, id))
	found.is(t, "process_exited")
	if !found.exit.At.IsZero() {
		t.Errorf("found exited, and exited at %v", found.exit.At)
	}
}

// A process with the registered pid but another start time is another process.
func TestWatchElsewhere(t *testing.T) {
	t.Parallel()
	d, a := newListener(t), newAttestor(t, unixpeer.Config{})
	e, _ := d.evidence()
	id, err := a.Attest(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	with := func(name, value string) attest.Identity {
		other := stored(id)
		other.Selectors = maps.Clone(id.Selectors)
		other.Selectors[name] = value
		return other
	}
	before, _ := strconv.Atoi(id.Selectors["start_time"])
	waitFor(t, time.Now(), watch(t.Context(), a, with("start_time", strconv.Itoa(before-1)))).is(t, "process_exited")
	boot, pidns, _ := strings.Cut(id.Selectors["host"], "/")
	for name, other := range map[string]attest.Identity{
		"another boot":   with("host", "00000000-0000-0000-0000-000000000000/"+pidns),
		"another pid ns": with("host", boot+"/1"),
		"no host":        with("host", ""),
		"no pid":         with("pid", ""),
		"all processes":  with("pid", "-1"),
		"no start":       with("start_time", ""),
		"nothing":        {},
	} {
		if _, err := a.Watch(t.Context(), other); !errors.Is(err, attest.ErrElsewhere) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, l := range []unixpeer.Liveness{unixpeer.LivenessNone, unixpeer.LivenessContainer} {
		if _, err := newAttestor(t, unixpeer.Config{Liveness: l}).Watch(t.Context(), id); !errors.Is(err, attest.ErrElsewhere) {
			t.Errorf("%s: %v", l, err)
		}
	}
}

// cgroup2 makes a cgroup for the test.
func cgroup2(t *testing.T) (dir, path string) {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
			continue
		}
		if text, err := os.ReadFile(filepath.Join(root, "cgroup.controllers")); err != nil {
			t.Logf("%s, %v", text, err)
			continue
		}
		dir, err := os.MkdirTemp(root, "ebb-test-")
		if err != nil {
			counterpart.Missing(t, "cgroups", "none can be made here: "+err.Error())
		}
		t.Cleanup(func() { removeCgroups(dir) })
		return dir, "/" + filepath.Base(dir)
	}
	counterpart.Missing(t, "cgroups", "there is no cgroup v2 here")
	return "", ""
}

// removeCgroups removes cgroups. It retries while the kernel still counts processes that
// have exited.
func removeCgroups(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			removeCgroups(filepath.Join(dir, e.Name()))
		}
	}
	for end := time.Now().Add(10 * time.Second); os.Remove(dir) != nil && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

func join(t *testing.T, dir string, pid int) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o600); err != nil {
		counterpart.Missing(t, "cgroups", "processes cannot be moved here: "+err.Error())
	}
}

// A container ends with its last process, not with the process that enrolled. A later
// container with the same name is another one.
func TestWatchContainer(t *testing.T) {
	t.Parallel()
	dir, path := cgroup2(t)
	id64 := hex.EncodeToString(bytes.Repeat([]byte{0xab}, 32))
	scope := "docker-" + id64 + ".scope"
	d := newListener(t)
	a := newAttestor(t, unixpeer.Config{Require: []string{"container_id", "cgroup_id"}})
	first, second := start(t, "connect", d.path), start(t, "connect", d.path)
	join(t, filepath.Join(dir, scope), first.cmd.Process.Pid)
	join(t, filepath.Join(dir, scope), second.cmd.Process.Pid)
	_, p := d.accept()
	d.accept()
	id, err := a.Attest(t.Context(), of(p))
	if err != nil {
		t.Fatal(err)
	}
	if id.Selectors["container_id"] != id64 || id.Selectors["cgroup"] != path+"/"+scope || id.Selectors["cgroup_id"] == "" ||
		!strings.HasSuffix(id.Subject, "/container/"+id64) {
		t.Errorf("got %q %v", id.Subject, id.Selectors)
	}
	id = stored(id)
	out := watch(t.Context(), a, id)
	ctx, cancel := context.WithCancel(t.Context())
	tired := watch(ctx, a, id)
	first.kill()
	cancel()
	if e := waitFor(t, time.Now(), tired); !errors.Is(e.err, context.Canceled) {
		t.Errorf("cancelled: %+v", e)
	}
	select {
	case e := <-out:
		t.Fatalf("one of two processes is left, and the container dead: %+v", e)
	default:
	}
	from := time.Now()
	second.kill()
	waitFor(t, from, out).is(t, "container_ended")
	waitFor(t, time.Now(), watch(t.Context(), a, id)).is(t, "container_ended")
	removeCgroups(filepath.Join(dir, scope))
	waitFor(t, time.Now(), watch(t.Context(), a, id)).is(t, "container_ended")

	// Another cgroup has the same name.
	third := start(t, "connect", d.path)
	join(t, filepath.Join(dir, scope), third.cmd.Process.Pid)
	_, p = d.accept()
	waitFor(t, time.Now(), watch(t.Context(), a, id)).is(t, "container_ended")
	again, err := a.Attest(t.Context(), of(p))
	if err != nil || again.Selectors["cgroup_id"] == id.Selectors["cgroup_id"] {
		t.Errorf("got %v, %v", again.Selectors, err)
	}
}

// A container that can write to its cgroups cannot take the identity of another one.
func TestForgedCgroup(t *testing.T) {
	t.Parallel()
	dir, _ := cgroup2(t)
	own, victim := strings.Repeat("a", 64), strings.Repeat("b", 64)
	d := newListener(t)
	c := start(t, "connect", d.path)
	_, p := d.accept()
	join(t, filepath.Join(dir, "docker-"+own+".scope", "docker-"+victim+".scope"), c.cmd.Process.Pid)
	if _, err := newAttestor(t, unixpeer.Config{Require: []string{"container_id"}}).Attest(t.Context(), of(p)); attesttest.Reason(err) != attest.ReasonMeasurement {
		t.Errorf("a container in a container: %v", err)
	}
	id, err := newAttestor(t, unixpeer.Config{Require: []string{"container_id"}, Nested: true}).Attest(t.Context(), of(p))
	if err != nil || id.Selectors["container_id"] != own {
		t.Errorf("nested: got %v, %v", id.Selectors, err)
	}
}
