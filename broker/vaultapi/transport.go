package vaultapi

import (
	"fmt"
	"net/http"
)

// stays makes an error of a redirect. The library follows one by itself, past the
// HTTP client's own rule, with the token in its header; its DisableRedirects is
// lost when a client is cloned, and set by the environment.
type stays struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s stays) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.RoundTripper.RoundTrip(r)
	if err == nil && resp.StatusCode >= 300 && resp.StatusCode < 400 {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("vault: the server answers %d and points elsewhere, where no token is sent: name the active server, or a load balancer, as address", resp.StatusCode)
	}
	return resp, err
}
