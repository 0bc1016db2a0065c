//go:build linux

package unixpeer_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/containerd/api/services/containers/v1"
	"github.com/containerd/containerd/api/services/content/v1"
	"github.com/containerd/containerd/api/services/images/v1"
	"github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types"
	tasktypes "github.com/containerd/containerd/api/types/task"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/attesttest"
	"github.com/ebb-broker/ebb/attest/unixpeer"
)

const (
	manifest = "sha256:" + imageID
	chain    = "sha256:" + containerID
)

// script is a fake containerd with one namespace and an answer for each method.
type script struct {
	namespace string
	answers   map[string]any // a message, an error, or a function that returns one
}

// honest returns a script of one running container with these processes.
func honest(pids ...int) *script {
	list := &tasks.ListPidsResponse{}
	for _, pid := range pids {
		list.Processes = append(list.Processes, &tasktypes.ProcessInfo{Pid: uint32(pid)}) //nolint:gosec // a pid
	}
	return &script{"k8s.io", map[string]any{
		"Containers/Get": &containers.GetContainerResponse{Container: &containers.Container{ID: containerID, Image: "registry.example/agent:1.2",
			Labels: map[string]string{"team": "payments", "task": "", "other": "x"}, Runtime: &containers.Container_Runtime{Name: "io.containerd.runc.v2"},
			Snapshotter: "overlayfs", SnapshotKey: containerID}},
		"Tasks/Get":      &tasks.GetResponse{Process: &tasktypes.Process{ID: containerID, Pid: 4242, Status: tasktypes.Status_RUNNING}},
		"Tasks/ListPids": list,
		"Images/Get":     &images.GetImageResponse{Image: &images.Image{Name: "registry.example/agent:1.2", Target: &types.Descriptor{Digest: manifest}}},
		"Snapshots/Stat": &snapshots.StatSnapshotResponse{Info: &snapshots.Info{Name: containerID, Parent: chain}},
		"Content/Info":   &content.InfoResponse{Info: &content.Info{Digest: manifest, Labels: map[string]string{"containerd.io/gc.ref.snapshot.overlayfs": chain}}},
	}}
}

func (s *script) with(method string, answer any) *script {
	return &script{s.namespace, maps.Collect(func(yield func(string, any) bool) {
		for k, v := range s.answers {
			if k == method {
				v = answer
			}
			if !yield(k, v) {
				return
			}
		}
	})}
}

// serve starts the script and returns the path of its socket.
func (s *script) serve(t *testing.T) string {
	t.Helper()
	srv := grpc.NewServer(grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
		if md, _ := metadata.FromIncomingContext(ctx); strings.Join(md["containerd-namespace"], ",") != s.namespace {
			return nil, status.Error(codes.NotFound, "not found")
		}
		path := strings.Split(info.FullMethod, ".")
		switch answer := s.answers[path[len(path)-1]].(type) {
		case error:
			return nil, answer
		case func(context.Context) error:
			return nil, answer(ctx)
		case func(string) (any, error):
			return answer(req.(*content.InfoRequest).Digest) //nolint:forcetypeassert // scripts use it for that alone
		default:
			return answer, nil
		}
	}))
	containers.RegisterContainersServer(srv, containers.UnimplementedContainersServer{})
	tasks.RegisterTasksServer(srv, tasks.UnimplementedTasksServer{})
	images.RegisterImagesServer(srv, images.UnimplementedImagesServer{})
	snapshots.RegisterSnapshotsServer(srv, snapshots.UnimplementedSnapshotsServer{})
	content.RegisterContentServer(srv, content.UnimplementedContentServer{})
	path, l := listen(t)
	go srv.Serve(l) //nolint:errcheck // it ends with the test
	t.Cleanup(srv.Stop)
	return path
}

