package github

import (
	"net/http"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/broker/stricturl"
)

// route is a line of the table.
type route struct {
	method  string
	pattern []string
}

func (r route) matches(below []string) bool {
	if len(below) < len(r.pattern) {
		return false
	}
	pattern := slices.Clone(r.pattern)
	for i, want := range pattern {
		switch {
		case want == "*" && strings.Contains(below[i], "%2f"), want == "#" && strings.Trim(below[i], "0123456789") != "":
			return false
		case want == "#":
			pattern[i] = "*"
		}
	}
	return stricturl.Matches(pattern, below)
}

// table is routes, read once: by permission and level.
var table = func() map[string]map[string][]route {
	out := map[string]map[string][]route{}
	for permission, levels := range routes {
		out[permission] = map[string][]route{}
		for level, text := range levels {
			for line := range strings.Lines(strings.TrimSpace(text)) {
				method, path, _ := strings.Cut(strings.TrimSpace(line), " ")
				var pattern []string
				if path != "/" {
					pattern = strings.Split(path[1:], "/")
				}
				out[permission][level] = append(out[permission][level], route{method, pattern})
			}
		}
	}
	return out
}()

// covers reports whether a request below a repository is one that these permissions are
// for. below is its path there. HEAD is GET without the body of its answer (RFC 9110 section
// 9.3.2).
func covers(permissions map[string]string, method string, below []string) bool {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for permission, have := range permissions {
		for level, lines := range table[permission] {
			if !atLeast(have, level) {
				continue
			}
			if slices.ContainsFunc(lines, func(r route) bool {
				return r.method == method && r.matches(below)
			}) {
				return true
			}
		}
	}
	return false
}
