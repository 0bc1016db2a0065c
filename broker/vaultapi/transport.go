package vaultapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/ebb-broker/ebb/broker/provider"
)

// guarded turns a redirect into an error. Vault's library follows a redirect itself, with the
// token in the header, and ignores the rule of the HTTP client; its DisableRedirects is lost when
// a client is cloned, and the environment can set it. guarded also refuses responses that do not
// come from Vault: for calls without a result, the library accepts any 200 and a 404 without a
// body. Finally, it shortens refusals, because the library copies them into errors and these go
// into the log.
type guarded struct{ http.RoundTripper }

// foreign replaces the body of a refusal that is not from Vault. It is not JSON, so the
// library does not parse it, and it is not empty, so the library does not treat the response
// as missing.
const foreign = "(not in Vault's form)"

// RoundTrip implements http.RoundTripper.
func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := g.RoundTripper.RoundTrip(r)
	switch {
	case err != nil || resp.StatusCode == http.StatusNoContent:
		return resp, err
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		_ = resp.Body.Close()
		return nil, fmt.Errorf("vault: the server answered with the redirect %d, which is not followed, because the token must not go to another host: configure the active server, or a load balancer, as address", resp.StatusCode)
	}
	body, err := provider.ReadBody(resp, maxAnswer)
	if err != nil {
		return nil, err
	}
	if !vaults(body) {
		if resp.StatusCode < 300 {
			return nil, fmt.Errorf("vault: the response with status %d does not have Vault's form: check the proxies between ebb and Vault", resp.StatusCode)
		}
		body = []byte(foreign)
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}

// vaults reports whether a body is one JSON object whose errors, if any, have Vault's form.
func vaults(body []byte) bool {
	var doc *struct {
		Errors []string `json:"errors"`
	}
	return json.Unmarshal(body, &doc) == nil && doc != nil
}
