package vaultapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"ebb/broker/provider"
)

// guarded makes an error of a redirect. The library follows one by itself, past the
// HTTP client's own rule, with the token in its header; its DisableRedirects is
// lost when a client is cloned, and set by the environment. And it empties refusals
// that are not Vault's: the library's errors hold them as they came, for the log.
type guarded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := g.RoundTripper.RoundTrip(r)
	switch {
	case err != nil || resp.StatusCode < 300:
		return resp, err
	case resp.StatusCode < 400:
		_ = resp.Body.Close()
		return nil, fmt.Errorf("vault: the server answers %d and points elsewhere, where no token is sent: name the active server, or a load balancer, as address", resp.StatusCode)
	}
	body, err := provider.ReadBody(resp, maxAnswer)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Errors []string `json:"errors"`
	}
	if json.Unmarshal(body, &doc) != nil {
		body = nil
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}
