//go:build linux

package unixpeer_test

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/unixpeer"
)

// procfs makes a directory like /proc with the given cgroup of each PID.
func procfs(t *testing.T, cgroups map[int]string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("sys/kernel/random/boot_id", "0b5c0d3e-0000-4000-8000-000000000001\n")
	write("self/mountinfo", "")
	for pid, text := range maps.All(cgroups) {
		at := strconv.Itoa(pid)
		write(at+"/stat", at+" (sh) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21\n")
		write(at+"/cgroup", text)
		if err := os.MkdirAll(filepath.Join(dir, at, "ns"), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []string{"net", "pid", "user"} {
			if err := os.Symlink(kind+":[402653"+at+"]", filepath.Join(dir, at, "ns", kind)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// daemon serves a fake container runtime and returns the path of its socket.
func daemon(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	path := filepath.Join(filepath.Dir(newListener(t).path), "docker.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}}
	srv.Start()
	t.Cleanup(srv.Close)
	return path
}

const (
	containerID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	imageID     = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
	// A shortened response of the Docker Engine API.
	inspection = `{"Id":"` + containerID + `","Created":"2026-11-21T20:00:00Z","Path":"sleep","Args":["1000"],` +
		`"State":{"Status":"running","Running":true,"Paused":false,"Pid":4242},"Image":"sha256:` + imageID + `","Name":"/box",` +
		`"HostConfig":{"NetworkMode":"none"},"Config":{"Hostname":"0123456789ab","Image":"registry.example/agent:1.2","Labels":{"team":"payments","task":"","other":"x"}}}`
)

func boxed(t *testing.T, socket string) (*unixpeer.Attestor, attest.Evidence) {
	t.Helper()
	e, c := newListener(t).evidence()
	proc := procfs(t, map[int]string{os.Getpid(): "0::/ebb\n", c.cmd.Process.Pid: "0::/system.slice/docker-" + containerID + ".scope\n"})
	return newAttestor(t, unixpeer.Config{Require: []string{"container_id"}, Proc: proc, Runtime: socket, Labels: []string{"team", "task", "absent"}}), e
}

func TestRuntime(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	a, e := boxed(t, daemon(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.URL.String()
		_, _ = w.Write([]byte(inspection))
	}))
	id, err := a.Attest(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if got := <-asked; got != "GET /containers/"+containerID+"/json" {
		t.Errorf("asked %s", got)
	}
	got := id.Selectors
	if got["image_id"] != "sha256:"+imageID || got["image"] != "registry.example/agent:1.2" || got["label/team"] != "payments" || got["container_id"] != containerID {
		t.Errorf("got %v", got)
	}
	for _, none := range []string{"label/task", "label/absent", "label/other"} {
		if _, there := got[none]; there {
			t.Errorf("%s is there: %v", none, got)
		}
	}
}

// A response about another container, or a stopped one, gives no identity.
func TestHostileRuntime(t *testing.T) {
	t.Parallel()
	say := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status); _, _ = w.Write([]byte(body)) }
	}
	with := func(old, new string) http.HandlerFunc { return say(200, strings.Replace(inspection, old, new, 1)) }
	for name, tc := range map[string]struct {
		h    http.HandlerFunc
		want attest.Reason // "" for an error that is not a rejection
	}{
		"no such container":  {say(404, `{"message":"No such container"}`), attest.ReasonMeasurement},
		"stopped":            {with(`"Running":true`, `"Running":false`), attest.ReasonExited},
		"no state":           {with(`"Running":true`, `"Ran":true`), attest.ReasonExited},
		"500":                {say(500, inspection), ""},
		"201":                {say(201, inspection), ""},
		"another container":  {with(containerID, imageID), ""},
		"a prefix of it":     {with(containerID, containerID[:12]), ""},
		"upper case":         {with(containerID, strings.ToUpper(containerID)), ""},
		"no image":           {with(`"Image":"sha256:`+imageID, `"Image":"latest`), ""},
		"running is a text":  {with(`"Running":true`, `"Running":"true"`), ""},
		"id twice":           {with(`{"Id":"`, `{"Id":"`+imageID+`","Id":"`), ""},
		"label twice":        {with(`"team":"payments"`, `"team":"payments","team":"admin"`), ""},
		"label is an object": {with(`"payments"`, `{}`), ""},
		"a list":             {say(200, "["+inspection+"]"), ""},
		"twice":              {say(200, inspection+inspection), ""},
		"cut":                {say(200, inspection[:200]), ""},
		"empty":              {say(200, ""), ""},
		"a page":             {say(200, "<html>sign in</html>"), ""},
		"not UTF-8":          {with("payments", "pay\xffments"), ""},
		"huge":               {say(200, strings.Replace(inspection, "sleep", strings.Repeat("x", 2<<20), 1)), ""},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, ""},
		"hangs up":      {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, ""},
		"never answers": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, ""},
		"breaks off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(inspection)+1))
			_, _ = w.Write([]byte(inspection))
		}, ""},
		"endless header": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, e := boxed(t, daemon(t, tc.h))
			id, err := a.Attest(t.Context(), e)
			if err == nil || attesttest.Reason(err) != tc.want || errors.Is(err, attest.ErrRejected) != (tc.want != "") {
				t.Errorf("got %v, %v", id.Selectors, err)
			}
		})
	}
	t.Run("not there", func(t *testing.T) {
		t.Parallel()
		a, e := boxed(t, "/nonexistent/docker.sock")
		if _, err := a.Attest(t.Context(), e); err == nil || errors.Is(err, attest.ErrRejected) {
			t.Errorf("got %v", err)
		}
	})
	// A label whose value is too long to be registered is left out; the rest is kept.
	t.Run("a control character", func(t *testing.T) {
		t.Parallel()
		a, e := boxed(t, daemon(t, with("payments", `pay\nments`)))
		if id, err := a.Attest(t.Context(), e); err != nil || id.Selectors["label/team"] != "" {
			t.Errorf("got %v, %v", id.Selectors, err)
		}
	})
}

