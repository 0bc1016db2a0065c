package provider

import (
	"net/http"
	"strings"
)

// Discloser is an Injector whose answers may hold credentials that ebb has not added: tokens
// that they make, and URLs that work for whoever has them. In the sandbox such a one would
// outlive its task, and be on no record.
type Discloser interface {
	// Discloses says what the answer to a request that Inject has accepted may hold, nil =
	// nothing. What it points at does not change.
	Discloses(*http.Request, Target) *Disclosed
}

// Disclosed are the names of what is secret in answers, as they are written there. Egress puts
// a mark in the place of their values.
type Disclosed struct {
	// Members are those of JSON objects at any depth, elements of XML, and parameters.
	Members []string `json:"members,omitempty"`
	// Parameters are those of URLs and forms alone.
	Parameters []string `json:"parameters,omitempty"`
}

const maxDisclosed = 32

// Check says through bad what is wrong; at is its place in a configuration.
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

// CommonlyDisclosed is what is secret in the answers of APIs that nobody has said anything
// of: tokens of OAuth (RFC 6749 section 5.1, OpenID Connect), sessions of AWS, and what signs
// URLs of S3, Google Cloud Storage and Azure.
func CommonlyDisclosed() *Disclosed {
	return &Disclosed{
		Members: []string{
			"access_token", "refresh_token", "id_token", "client_secret", "accessToken", "refreshToken", "idToken", "clientSecret",
			"SecretAccessKey", "SessionToken", "secretAccessKey", "sessionToken",
		},
		Parameters: []string{"X-Amz-Signature", "X-Amz-Security-Token", "X-Goog-Signature", "sig"},
	}
}
