package unixpeer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
)

var imageForm = lazyregexp.New(`^(?:sha256:)?([0-9a-f]{64})$`)

// docker is a client of Docker or Podman on a configured unix socket. It does not use
// package fetch, which is for network addresses.
type docker struct{ http http.Client }

func newDocker(path string) *docker {
	return &docker{http.Client{
		Timeout: runtimeTime,
		// The API of the socket never redirects.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", path)
			},
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
		},
	}}
}

// inspected has the members that are read from ContainerInspect of the Docker Engine API.
type inspected struct {
	ID    string `json:"Id"`
	Image string `json:"Image"` // digest of the image's configuration
	State struct {
		Running bool `json:"Running"`
	} `json:"State"`
	Config struct {
		Image  string            `json:"Image"` // the name that the container was created with
		Labels map[string]string `json:"Labels"`
	} `json:"Config"`
}

// mayKnow implements runtime.
func (*docker) mayKnow(id string) bool { return idForm.MatchString(id) }

// inspect implements runtime. It does not check that the process is in the container,
// because Docker lists processes only as the text output of ps.
func (r *docker) inspect(ctx context.Context, id string, _ int) (description, error) {
	c, err := r.get(ctx, id)
	return description{image: c.Config.Image, imageID: c.Image, labels: c.Config.Labels}, err
}

// get inspects one running container. id is 64 hex digits.
func (r *docker) get(ctx context.Context, id string) (inspected, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://runtime/containers/"+id+"/json", nil)
	if err != nil {
		return inspected{}, err
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return inspected{}, fmt.Errorf("the container runtime did not answer: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // nothing was written
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return inspected{}, errNoContainer
	default:
		return inspected{}, fmt.Errorf("the container runtime answered with status %d, want 200 or 404", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxInspect+1))
	if err != nil {
		return inspected{}, fmt.Errorf("the container runtime's response is incomplete: %w", err)
	}
	return parseInspect(body, id)
}

// parseInspect parses the response for one container. Unknown members are ignored, and
// a duplicate member name is an error.
func parseInspect(body []byte, id string) (inspected, error) {
	var c inspected
	if len(body) > maxInspect || json.Unmarshal(body, &c) != nil || c.ID != id {
		return inspected{}, errInspect
	}
	m := imageForm.FindStringSubmatch(c.Image)
	if m == nil {
		return inspected{}, errInspect
	}
	c.Image = "sha256:" + m[1]
	if !c.State.Running {
		return inspected{}, errStopped
	}
	return c, nil
}

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
