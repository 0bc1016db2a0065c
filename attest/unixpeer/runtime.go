package unixpeer

import (
	"context"
	"errors"
	"slices"
	"time"

	"ebb/attest"
	"ebb/attest/jose"
)

const (
	maxInspect  = 1 << 20
	runtimeTime = 2 * time.Second
)

var (
	errNoContainer = errors.New("no such container")
	errStopped     = errors.New("the container does not run")
	errNotInside   = errors.New("the process is none of the container's")
	errInspect     = errors.New("the container runtime's answer is not that of an inspection")
)

// runtime knows the containers of this machine.
type runtime interface {
	// mayKnow reports whether a container of this id is one to ask about.
	mayKnow(id string) bool
	// inspect asks about one running container, and whether a process is in it where
	// the runtime can tell. errNoContainer, errStopped and errNotInside are answers.
	inspect(ctx context.Context, id string, pid int) (description, error)
}

// description is what a runtime says of a container. Empty members are not known.
type description struct {
	image     string // as it was asked for
	imageID   string // digest of the image's configuration
	digest    string // digest of the image's manifest or index
	runtime   string // what runs the container
	namespace string // of containerd
	labels    map[string]string
}

// addImage adds what the container runtime says of a container.
func (a *Attestor) addImage(ctx context.Context, id string, pid int, sel map[string]string) error {
	c, err := a.runtime.inspect(ctx, id, pid)
	switch {
	case errors.Is(err, errNoContainer):
		return attest.Reject(attest.ReasonMeasurement, "the container runtime knows no such container", err)
	case errors.Is(err, errNotInside):
		return attest.Reject(attest.ReasonMeasurement, "the container runtime says that the process is not in the container", err)
	case errors.Is(err, errStopped):
		return attest.Reject(attest.ReasonDead, "the container runtime says that the container does not run", err)
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
