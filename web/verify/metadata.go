package verify

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
)

// wellKnown is the path of RFC 9728 section 3.
const wellKnown = "/.well-known/oauth-protected-resource"

// MetadataPath returns the path for Metadata: the well-known path, inserted
// before the path of the resource (RFC 9728 section 3.1).
func (v *Verifier) MetadataPath() string {
	u, err := url.Parse(v.cfg.Resource)
	if err != nil {
		return wellKnown
	}
	return wellKnown + strings.TrimRight(u.EscapedPath(), "/")
}

// Metadata serves the protected resource metadata (RFC 9728 section 2), by
// which a client finds the issuer. It needs no token.
func (v *Verifier) Metadata() http.Handler {
	algs := make([]string, len(v.cfg.DPoPAlgs))
	for i, a := range v.cfg.DPoPAlgs {
		algs[i] = string(a)
	}
	body, err := json.Marshal(struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported,omitempty"`
		Methods  []string `json:"bearer_methods_supported"`
		Algs     []string `json:"dpop_signing_alg_values_supported"`
		MTLS     bool     `json:"tls_client_certificate_bound_access_tokens"`
	}{v.cfg.Resource, []string{v.cfg.Issuer}, strings.Fields(v.cfg.Scopes.String()), []string{"header"}, algs, true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		case err != nil:
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "max-age=300")
		_, _ = w.Write(body)
	})
}
