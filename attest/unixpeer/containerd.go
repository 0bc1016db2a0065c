package unixpeer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/containerd/containerd/api/services/containers/v1"
	"github.com/containerd/containerd/api/services/content/v1"
	"github.com/containerd/containerd/api/services/images/v1"
	"github.com/containerd/containerd/api/services/snapshots/v1"
	"github.com/containerd/containerd/api/services/tasks/v1"
	tasktypes "github.com/containerd/containerd/api/types/task"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
)

// identifierForm matches the names of containers and namespaces in containerd
// (pkg/identifiers). They have at most 76 bytes.
var identifierForm = lazyregexp.New(`^[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*$`)

func identifier(s string) bool { return len(s) <= 76 && identifierForm.MatchString(s) }

// containerd is a client of containerd on a configured unix socket. Each inspection
// opens a new connection. With a shared connection, an earlier failure or gRPC's
// back-off would make a later inspection fail although containerd is available.
type containerd struct {
	path       string
	namespaces []string
	slots      chan struct{}
}

// maxInspections is the maximum number of concurrent inspections. For each of them
// containerd starts a runc process that lists the container's processes.
const maxInspections = 8

func newContainerd(path string, namespaces []string) *containerd {
	return &containerd{path: path, namespaces: namespaces, slots: make(chan struct{}, maxInspections)}
}

// mayKnow implements runtime. Every container must be one of containerd's.
func (*containerd) mayKnow(string) bool { return true }

// inspect implements runtime. It searches the configured namespaces in their order. The
// same id may exist in more than one of them, but only one of these containers has the
// process.
func (c *containerd) inspect(ctx context.Context, id string, pid int) (description, error) {
	if !identifier(id) {
		return description{}, errNoContainer
	}
	ctx, cancel := context.WithTimeout(ctx, runtimeTime)
	defer cancel()
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return description{}, fmt.Errorf("containerd has %d inspections in progress, the maximum; none finished in time: %w", maxInspections, ctx.Err())
	}
	// passthrough: no name resolution; the dialer connects to the socket.
	conn, err := grpc.NewClient("passthrough:///containerd",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", c.path)
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // a unix socket
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		grpc.WithMaxHeaderListSize(64<<10), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxInspect)))
	if err != nil {
		return description{}, fmt.Errorf("containerd: %w", err)
	}
	defer conn.Close() //nolint:errcheck // every answer was read
	no := errNoContainer
	for _, ns := range c.namespaces {
		d, err := inNamespace(ctx, conn, ns, id, pid)
		switch {
		case errors.Is(err, errNoContainer):
		case errors.Is(err, errStopped), errors.Is(err, errNotInside):
			no = err
		default:
			return d, err
		}
	}
	return description{}, no
}

// inNamespace inspects a container in one of containerd's namespaces.
func inNamespace(ctx context.Context, conn *grpc.ClientConn, ns, id string, pid int) (description, error) {
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-namespace", ns)
	got, err := containers.NewContainersClient(conn).Get(ctx, &containers.GetContainerRequest{ID: id})
	if status.Code(err) == codes.NotFound {
		return description{}, errNoContainer
	}
	if err != nil {
		return description{}, fmt.Errorf("containerd did not return the container: %w", err)
	}
	container := got.GetContainer()
	if container.GetID() != id {
		return description{}, errInspect
	}
	if err := checkTask(ctx, tasks.NewTasksClient(conn), id, pid); err != nil {
		return description{}, err
	}
	d := description{image: container.GetImage(), runtime: container.GetRuntime().GetName(), namespace: ns, labels: container.GetLabels()}
	if d.digest, err = imageDigest(ctx, conn, container); err != nil {
		return description{}, err
	}
	return d, nil
}

