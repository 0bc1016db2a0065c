package provider

import (
	"net/http"
	"strings"
)

// Discloser is an Injector whose responses may hold credentials that ebb did not add: new tokens,
// and URLs that grant access to their holder. In the sandbox such a credential would outlive its
// task, and the audit log would not name it.
type Discloser interface {
	// Discloses returns the secrets that the response to a request may hold, or nil. Inject has
	// accepted the request. The result must not be changed.
	Discloses(*http.Request, Target) *Disclosed
}

// Disclosed holds the names of secret members in responses. Egress replaces their values.
type Disclosed struct {
	// Members are those of JSON objects at any depth, elements of XML, and parameters.
	Members []string `json:"members,omitempty"`
	// Parameters are those of URLs and forms alone.
	Parameters []string `json:"parameters,omitempty"`
}

const maxDisclosed = 32

// Check calls bad for each problem; at is the place in the configuration.
func (d *Disclosed) Check(at string, bad func(format string, a ...any)) {
	if d == nil {
		return
	}
	if len(d.Members)+len(d.Parameters) > maxDisclosed {
		bad("%s: name at most %d members and parameters", at, maxDisclosed)
	}
	for _, name := range append(d.Members[:len(d.Members):len(d.Members)], d.Parameters...) {
		if name == "" || len(name) > 64 || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") != "" {
			bad("%s: %q is not the name of a member or parameter: 1 to 64 letters, digits and . _ -", at, name)
		}
	}
}

// Empty reports that nothing is secret.
func (d *Disclosed) Empty() bool { return d == nil || len(d.Members)+len(d.Parameters) == 0 }

// CommonlyDisclosed returns the secret members for APIs without a configuration of their own:
// OAuth tokens (RFC 6749 section 5.1, OpenID Connect), AWS sessions, and signed URLs of S3, Google
// Cloud Storage and Azure.
func CommonlyDisclosed() *Disclosed {
	return &Disclosed{
		Members: []string{
			"access_token", "refresh_token", "id_token", "client_secret", "accessToken", "refreshToken", "idToken", "clientSecret",
			"SecretAccessKey", "SessionToken", "secretAccessKey", "sessionToken",
		},
		Parameters: []string{"X-Amz-Signature", "X-Amz-Security-Token", "X-Goog-Signature", "sig"},
	}
}
