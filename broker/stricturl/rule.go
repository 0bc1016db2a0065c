package stricturl

import (
	"crypto/fips140"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
)

// Rule selects requests by method and path, as a configuration names them.
type Rule struct {
	Methods []string `json:"methods"` // "GET"
	// Paths are exact, with * for one segment; /** at the end is everything below.
	Paths []string `json:"paths"`
	// EncodedSlash allows %2f in path segments, as in names of npm packages and GitLab projects.
	// A segment that * matches can then contain slashes for a server that decodes it.
	EncodedSlash bool `json:"encoded_slash,omitempty"`
	// WebSocket allows a GET of the rule to become a WebSocket (RFC 6455).
	WebSocket bool `json:"websocket,omitempty"`
}

var (
	methodForm = lazyregexp.New(`^[A-Z]{3,16}$`)
	pathForm   = lazyregexp.New(`^(/[A-Za-z0-9._~!$&'()+,=:@-]+|/\*)*(/\*\*|/)?$`)
)

// Check calls bad for each problem of the rule; at is its place in the configuration.
func (r Rule) Check(at string, bad func(format string, a ...any)) {
	if len(r.Methods) == 0 || len(r.Methods) > 16 || len(r.Paths) == 0 || len(r.Paths) > 64 {
		bad("%s: name 1 to 16 methods and 1 to 64 paths; all paths are /**", at)
	}
	for _, m := range r.Methods {
		if !methodForm.MatchString(m) || Method(m) != nil {
			bad("%s.methods: %q is not a method that ebb forwards: use 3 to 16 capital letters, and none of TRACE, TRACK, CONNECT, PRI", at, m)
		}
	}
	if r.WebSocket && !slices.Contains(r.Methods, "GET") {
		bad("%s.websocket: a WebSocket begins with GET, which is none of the methods", at)
	}
	if r.WebSocket && fips140.Enforced() {
		bad("%s.websocket: a WebSocket needs SHA-1 (RFC 6455 section 4.2.2), which GODEBUG=fips140=only forbids; leave it out, or run ebb with GODEBUG=fips140=on", at)
	}
	for _, p := range r.Paths {
		if p == "" || len(p) > 512 || !pathForm.MatchString(p) || slices.ContainsFunc(strings.Split(p, "/"), func(s string) bool { return s == "." || s == ".." }) {
			bad("%s.paths: %q is not a path like /v1/charges, /v1/charges/* or /v1/charges/**", at, p)
		}
	}
}

// Covers reports whether the rule selects a request; path is the result of Path with Slash set.
func (r Rule) Covers(method string, path []string) bool {
	if !r.EncodedSlash && slices.ContainsFunc(path, func(s string) bool { return strings.Contains(s, "%2f") }) {
		return false
	}
	return slices.Contains(r.Methods, method) && slices.ContainsFunc(r.Paths, func(p string) bool {
		return Matches(strings.Split(p[1:], "/"), path)
	})
}

// Matches reports whether path matches pattern, segment by segment: * matches one segment that is
// not empty, and ** at the end matches all segments below.
func Matches(pattern, path []string) bool {
	for i, want := range pattern {
		switch {
		case want == "**":
			return i < len(path)
		case i >= len(path) || want != path[i] && (want != "*" || path[i] == ""):
			return false
		}
	}
	return len(pattern) == len(path)
}