// checkTask returns nil when the task of a container is running and has the process. It
// relies on containerd, which made the cgroup, and not on the name of the cgroup.
func checkTask(ctx context.Context, client tasks.TasksClient, id string, pid int) error {
	got, err := client.Get(ctx, &tasks.GetRequest{ContainerID: id})
	if status.Code(err) == codes.NotFound {
		return errStopped
	}
	if err != nil {
		return fmt.Errorf("containerd did not return the task of the container: %w", err)
	}
	task := got.GetProcess()
	if task.GetID() != id {
		return errInspect
	}
	switch task.GetStatus() {
	case tasktypes.Status_RUNNING:
	case tasktypes.Status_STOPPED:
		return errStopped
	default: // such as paused, from which the task can resume
		return fmt.Errorf("containerd reports that the task is %s, want RUNNING", task.GetStatus())
	}
	inside, err := client.ListPids(ctx, &tasks.ListPidsRequest{ContainerID: id})
	if status.Code(err) == codes.NotFound {
		return errStopped
	}
	if err != nil {
		return fmt.Errorf("containerd did not return the processes of the task: %w", err)
	}
	if !slices.ContainsFunc(inside.GetProcesses(), func(p *tasktypes.ProcessInfo) bool { return int64(p.GetPid()) == int64(pid) }) {
		return errNotInside
	}
	return nil
}

var digestForm = lazyregexp.New(`^sha256:[0-9a-f]{64}$`)

// maxBlobs is the maximum number of manifests and configurations of one image that are
// requested.
const maxBlobs = 64

// imageDigest returns the digest of the image that the container was made from, "" when
// it is unknown. The image name may point to another image since the container was
// made. So the current digest is returned only when the container's snapshot is based
// on the layers of that image.
func imageDigest(ctx context.Context, conn *grpc.ClientConn, c *containers.Container) (string, error) {
	name, key := c.GetImage(), c.GetSnapshotKey()
	if name == "" || key == "" {
		return "", nil // made from a directory
	}
	img, err := images.NewImagesClient(conn).Get(ctx, &images.GetImageRequest{Name: name})
	if status.Code(err) == codes.NotFound {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("containerd did not return the image: %w", err)
	}
	digest := img.GetImage().GetTarget().GetDigest()
	if img.GetImage().GetName() != name || !digestForm.MatchString(digest) {
		return "", errInspect
	}
	snap, err := snapshots.NewSnapshotsClient(conn).Stat(ctx, &snapshots.StatSnapshotRequest{Snapshotter: c.GetSnapshotter(), Key: key})
	if status.Code(err) == codes.NotFound {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("containerd did not return the snapshot: %w", err)
	}
	if snap.GetInfo().GetName() != key {
		return "", errInspect
	}
	ok, err := unpackedTo(ctx, content.NewContentClient(conn), digest, "containerd.io/gc.ref.snapshot."+c.GetSnapshotter(), snap.GetInfo().GetParent())
	if !ok || err != nil {
		return "", err
	}
	return digest, nil
}

// unpackedTo reports whether an image, or one image of an index, was unpacked to a
// snapshot. containerd records the snapshot as a label of the image's configuration,
// and the blobs that each blob refers to as labels too, for its garbage collector.
func unpackedTo(ctx context.Context, client content.ContentClient, digest, label, snapshot string) (bool, error) {
	if snapshot == "" {
		return false, nil
	}
	todo := []string{digest}
	for i := 0; i < len(todo) && i < maxBlobs; i++ {
		got, err := client.Info(ctx, &content.InfoRequest{Digest: todo[i]})
		if status.Code(err) == codes.NotFound {
			continue // an image for another platform, which was not downloaded
		}
		if err != nil {
			return false, fmt.Errorf("containerd did not return the content of the image: %w", err)
		}
		if got.GetInfo().GetDigest() != todo[i] {
			return false, errInspect
		}
		labels := got.GetInfo().GetLabels()
		if labels[label] == snapshot {
			return true, nil
		}
		for _, name := range slices.Sorted(maps.Keys(labels)) {
			to, is := strings.CutPrefix(name, "containerd.io/gc.ref.content.")
			if is && (to == "config" || strings.HasPrefix(to, "m.")) && digestForm.MatchString(labels[name]) && !slices.Contains(todo, labels[name]) {
				todo = append(todo, labels[name])
			}
		}
	}
	return false, nil
}
