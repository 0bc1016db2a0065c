package unixpeer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"

	"github.com/containerd/containerd/api/services/containers/v1"
	"github.com/containerd/containerd/api/services/tasks/v1"
	tasktypes "github.com/containerd/containerd/api/types/task"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// identifierForm is what containerd names containers and namespaces
// (pkg/identifiers), 76 bytes at most.
var identifierForm = regexp.MustCompile(`^[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*$`)

func identifier(s string) bool { return len(s) <= 76 && identifierForm.MatchString(s) }

// containerd is containerd behind a unix socket that the configuration names. Each
// inspection has a connection of its own: one that was broken yesterday, or that is in
// gRPC's back-off, would answer today's question.
type containerd struct {
	path       string
	namespaces []string
	turns      chan struct{}
}

// maxTurns bounds the inspections at one time: for each of them containerd starts a
// runc that lists the container's processes.
const maxTurns = 8

func newContainerd(path string, namespaces []string) *containerd {
	return &containerd{path: path, namespaces: namespaces, turns: make(chan struct{}, maxTurns)}
}

// mayKnow implements runtime: every container has to be one of containerd's.
func (*containerd) mayKnow(string) bool { return true }

// inspect implements runtime. The namespaces are the configured ones, in their order;
// that a container of the id is in more than one of them leads nobody astray, for the
// process is in one container.
func (c *containerd) inspect(ctx context.Context, id string, pid int) (description, error) {
	if !identifier(id) {
		return description{}, errNoContainer
	}
	ctx, cancel := context.WithTimeout(ctx, runtimeTime)
	defer cancel()
	select {
	case c.turns <- struct{}{}:
		defer func() { <-c.turns }()
	case <-ctx.Done():
		return description{}, fmt.Errorf("containerd is asked about too many containers: %w", ctx.Err())
	}
	// The name is not looked up anywhere: the dialer knows one place.
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

// inNamespace asks for a container in one of containerd's namespaces.
func inNamespace(ctx context.Context, conn *grpc.ClientConn, ns, id string, pid int) (description, error) {
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-namespace", ns)
	got, err := containers.NewContainersClient(conn).Get(ctx, &containers.GetContainerRequest{ID: id})
	if status.Code(err) == codes.NotFound {
		return description{}, errNoContainer
	}
	if err != nil {
		return description{}, fmt.Errorf("containerd does not answer for the container: %w", err)
	}
	box := got.GetContainer()
	if box.GetID() != id {
		return description{}, errInspect
	}
	if err := runs(ctx, tasks.NewTasksClient(conn), id, pid); err != nil {
		return description{}, err
	}
	d := description{image: box.GetImage(), runtime: box.GetRuntime().GetName(), namespace: ns, labels: box.GetLabels()}
	if d.digest, err = imageDigest(ctx, conn, box); err != nil {
		return description{}, err
	}
	return d, nil
}

// runs asks for the task of a container, which must be running with the process in it.
// That is the word of who made the cgroup, not of its name.
func runs(ctx context.Context, client tasks.TasksClient, id string, pid int) error {
	got, err := client.Get(ctx, &tasks.GetRequest{ContainerID: id})
	if status.Code(err) == codes.NotFound {
		return errStopped
	}
	if err != nil {
		return fmt.Errorf("containerd does not answer for the task: %w", err)
	}
	task := got.GetProcess()
	if task.GetID() != id {
		return errInspect
	}
	switch task.GetStatus() {
	case tasktypes.Status_RUNNING:
	case tasktypes.Status_STOPPED:
		return errStopped
	default: // paused, for one, is not for ever
		return fmt.Errorf("containerd says that the task is %s", task.GetStatus())
	}
	inside, err := client.ListPids(ctx, &tasks.ListPidsRequest{ContainerID: id})
	if status.Code(err) == codes.NotFound {
		return errStopped
	}
	if err != nil {
		return fmt.Errorf("containerd does not answer for the task's processes: %w", err)
	}
	if !slices.ContainsFunc(inside.GetProcesses(), func(p *tasktypes.ProcessInfo) bool { return int64(p.GetPid()) == int64(pid) }) {
		return errNotInside
	}
	return nil
}