// listen returns the path and the listener of a socket in the place of containerd.
func listen(t *testing.T) (string, net.Listener) {
	t.Helper()
	path := filepath.Join(filepath.Dir(newListener(t).path), "containerd.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return path, l
}

// containerProcess starts a process in the container of the scripts. It returns the
// evidence, the PID, and a function that makes an attestor for the socket of a script.
func containerProcess(t *testing.T) (attest.Evidence, int, func(socket string) *unixpeer.Attestor) {
	t.Helper()
	e, c := newListener(t).evidence()
	pid := c.cmd.Process.Pid
	proc := procfs(t, map[int]string{os.Getpid(): "0::/ebb\n", pid: "0::/kubepods.slice/cri-containerd-" + containerID + ".scope\n"})
	return e, pid, func(socket string) *unixpeer.Attestor {
		return newAttestor(t, unixpeer.Config{Require: []string{"container_id"}, Proc: proc, Containerd: socket, Namespaces: []string{"moby", "k8s.io"},
			Labels: []string{"team", "task", "absent"}})
	}
}

func TestContainerdAnswers(t *testing.T) {
	t.Parallel()
	e, pid, by := containerProcess(t)
	id, err := by(honest(1, pid).serve(t)).Attest(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"container_id": containerID, "image": "registry.example/agent:1.2", "image_digest": manifest, "label/team": "payments",
		"runtime": "io.containerd.runc.v2", "containerd_namespace": "k8s.io"}
	if err := attest.SelectorMatch(want, id); err != nil {
		t.Errorf("%v: got %v", err, id.Selectors)
	}
	for _, none := range []string{"label/task", "label/absent", "label/other", "image_id"} {
		if _, there := id.Selectors[none]; there {
			t.Errorf("%s is there: %v", none, id.Selectors)
		}
	}
	// An index also refers to images of other platforms, which were not downloaded.
	index := honest(pid)
	arm, config := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("c", 64)
	infos := map[string]map[string]string{
		manifest:                            {"containerd.io/gc.ref.content.m.0": arm, "containerd.io/gc.ref.content.m.1": "sha256:" + strings.Repeat("b", 64)},
		"sha256:" + strings.Repeat("b", 64): {"containerd.io/gc.ref.content.config": config, "containerd.io/gc.ref.content.l.0": "sha256:" + strings.Repeat("d", 64)},
		config:                              {"containerd.io/gc.ref.snapshot.overlayfs": chain},
	}
	index.answers["Content/Info"] = func(digest string) (any, error) {
		if infos[digest] == nil {
			return nil, status.Error(codes.NotFound, "not found")
		}
		return &content.InfoResponse{Info: &content.Info{Digest: digest, Labels: infos[digest]}}, nil
	}
	if id, err := by(index.serve(t)).Attest(t.Context(), e); err != nil || id.Selectors["image_digest"] != manifest {
		t.Errorf("an index: got %v, %v", id.Selectors, err)
	}
}

// An answer about another container, a stopped one, or one without the process gives no
// identity.
func TestHostileContainerd(t *testing.T) {
	t.Parallel()
	e, pid, by := containerProcess(t)
	good := honest(pid)
	box := func(change func(*containers.Container)) *script {
		c := honest(pid).answers["Containers/Get"].(*containers.GetContainerResponse) //nolint:forcetypeassert // ours
		change(c.Container)
		return good.with("Containers/Get", c)
	}
	task := func(id string, s tasktypes.Status) *script {
		return good.with("Tasks/Get", &tasks.GetResponse{Process: &tasktypes.Process{ID: id, Status: s}})
	}
	gone, broken := status.Error(codes.NotFound, "not found"), status.Error(codes.Internal, "broken")
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	type cases map[string]struct {
		s    *script
		want attest.Reason // "" for an error that is not a rejection
	}
	all := cases{
		"no such container":     {good.with("Containers/Get", gone), attest.ReasonMeasurement},
		"of another namespace":  {&script{"default", good.answers}, attest.ReasonMeasurement},
		"another container":     {box(func(c *containers.Container) { c.ID = imageID }), ""},
		"upper case":            {box(func(c *containers.Container) { c.ID = strings.ToUpper(containerID) }), ""},
		"an empty answer":       {good.with("Containers/Get", &containers.GetContainerResponse{}), ""},
		"an answer of no kind":  {good.with("Containers/Get", &tasks.ListPidsResponse{}), ""},
		"huge":                  {box(func(c *containers.Container) { c.Labels["x"] = strings.Repeat("x", 2<<20) }), ""},
		"no task":               {good.with("Tasks/Get", gone), attest.ReasonExited},
		"another's task":        {task(imageID, tasktypes.Status_RUNNING), ""},
		"a task of nobody":      {good.with("Tasks/Get", &tasks.GetResponse{}), ""},
		"stopped":               {task(containerID, tasktypes.Status_STOPPED), attest.ReasonExited},
		"created":               {task(containerID, tasktypes.Status_CREATED), ""},
		"paused":                {task(containerID, tasktypes.Status_PAUSED), ""},
		"in no state":           {task(containerID, tasktypes.Status_UNKNOWN), ""},
		"in a state of its own": {task(containerID, 99), ""},
		"another process":       {honest(pid + 1), attest.ReasonMeasurement},
		"no processes":          {honest(), attest.ReasonMeasurement},
		"ended meanwhile":       {good.with("Tasks/ListPids", gone), attest.ReasonExited},
		"image of another name": {good.with("Images/Get", &images.GetImageResponse{Image: &images.Image{Name: "x", Target: &types.Descriptor{Digest: manifest}}}), ""},
		"an image of nothing":   {good.with("Images/Get", &images.GetImageResponse{}), ""},
		"no digest": {good.with("Images/Get", &images.GetImageResponse{Image: &images.Image{Name: "registry.example/agent:1.2",
			Target: &types.Descriptor{Digest: "latest"}}}), ""},
		"another snapshot": {good.with("Snapshots/Stat", &snapshots.StatSnapshotResponse{Info: &snapshots.Info{Name: imageID, Parent: chain}}), ""},
		"hangs":            {good.with("Containers/Get", hang), ""},
		"hangs in the end": {good.with("Content/Info", hang), ""},
		"other content":    {good.with("Content/Info", &content.InfoResponse{Info: &content.Info{Digest: chain}}), ""},
	}
	for method := range good.answers {
		all["broken "+method] = struct {
			s    *script
			want attest.Reason
		}{good.with(method, broken), ""}
	}
	for name, tc := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id, err := by(tc.s.serve(t)).Attest(t.Context(), e)
			if err == nil || attesttest.Reason(err) != tc.want || errors.Is(err, attest.ErrRejected) != (tc.want != "") {
				t.Errorf("got %v, %v", id.Selectors, err)
			}
		})
	}
}