// The hierarchies of cgroup v1 are separate. When they disagree, there is no cgroup.
func TestCgroupsOfProc(t *testing.T) {
	t.Parallel()
	e, c := newListener(t).evidence()
	for text, want := range map[string]string{
		"0::/system.slice/docker-" + containerID + ".scope\n1:name=systemd:/docker/" + imageID + "\n": containerID,
		"0::/\n2:pids:/docker/" + containerID + "\n1:name=systemd:/docker/" + containerID + "\n":      containerID,
		"0::/\n2:pids:/docker/" + containerID + "\n1:name=systemd:/docker/" + imageID + "\n":          "",
		"0::/ebb/docker-" + containerID + ".scope/docker-" + imageID + ".scope\n":                     "",
	} {
		a := newAttestor(t, unixpeer.Config{Proc: procfs(t, map[int]string{os.Getpid(): "0::/ebb\n", c.cmd.Process.Pid: text})})
		if id, err := a.Attest(t.Context(), e); err != nil || id.Selectors["container_id"] != want {
			t.Errorf("%q: got %v, %v", text, id.Selectors, err)
		}
	}
	// A process in ebb's own container or cgroup has no selector for it.
	own := "0::/system.slice/docker-" + containerID + ".scope\n"
	a := newAttestor(t, unixpeer.Config{Proc: procfs(t, map[int]string{os.Getpid(): own, c.cmd.Process.Pid: own})})
	if id, err := a.Attest(t.Context(), e); err != nil || id.Selectors["container_id"] != "" || id.Selectors["cgroup"] != "" {
		t.Errorf("ebb's own: got %v, %v", id.Selectors, err)
	}
	for _, bad := range []string{"0::relative\n", strings.Repeat("0::/a\n", 2), "0::/a", "\x00"} {
		a := newAttestor(t, unixpeer.Config{Proc: procfs(t, map[int]string{os.Getpid(): "0::/ebb\n", c.cmd.Process.Pid: bad})})
		if _, err := a.Attest(t.Context(), e); err == nil || errors.Is(err, attest.ErrRejected) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Asking the container runtime and reading the program need the permission of
// attest.Costly. Facts from the kernel do not.
func TestAsksForLeave(t *testing.T) {
	t.Parallel()
	a, e := boxed(t, daemon(t, func(http.ResponseWriter, *http.Request) { t.Error("the runtime was asked") }))
	ctx, asked := attesttest.Bounded(t.Context())
	if _, err := a.Attest(ctx, e); !errors.Is(err, attesttest.ErrBound) || errors.Is(err, attest.ErrRejected) || *asked != 1 {
		t.Errorf("inspection: %v, asked %d times", err, *asked)
	}
	e, _ = newListener(t).evidence()
	if _, err := newAttestor(t, unixpeer.Config{ExeDigest: true}).Attest(ctx, e); !errors.Is(err, attesttest.ErrBound) || *asked != 2 {
		t.Errorf("the program: %v, asked %d times", err, *asked)
	}
	if _, err := newAttestor(t, unixpeer.Config{}).Attest(ctx, e); err != nil || *asked != 2 {
		t.Errorf("the kernel: %v, asked %d times", err, *asked)
	}
}
