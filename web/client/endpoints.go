package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/ebb-broker/ebb/web/wire"
)

// EndpointsService opens and closes egress endpoints of sandboxes.
type EndpointsService struct{ *session }

// Open opens an egress endpoint for a tool of a task: on the broker's
// machine, or, with wire.EndpointByRunner, on this machine. In the latter case
// Connect forwards its connections.
func (s *EndpointsService) Open(ctx context.Context, taskID string, spec wire.EgressEndpointSpec) (wire.EgressEndpoint, error) {
	var out wire.EgressEndpoint
	return out, s.do(ctx, http.MethodPost, taskPath(taskID, "/egress-endpoints"), nil, spec, &out)
}

// Connect forwards one connection of a sandbox. The returned stream carries
// the bytes between the sandbox and its egress socket. The caller must close
// it; ctx limits only the setup.
func (s *EndpointsService) Connect(ctx context.Context, x wire.EgressEndpoint) (io.ReadWriteCloser, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	resp, err := s.authorized(ctx, call{method: http.MethodPost, path: endpointPath(x, "/connect"), upgrade: wire.UpgradeEgress})
	if err != nil {
		return nil, err
	}
	conn, is := resp.Body.(io.ReadWriteCloser)
	if resp.StatusCode != http.StatusSwitchingProtocols || !is || !strings.EqualFold(resp.Header.Get("Upgrade"), wire.UpgradeEgress) {
		_ = resp.Body.Close()
		return nil, badAnswer("is not an upgrade to ebb's egress; check that proxies in between forward the Upgrade header", nil)
	}
	return conn, nil
}

// Register registers the network namespace of the sandbox by its inode,
// before anything runs in it.
func (s *EndpointsService) Register(ctx context.Context, x wire.EgressEndpoint, namespace uint64) (wire.EgressEndpoint, error) {
	var out wire.EgressEndpoint
	return out, s.do(ctx, http.MethodPost, endpointPath(x, "/register"), nil, wire.NamespaceBody{NetworkNamespace: namespace}, &out)
}

// Close closes the egress endpoint and all its connections.
func (s *EndpointsService) Close(ctx context.Context, x wire.EgressEndpoint) (wire.EgressEndpoint, error) {
	var out wire.EgressEndpoint
	return out, s.do(ctx, http.MethodPost, endpointPath(x, "/close"), nil, nil, &out)
}

func endpointPath(x wire.EgressEndpoint, verb string) string {
	return taskPath(x.TaskID, "/egress-endpoints/"+url.PathEscape(x.ID)+verb)
}
