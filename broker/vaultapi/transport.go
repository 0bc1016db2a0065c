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

// foreign stands for a refusal that is not Vault's. It is no JSON, so that the library
// neither reads it nor takes it for no answer.
const foreign = "(not in Vault's form)"

// RoundTrip implements http.RoundTripper.
func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := g.RoundTripper.RoundTrip(r)
	switch {
	case err != nil || resp.StatusCode == http.StatusNoContent:
		return resp, err
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		_ = resp.Body.Close()
		return nil, fmt.Errorf("vault: the server answers %d and points elsewhere, where no token is sent: name the active server, or a load balancer, as address", resp.StatusCode)
	}
	body, err := provider.ReadBody(resp, maxAnswer)
	if err != nil {
		return nil, err
	}
	if !vaults(body) {
		if resp.StatusCode < 300 {
			return nil, fmt.Errorf("vault: the answer is %d and not in Vault's form: something between ebb and Vault answers", resp.StatusCode)
		}
		body = []byte(foreign)
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}

// vaults reports whether a body is one object in JSON, with errors as Vault has them
// if it has any.
func vaults(body []byte) bool {
	var doc *struct {
		Errors []string `json:"errors"`
	}
	return json.Unmarshal(body, &doc) == nil && doc != nil
}
