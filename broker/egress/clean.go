package egress

import (
	"net/http"
	"slices"
	"strings"
)

// dropDigests removes what is said of a body that is about to become another.
func dropDigests(h http.Header) {
	for _, name := range []string{"Content-Md5", "Digest", "Content-Digest", "Repr-Digest", "Accept-Ranges"} {
		h.Del(name)
	}
}

func identity(codings []string) bool {
	return !slices.ContainsFunc(codings, func(c string) bool { return c != "" && !strings.EqualFold(c, "identity") })
}

// kept are headers that a box has no use for: they are of the session that the credential
// has at the upstream, or lead round the proxy.
var kept = []string{"Set-Cookie", "Set-Cookie2", "Refresh", "Alt-Svc", "Proxy-Authenticate", "Authentication-Info", "Proxy-Authentication-Info", "Clear-Site-Data"}

// clean removes the headers that are kept, and marks secrets in the names and values of
// the others.
func (s *sending) clean(h http.Header) {
	for _, name := range kept {
		delete(h, name)
	}
	if s.named != nil {
		for _, values := range h {
			for i, v := range values {
				text, n := s.named.Text(v)
				values[i] = text
				s.echoes.Add(int64(n))
			}
		}
	}
	if s.redactor != nil {
		s.cleanOf(h, s.redactor)
	}
	for _, x := range s.hidden {
		s.cleanOf(h, x)
	}
}

// cleanOf marks one secret.
func (s *sending) cleanOf(h http.Header, x *redactor) {
	for name, values := range h {
		for i, v := range values {
			text, n := x.Text(v)
			values[i] = text
			s.echoes.Add(int64(n))
		}
		if _, n := x.Text(name); n > 0 {
			delete(h, name)
			s.echoes.Add(int64(n))
		}
	}
}
