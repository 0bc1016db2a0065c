package unixpeer

import (
	"errors"
	"regexp"
	"slices"
	"strings"
)

// cgroup is the position of a process in the tree of cgroups.
type cgroup struct {
	path string // "" for the root, or when the hierarchies of version 1 disagree
	v2   bool
}

var errCgroup = errors.New("/proc/PID/cgroup does not have the format of cgroups(7)")

// parseCgroup parses /proc/PID/cgroup (cgroups(7)): lines of hierarchy:controllers:path.
// The path of cgroup v2 (0::) is used unless it is absent or the root. Otherwise the
// path of the version 1 hierarchies is used, if all of them have the same: they are
// separate trees.
func parseCgroup(text string) (cgroup, error) {
	var old []string
	second := ""
	for line := range strings.Lines(text) {
		line, ended := strings.CutSuffix(line, "\n")
		id, rest, ok := strings.Cut(line, ":")
		controllers, path, ok2 := strings.Cut(rest, ":")
		if !ended || !ok || !ok2 || !decimal(id) || !strings.HasPrefix(path, "/") {
			return cgroup{}, errCgroup
		}
		switch {
		case id == "0" && controllers == "" && second != "":
			return cgroup{}, errCgroup
		case id == "0" && controllers == "":
			second = path
		case path != "/":
			old = append(old, path)
		}
	}
	if second != "" && second != "/" {
		return cgroup{path: second, v2: true}, nil
	}
	if old = slices.Compact(old); len(old) == 1 {
		return cgroup{path: old[0]}, nil
	}
	return cgroup{}, nil
}

func decimal(s string) bool {
	return s != "" && len(s) < 20 && strings.Trim(s, "0123456789") == ""
}

// The names that container runtimes give to cgroups of containers, with systemd and
// without. The whole name must match: libpod-conmon-... is a helper of Podman.
var (
	scopeForm = regexp.MustCompile(`^(?:docker|cri-containerd|crio|libpod|libpod-payload|nerdctl)-([0-9a-f]{64})(?:\.scope)?$`)
	idForm    = regexp.MustCompile(`^[0-9a-f]{64}$`)
	podForm   = regexp.MustCompile(`^(?:docker|(?:kubepods.*-)?pod[0-9a-f]{8}(?:[-_]?[0-9a-f]{4}){3}[-_]?[0-9a-f]{12}(?:\.slice)?)$`)
	nameForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)
)

// container returns the id of the container in a cgroup's path and the cgroup of that
// container, both "" for none. A container that can write to its cgroups can make others
// below them with names of its choice. So a path with several containers is treated as
// having none, or with Nested as having the outermost.
func (c *Config) container(path string) (id, dir string) {
	parts := strings.Split(path, "/") // parts[0] is ""
	at := -1
	for i := 1; i < len(parts); i++ {
		name := c.containerAt(parts, i)
		switch {
		case name == "":
		case at < 0:
			id, at = name, i
		case !c.Nested:
			return "", ""
		}
	}
	if at < 0 {
		return "", ""
	}
	below := parts[at+1:]
	// Podman runs the container's processes one level below, in "container".
	payload := len(below) == 1 && below[0] == "container" && strings.HasPrefix(parts[at], "libpod-")
	if len(below) > 0 && !payload && !c.Nested {
		return "", ""
	}
	return id, strings.Join(parts[:at+1], "/")
}

// containerAt returns the id of the container whose cgroup is parts[i], "" for none.
func (c *Config) containerAt(parts []string, i int) string {
	if m := scopeForm.FindStringSubmatch(parts[i]); m != nil {
		return m[1]
	}
	if idForm.MatchString(parts[i]) && podForm.MatchString(parts[i-1]) {
		return parts[i]
	}
	if nameForm.MatchString(parts[i]) && slices.Contains(c.CgroupParents, strings.Join(parts[:i], "/")) {
		return parts[i]
	}
	return ""
}