// When the image digest is uncertain, the identity has no image_digest but is otherwise
// complete.
func TestContainerdWithoutDigest(t *testing.T) {
	t.Parallel()
	e, pid, by := containerProcess(t)
	good, gone := honest(pid), status.Error(codes.NotFound, "not found")
	info := func(labels map[string]string) *script {
		return good.with("Content/Info", &content.InfoResponse{Info: &content.Info{Digest: manifest, Labels: labels}})
	}
	bare := honest(pid)
	bare.answers["Containers/Get"].(*containers.GetContainerResponse).Container.SnapshotKey = "" //nolint:forcetypeassert // ours
	for name, s := range map[string]*script{
		"the name is gone":           good.with("Images/Get", gone),
		"the snapshot is gone":       good.with("Snapshots/Stat", gone),
		"the content is gone":        good.with("Content/Info", gone),
		"on nothing":                 good.with("Snapshots/Stat", &snapshots.StatSnapshotResponse{Info: &snapshots.Info{Name: containerID}}),
		"on other layers":            info(map[string]string{"containerd.io/gc.ref.snapshot.overlayfs": manifest}),
		"of another snapshotter":     info(map[string]string{"containerd.io/gc.ref.snapshot.native": chain}),
		"leads to itself":            info(map[string]string{"containerd.io/gc.ref.content.m.0": manifest}),
		"leads nowhere":              info(map[string]string{"containerd.io/gc.ref.content.m.0": "../x", "containerd.io/gc.ref.content.config": ""}),
		"of a directory, not images": bare,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id, err := by(s.serve(t)).Attest(t.Context(), e)
			if err != nil || id.Selectors["image_digest"] != "" || id.Selectors["label/team"] != "payments" {
				t.Errorf("got %v, %v", id.Selectors, err)
			}
		})
	}
	// An endless chain of content labels is followed up to the limit.
	var asked atomic.Int32
	endless := honest(pid)
	endless.answers["Content/Info"] = func(digest string) (any, error) {
		asked.Add(1)
		next := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(digest)))
		return &content.InfoResponse{Info: &content.Info{Digest: digest, Labels: map[string]string{"containerd.io/gc.ref.content.m.0": next}}}, nil
	}
	if id, err := by(endless.serve(t)).Attest(t.Context(), e); err != nil || id.Selectors["image_digest"] != "" || asked.Load() != 64 {
		t.Errorf("got %v, %v after %d questions", id.Selectors, err, asked.Load())
	}
}

