package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/ebb-broker/ebb/web/wire"
)

// ProvidersService reads and tests the configured providers.
type ProvidersService struct{ *session }

// List lists the configured providers with their pending revocations.
func (s *ProvidersService) List(ctx context.Context) ([]wire.Provider, error) {
	var out wire.List[wire.Provider]
	err := s.do(ctx, http.MethodGet, "/v1/providers", nil, nil, &out)
	return out.Items, err
}

// selfTestTime is longer than ebb's limit for a provider self-test: set-up, mint,
// probe and the completion of a task.
const selfTestTime = 3 * time.Minute

// SelfTest runs a provider self-test and waits until it is done.
func (s *ProvidersService) SelfTest(ctx context.Context, name string, spec wire.SelfTestSpec) (wire.SelfTest, error) {
	var out wire.SelfTest
	return out, s.doWait(ctx, http.MethodPost, "/v1/providers/"+url.PathEscape(name)+"/check", nil, spec, &out, selfTestTime)
}

// KnownHosts returns the keys of a host of an SSH provider as lines of
// known_hosts (sshd(8)). host is a name, with :port if the port is not 22.
func (s *ProvidersService) KnownHosts(ctx context.Context, provider, host string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	resp, err := s.authorized(ctx, call{method: http.MethodGet, path: "/v1/ssh/known_hosts", query: url.Values{"provider": {provider}, "host": {host}}})
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
