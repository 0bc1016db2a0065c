package unixpeer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
)

var errStat = errors.New("/proc/PID/stat does not have the format of proc_pid_stat(5)")

// parseStat returns the parent of a process (field 4 of /proc/PID/stat) and its start
// time in ticks since boot (field 22). Field 2 is the program's name in parentheses.
// The process chooses it, and it may contain any byte, so the last parenthesis of the
// file ends it.
func parseStat(text string) (parent int, start uint64, err error) {
	end := strings.LastIndexByte(text, ')')
	if end < 0 {
		return 0, 0, errStat
	}
	fields := strings.Fields(text[end+1:]) // from field 3 on
	if len(fields) < 20 {
		return 0, 0, errStat
	}
	ppid, err := strconv.ParseUint(fields[1], 10, 31)
	start, err2 := strconv.ParseUint(fields[19], 10, 64)
	if err != nil || err2 != nil {
		return 0, 0, errStat
	}
	return int(ppid), start, nil
}

// parseInner returns the PID of a process in its own process namespace: the last number
// of NSpid in /proc/PID/status (proc_pid_status(5)), 0 when it is absent. The process
// chooses the value of Name, which comes before NSpid, but it cannot span lines.
func parseInner(text string) int {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "NSpid:\t")
		if !ok {
			continue
		}
		numbers := strings.Split(strings.TrimSuffix(rest, "\n"), "\t")
		n, err := strconv.ParseUint(numbers[len(numbers)-1], 10, 31)
		if err != nil {
			return 0
		}
		return int(n)
	}
	return 0
}

var errLink = errors.New("a namespace link in /proc/PID/ns does not have the format of namespaces(7)")

// parseLink returns the inode in the link of a namespace, such as net:[4026531840].
func parseLink(kind, text string) (uint64, error) {
	rest, ok := strings.CutPrefix(text, kind+":[")
	digits, ok2 := strings.CutSuffix(rest, "]")
	if !ok || !ok2 || !decimal(digits) {
		return 0, errLink
	}
	return strconv.ParseUint(digits, 10, 64)
}

// parseMount returns the mount point of the root of cgroup v2 from /proc/self/mountinfo
// (proc_pid_mountinfo(5)), "" when it is not mounted.
func parseMount(text string) string {
	for line := range strings.Lines(text) {
		before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if ok && len(fields) >= 6 && len(kind) >= 1 && kind[0] == "cgroup2" && fields[3] == "/" && !strings.Contains(fields[4], `\`) {
			return fields[4]
		}
	}
	return ""
}

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
	scopeForm = lazyregexp.New(`^(?:docker|cri-containerd|crio|libpod|libpod-payload|nerdctl)-([0-9a-f]{64})(?:\.scope)?$`)
	idForm    = lazyregexp.New(`^[0-9a-f]{64}$`)
	podForm   = lazyregexp.New(`^(?:docker|(?:kubepods.*-)?pod[0-9a-f]{8}(?:[-_]?[0-9a-f]{4}){3}[-_]?[0-9a-f]{12}(?:\.slice)?)$`)
	nameForm  = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)
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

const (
	maxExe  = 128 << 20
	maxExes = 4
	exeTime = 5 * time.Second
)

// digest returns the SHA-256 of the program of a process in hex. The container can keep
// the file on a file system that never answers, and a read from it cannot be
// interrupted. So digest returns after exeTime at the latest, and at most maxExes reads
// are in progress at a time.
func (a *Attestor) digest(ctx context.Context, pid int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, exeTime)
	defer cancel()
	select {
	case a.exes <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	type result struct {
		sum string
		err error
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-a.exes }()
		sum, err := hashFile(ctx, filepath.Join(a.cfg.Proc, strconv.Itoa(pid), "exe"))
		done <- result{sum, err}
	}()
	select {
	case r := <-done:
		return r.sum, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func hashFile(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxExe {
		return "", errors.Join(errors.New("the program is not a regular file of at most 128 MiB"), err)
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(contextReader{ctx, f}, maxExe+1))
	if err == nil && n > maxExe {
		err = errors.New("the program is larger than 128 MiB")
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// contextReader returns the error of ctx once ctx is done.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (r contextReader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}

// names are all selectors except label/NAME.
var names = []string{"uid", "gid", "pid", "start_time", "host", "cgroup", "cgroup_id", "container_id", "netns", "pidns", "userns",
	"init_pid", "init_start_time", "exe_sha256", "image", "image_id", "image_digest", "runtime", "containerd_namespace"}

// unique are the selectors whose value only one sandbox has at a time.
var unique = []string{"container_id", "cgroup_id", "cgroup", "netns"}

// identifiesSandbox reports whether selectors of these names match only one sandbox. A
// pid alone does not, because the kernel reuses it.
func identifiesSandbox(have []string) bool {
	return slices.ContainsFunc(unique, func(n string) bool { return slices.Contains(have, n) }) ||
		slices.Contains(have, "pid") && slices.Contains(have, "start_time")
}

// CheckRegistration implements attest.Registrar. It refuses a registration without one of
// the selectors in Require.
func (a *Attestor) CheckRegistration(selectors map[string]string) error {
	for _, name := range a.cfg.Require {
		if selectors[name] == "" {
			return fmt.Errorf("the attestor %s needs the selector %s in every registration; add it", a.cfg.Name, name)
		}
	}
	return nil
}

// needs returns the setting that a selector depends on and that is not set, "" when
// nothing is missing.
func (c *Config) needs(name string) string {
	switch {
	case name == "exe_sha256" && !c.ExeDigest:
		return "exe_digest: true"
	case name == "image_id" && c.Runtime == "":
		return "runtime_socket"
	case slices.Contains([]string{"image_digest", "runtime", "containerd_namespace"}, name) && c.Containerd == "":
		return "containerd_socket"
	case name == "image" && c.Runtime == "" && c.Containerd == "":
		return "runtime_socket or containerd_socket"
	}
	return ""
}

// SelectorNames implements attest.Selecting.
func (a *Attestor) SelectorNames() []string {
	out := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return a.cfg.needs(name) != "" || strings.HasPrefix(name, "init_") && a.cfg.Liveness != LivenessNamespace
	})
	for _, l := range a.cfg.Labels {
		out = append(out, labelPrefix+l)
	}
	return out
}