// A socket whose listener does not speak containerd's protocol gives an error.
func TestNoContainerd(t *testing.T) {
	t.Parallel()
	e, _, by := containerProcess(t)
	for name, speak := range map[string]func(net.Conn){
		"hangs up": func(c net.Conn) { _ = c.Close() },
		"silent":   func(net.Conn) {},
		"garbage":  func(c net.Conn) { _, _ = c.Write([]byte(strings.Repeat("\xff\x00garbage", 1000))) },
		"a page":   func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")) },
		"a huge frame": func(c net.Conn) {
			_, _ = c.Write([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00\xff\xff\xff\x00\x00\x00\x00\x01")) // SETTINGS, then DATA of 16 MB
			b := make([]byte, 1<<16)
			for {
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, l := listen(t)
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					t.Cleanup(func() { _ = c.Close() })
					go speak(c)
				}
			}()
			if id, err := by(path).Attest(t.Context(), e); err == nil || errors.Is(err, attest.ErrRejected) {
				t.Errorf("got %v, %v", id.Selectors, err)
			}
		})
	}
	t.Run("not there", func(t *testing.T) {
		t.Parallel()
		if _, err := by("/nonexistent/containerd.sock").Attest(t.Context(), e); err == nil || errors.Is(err, attest.ErrRejected) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("comes back", func(t *testing.T) {
		t.Parallel()
		e, pid, by := containerProcess(t)
		path, l := listen(t)
		a := by(path)
		_ = l.Close()
		if _, err := a.Attest(t.Context(), e); err == nil {
			t.Error("judged without containerd")
		}
		real := honest(pid).serve(t)
		if err := os.Symlink(real, path); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Attest(t.Context(), e); err != nil {
			t.Errorf("after it came back: %v", err)
		}
	})
}

// When containerd hangs, the number of concurrent inspections is bounded, and each
// attestation still returns after its timeout.
func TestContainerdInTurns(t *testing.T) {
	t.Parallel()
	e, pid, by := containerProcess(t)
	s := honest(pid)
	var mu sync.Mutex
	var ends []time.Time
	most := 0
	s.answers["Tasks/ListPids"] = func(ctx context.Context) error {
		// An inspection with more than one of its two seconds left is still in progress,
		// so none has taken its slot.
		mu.Lock()
		end, _ := ctx.Deadline()
		ends = slices.DeleteFunc(append(ends, end), func(end time.Time) bool { return time.Until(end) <= time.Second })
		most = max(most, len(ends))
		mu.Unlock()
		<-ctx.Done()
		return ctx.Err()
	}
	a := by(s.serve(t))
	const callers = 24
	out := make(chan error, callers)
	for range callers {
		go func() { _, err := a.Attest(t.Context(), e); out <- err }()
	}
	for range callers {
		if err := <-out; err == nil || errors.Is(err, attest.ErrRejected) {
			t.Errorf("got %v", err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if most > 8 {
		t.Errorf("%d at once", most)
	}
}
