package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
)

// KnownHosts returns the keys of a host of an SSH provider as lines of
// known_hosts (sshd(8)). host is a name, with :port if the port is not 22.
func (o *Operator) KnownHosts(ctx context.Context, provider, host string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	resp, err := o.authorized(ctx, call{method: http.MethodGet, path: "/v1/ssh/known_hosts", query: url.Values{"provider": {provider}, "host": {host}}})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem+1))
	if err != nil || len(text) > maxProblem {
		return nil, badAnswer("ended early or is too long", err)
	}
	return text, nil
}
