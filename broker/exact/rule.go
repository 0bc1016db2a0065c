package exact

import (
	"regexp"
	"slices"
	"strings"
)

// Rule is the requests that a scope stands for, as a configuration names them.
type Rule struct {
	Methods []string `json:"methods"` // "GET"
	// Paths are exact, with * for one segment; /** at the end is everything below.
	Paths []string `json:"paths"`
	// EncodedSlash lets segments of a path hold %2f, as names of npm packages and projects of
	// GitLab do. What * stands for then holds slashes to a server that decodes it.
	EncodedSlash bool `json:"encoded_slash,omitempty"`
	// WebSocket lets a GET of the rule become a WebSocket (RFC 6455).
	WebSocket bool `json:"websocket,omitempty"`
}

var (
	methodForm = regexp.MustCompile(`^[A-Z]{3,16}$`)
	pathForm   = regexp.MustCompile(`^(/[A-Za-z0-9._~!$&'()+,=:@-]+|/\*)*(/\*\*|/)?$`)
)

// Check says through bad what is wrong with a rule that is at this place of a
// configuration.
func (r Rule) Check(at string, bad func(format string, a ...any)) {
	if len(r.Methods) == 0 || len(r.Methods) > 16 || len(r.Paths) == 0 || len(r.Paths) > 64 {
		bad("%s: name 1 to 16 methods and 1 to 64 paths; all paths are /**", at)
	}
	for _, m := range r.Methods {
		if !methodForm.MatchString(m) || Method(m) != nil {
			bad("%s.methods: %q is not a method that goes further", at, m)
		}
	}
	if r.WebSocket && !slices.Contains(r.Methods, "GET") {
		bad("%s.websocket: a WebSocket begins with GET, which is none of the methods", at)
	}
	for _, p := range r.Paths {
		if p == "" || len(p) > 512 || !pathForm.MatchString(p) || slices.ContainsFunc(strings.Split(p, "/"), func(s string) bool { return s == "." || s == ".." }) {
			bad("%s.paths: %q is not a path like /v1/charges, /v1/charges/* or /v1/charges/**", at, p)
		}
	}
}

// Covers reports whether a request is one of the rule's; path is of Path with Slash.
func (r Rule) Covers(method string, path []string) bool {
	if !r.EncodedSlash && slices.ContainsFunc(path, func(s string) bool { return strings.Contains(s, "%2f") }) {
		return false
	}
	return slices.Contains(r.Methods, method) && slices.ContainsFunc(r.Paths, func(p string) bool {
		return Matches(strings.Split(p[1:], "/"), path)
	})
}

// Matches reports whether a path is of a pattern, segment by segment: * is one that is not
// empty, ** at the end is everything below.
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
