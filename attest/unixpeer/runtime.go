package unixpeer

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
)

const (
	maxInspect  = 1 << 20
	runtimeTime = 2 * time.Second
)

var (
	errNoContainer = errors.New("the container runtime has no container with this id")
	errStopped     = errors.New("the container is not running")
	errNotInside   = errors.New("the process is not one of the container's")
	errInspect     = errors.New("the container runtime's response is not a valid description of this container")
)

// runtime is a client of a container runtime on this machine.
type runtime interface {
	// mayKnow reports whether id can be the id of a container of this runtime.
	mayKnow(id string) bool
	// inspect describes one running container and, if the runtime can tell, checks that
	// the process is in it. errNoContainer, errStopped and errNotInside are reasons to
	// reject the evidence; other errors mean that the runtime did not answer.
	inspect(ctx context.Context, id string, pid int) (description, error)
}

// description is what a runtime reports about a container. Empty members are unknown.
type description struct {
	image     string // the image name that the container was created with
	imageID   string // digest of the image's configuration
	digest    string // digest of the image's manifest or index
	runtime   string // the OCI runtime, such as io.containerd.runc.v2
	namespace string // the namespace of containerd
	labels    map[string]string
}

// addImage adds the facts that the container runtime reports to the selectors.
func (a *Attestor) addImage(ctx context.Context, id string, pid int, sel map[string]string) error {
	c, err := a.runtime.inspect(ctx, id, pid)
	switch {
	case errors.Is(err, errNoContainer):
		return attest.Reject(attest.ReasonMeasurement, "the container runtime has no container with the id of the process's cgroup", err)
	case errors.Is(err, errNotInside):
		return attest.Reject(attest.ReasonMeasurement, "the container runtime reports that the process is not in the container", err)
	case errors.Is(err, errStopped):
		return attest.Reject(attest.ReasonExited, "the container runtime reports that the container is not running", err)
	case err != nil:
		return a.cannot(err)
	}
	add := func(name, value string) {
		if value != "" && len(value) <= maxPath && jose.Plain(value) {
			sel[name] = value
		}
	}
	add("image", c.image)
	add("image_id", c.imageID)
	add("image_digest", c.digest)
	add("runtime", c.runtime)
	add("containerd_namespace", c.namespace)
	for _, name := range slices.Sorted(slices.Values(a.cfg.Labels)) {
		add(labelPrefix+name, c.labels[name])
	}
	attest.Passed(ctx, "container runtime", c.imageID+c.digest)
	return nil
}
