package unixpeer

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"

	"github.com/go-json-experiment/json"
)

var imageForm = regexp.MustCompile(`^(?:sha256:)?([0-9a-f]{64})$`)

// docker is Docker or Podman behind a unix socket that the configuration names.
// Package fetch is for places of the network.
type docker struct{ http http.Client }

func newDocker(path string) *docker {
	return &docker{http.Client{
		Timeout: runtimeTime,
		// A redirect would lead elsewhere than to the socket's own API.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", path)
			},
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
		},
	}}
}

// inspected is what is read of an inspection (Docker Engine API, ContainerInspect).
type inspected struct {
	ID    string `json:"Id"`
	Image string `json:"Image"` // digest of the image's configuration
	State struct {
		Running bool `json:"Running"`
	} `json:"State"`
	Config struct {
		Image  string            `json:"Image"` // as it was asked for
		Labels map[string]string `json:"Labels"`
	} `json:"Config"`
}

// mayKnow implements runtime.
func (*docker) mayKnow(id string) bool { return idForm.MatchString(id) }

// inspect implements runtime. Docker is not asked for the container's processes: what
// it says of those is the text of a ps.
func (r *docker) inspect(ctx context.Context, id string, _ int) (description, error) {
	c, err := r.get(ctx, id)
	return description{image: c.Config.Image, imageID: c.Image, labels: c.Config.Labels}, err
}

// get asks about one running container; id is 64 hex digits.
func (r *docker) get(ctx context.Context, id string) (inspected, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://runtime/containers/"+id+"/json", nil)
	if err != nil {
		return inspected{}, err
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return inspected{}, fmt.Errorf("the container runtime does not answer: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // nothing was written
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return inspected{}, errNoContainer
	default:
		return inspected{}, fmt.Errorf("the container runtime answers %d", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxInspect+1))
	if err != nil {
		return inspected{}, fmt.Errorf("the container runtime's answer breaks off: %w", err)
	}
	return parseInspect(body, id)
}

// parseInspect reads the answer about one container. What it does not know it
// leaves alone; a name that comes twice is an error.
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
