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

	"ebb/attest"
	"ebb/attest/attesttest"
	"ebb/attest/unixpeer"
	"ebb/broker/brokertest/counterpart"
)

// onRecord is what the record has of an identity.
func onRecord(id attest.Identity) attest.Identity {
	return attest.Identity{Attestor: id.Attestor, Subject: id.Subject, Class: id.Class, Selectors: id.Selectors}
}

// watching starts Watch and says how it ended.
type ended struct {
	death attest.Death
	err   error
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
	if e.err != nil || e.death.How != how {
		t.Errorf("got %+v, %v; want %s", e.death, e.err, how)
	}
}

// soon waits for the end of a watch and fails when it comes late. The limit is far
// above what the kernel needs: it is a deadline, no measurement.
func soon(t *testing.T, from time.Time, out <-chan ended) ended {
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
	d, a := newDoor(t), newAttestor(t, unixpeer.Config{})
	e, c := d.evidence()
	id, err := a.Attest(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	id = onRecord(id)
	ctx, cancel := context.WithCancel(t.Context())
	tired := watch(ctx, a, id)
	out := watch(t.Context(), a, id)
	restarted := watch(t.Context(), newAttestor(t, unixpeer.Config{}), id)
	cancel()
	if e := soon(t, time.Now(), tired); !errors.Is(e.err, context.Canceled) || e.death != (attest.Death{}) {
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
		end := soon(t, from, w)
		end.is(t, "process_exited")
	}
	found := soon(t, time.Now(), watch(t.Context(), a, id))
	found.is(t, "process_exited")
	if !found.death.At.IsZero() {
		t.Errorf("found dead, and died at %v", found.death.At)
	}
}

// A pid is somebody else's when its process started at another time.
func TestWatchElsewhere(t *testing.T) {
	t.Parallel()
	d, a := newDoor(t), newAttestor(t, unixpeer.Config{})
	e, _ := d.evidence()
	id, err := a.Attest(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	with := func(name, value string) attest.Identity {
		other := onRecord(id)
		other.Selectors = maps.Clone(id.Selectors)
		other.Selectors[name] = value
		return other
	}
	before, _ := strconv.Atoi(id.Selectors["start_time"])
	soon(t, time.Now(), watch(t.Context(), a, with("start_time", strconv.Itoa(before-1)))).is(t, "process_exited")
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

// cgroup2 makes a cgroup of the test's own.
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

// removeCgroups waits for the kernel to let go of processes that are dead already.
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

// A container ends when the last of its processes does, not when the one that
// enrolled does; and one of the same name that comes later is another.
func TestWatchContainer(t *testing.T) {
	t.Parallel()
	dir, path := cgroup2(t)
	id64 := hex.EncodeToString(bytes.Repeat([]byte{0xab}, 32))
	scope := "docker-" + id64 + ".scope"
	d := newDoor(t)
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
	id = onRecord(id)
	out := watch(t.Context(), a, id)
	ctx, cancel := context.WithCancel(t.Context())
	tired := watch(ctx, a, id)
	first.kill()
	cancel()
	if e := soon(t, time.Now(), tired); !errors.Is(e.err, context.Canceled) {
		t.Errorf("cancelled: %+v", e)
	}
	select {
	case e := <-out:
		t.Fatalf("one of two processes is left, and the container dead: %+v", e)
	default:
	}
	from := time.Now()
	second.kill()
	soon(t, from, out).is(t, "container_ended")
	soon(t, time.Now(), watch(t.Context(), a, id)).is(t, "container_ended")
	removeCgroups(filepath.Join(dir, scope))
	soon(t, time.Now(), watch(t.Context(), a, id)).is(t, "container_ended")

	// The name is taken again.
	third := start(t, "connect", d.path)
	join(t, filepath.Join(dir, scope), third.cmd.Process.Pid)
	_, p = d.accept()
	soon(t, time.Now(), watch(t.Context(), a, id)).is(t, "container_ended")
	again, err := a.Attest(t.Context(), of(p))
	if err != nil || again.Selectors["cgroup_id"] == id.Selectors["cgroup_id"] {
		t.Errorf("got %v, %v", again.Selectors, err)
	}
}

// A container that can write to its cgroups cannot become another one.
func TestForgedCgroup(t *testing.T) {
	t.Parallel()
	dir, _ := cgroup2(t)
	own, victim := strings.Repeat("a", 64), strings.Repeat("b", 64)
	d := newDoor(t)
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
