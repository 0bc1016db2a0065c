package unixpeer

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest"
)

// Config configures one instance.
type Config struct {
	// Name of the instance. Required.
	Name string `json:"-"`
	// Require lists selectors that every process must have and every registration must
	// contain. At least one must distinguish sandboxes: container_id, cgroup_id,
	// cgroup, netns, or pid together with start_time. Required.
	Require []string `json:"require"`
	// Subject selects what Identity.Subject identifies: SubjectContainer, SubjectNetns
	// or SubjectProcess. Default: SubjectContainer when Require has container_id,
	// otherwise SubjectNetns when it has netns, otherwise SubjectProcess.
	Subject Subject `json:"subject"`
	// Liveness selects what Watch observes. Default: LivenessContainer when Require has
	// container_id, cgroup or cgroup_id, LivenessProcess when it has pid, otherwise
	// LivenessNamespace.
	Liveness Liveness `json:"liveness"`
	// CgroupParents are cgroups such as "/sandboxes" of a custom runner. Each child of
	// one is a container, whose id is the name of the child.
	CgroupParents []string `json:"cgroup_parents"`
	// Nested accepts containers within containers. Processes in an inner container are
	// treated as processes of the outermost one.
	Nested bool `json:"nested"`
	// ExeDigest adds exe_sha256, the digest of the program, which may have 128 MiB.
	ExeDigest bool `json:"exe_digest"`
	// Runtime is the path of the socket of Docker or Podman. "" disables it.
	Runtime string `json:"runtime_socket"`
	// Containerd is the path of the socket of containerd. "" disables it. Runtime and
	// Containerd exclude each other.
	Containerd string `json:"containerd_socket"`
	// Namespaces are the namespaces of containerd that are searched. Required with
	// Containerd. With CgroupParents exactly one, because the names of containers are
	// unique only within a namespace.
	Namespaces []string `json:"containerd_namespaces"`
	// Labels are the labels of the container that become selectors label/NAME. Needs
	// Runtime or Containerd.
	Labels []string `json:"labels"`

	// Proc is the path of procfs, default /proc. Now defaults to time.Now.
	Proc string           `json:"-"`
	Now  func() time.Time `json:"-"`
}

// Subject is what Identity.Subject identifies.
type Subject string

// The subjects. Each is unique until this machine reboots.
const (
	SubjectContainer Subject = "container"
	SubjectNetns     Subject = "netns"
	SubjectProcess   Subject = "process"
)

// Liveness is what Watch observes to detect the exit of a sandbox.
type Liveness string

// The values of Liveness.
const (
	LivenessProcess   Liveness = "process"   // the process that enrolled
	LivenessContainer Liveness = "container" // the last process of its cgroup (v2)
	// LivenessNamespace observes the init process of the process namespace of the
	// process that enrolled. The kernel kills all processes of a namespace when its init
	// process exits. ebb's own namespace cannot be observed in this way.
	LivenessNamespace Liveness = "namespace"
	LivenessNone      Liveness = "none"
)

const (
	maxLabels     = 32
	maxNamespaces = 16
)

// check fills in the defaults and returns all problems joined.
func (c *Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Name == "" {
		bad("name is empty; give the instance a name")
	}
	c.checkRequire(bad)
	if c.Subject == "" {
		c.Subject = c.defaultSubject()
	}
	if !slices.Contains([]Subject{SubjectContainer, SubjectNetns, SubjectProcess}, c.Subject) {
		bad("subject: %q is unknown; use container, netns or process", c.Subject)
	}
	if of := map[Subject]string{SubjectContainer: "container_id", SubjectNetns: "netns"}[c.Subject]; of != "" && !slices.Contains(c.Require, of) {
		bad("subject %s needs %s in require, because a process without %s would have no subject; add it", c.Subject, of, of)
	}
	if c.Liveness == "" {
		c.Liveness = c.defaultLiveness()
	}
	if !slices.Contains([]Liveness{LivenessContainer, LivenessProcess, LivenessNamespace, LivenessNone}, c.Liveness) {
		bad("liveness: %q is unknown; use process, namespace, container or none", c.Liveness)
	}
	for _, p := range c.CgroupParents {
		if p == "/" || !path.IsAbs(p) || path.Clean(p) != p {
			bad("cgroup_parents: %q is not an absolute path below the root cgroup; write a path such as /sandboxes", p)
		}
	}
	c.checkRuntime(bad)
	c.checkContainerd(bad)
	if len(errs) > 0 {
		return fmt.Errorf("attest/unixpeer %q: %w", c.Name, errors.Join(errs...))
	}
	return nil
}

func (c *Config) checkRequire(bad func(string, ...any)) {
	for _, name := range c.Require {
		label, isLabel := strings.CutPrefix(name, labelPrefix)
		switch {
		case isLabel && !slices.Contains(c.Labels, label):
			bad("require: %q needs the label %q in labels; add it there", name, label)
		case !isLabel && !slices.Contains(names, name):
			bad("require: there is no selector %q; the selectors are %s", name, strings.Join(names, ", "))
		case c.needs(name) != "":
			bad("require: selector %s needs %s; set it", name, c.needs(name))
		}
	}
	if !identifiesSandbox(c.Require) {
		bad("require must have a selector that identifies one sandbox: %s, or pid and start_time; uid alone fits every process of a user", strings.Join(unique, ", "))
	}
}

func (c *Config) checkRuntime(bad func(string, ...any)) {
	if c.Runtime != "" && !filepath.IsAbs(c.Runtime) {
		bad("runtime_socket is %q; it must be the absolute path of the socket of Docker or Podman, such as /var/run/docker.sock", c.Runtime)
	}
	if len(c.Labels) > 0 && c.Runtime == "" && c.Containerd == "" {
		bad("labels need runtime_socket or containerd_socket, because ebb reads labels from the container runtime; set one of them")
	}
	if len(c.Labels) > maxLabels || slices.ContainsFunc(c.Labels, func(l string) bool { return l == "" || len(l) > 100 }) {
		bad("labels: list at most %d labels, each of 1 to 100 bytes", maxLabels)
	}
}

func (c *Config) checkContainerd(bad func(string, ...any)) {
	switch {
	case c.Containerd == "" && len(c.Namespaces) > 0:
		bad("containerd_namespaces need containerd_socket; set it, or remove the namespaces")
	case c.Containerd == "":
		return
	case !filepath.IsAbs(c.Containerd):
		bad("containerd_socket is %q; it must be the absolute path of the socket of containerd, such as /run/containerd/containerd.sock", c.Containerd)
	case c.Runtime != "":
		bad("runtime_socket and containerd_socket are both set; configure one attestor for each runtime")
	}
	if len(c.Namespaces) == 0 || len(c.Namespaces) > maxNamespaces || slices.ContainsFunc(c.Namespaces, func(n string) bool { return !identifier(n) }) {
		bad("containerd_namespaces: list 1 to %d namespaces of containerd, such as k8s.io", maxNamespaces)
	}
	if len(c.Namespaces) > 1 && len(c.CgroupParents) > 0 {
		bad("containerd_namespaces: with cgroup_parents list exactly one, because the name of a container is unique only within its namespace")
	}
}

func (c *Config) defaultSubject() Subject {
	switch {
	case slices.Contains(c.Require, "container_id"):
		return SubjectContainer
	case slices.Contains(c.Require, "netns"):
		return SubjectNetns
	}
	return SubjectProcess
}

func (c *Config) defaultLiveness() Liveness {
	for _, name := range c.Require {
		switch name {
		case "container_id", "cgroup", "cgroup_id":
			return LivenessContainer
		}
	}
	if slices.Contains(c.Require, "pid") {
		return LivenessProcess
	}
	return LivenessNamespace
}

// Decode decodes the configuration of one instance from the configuration file. The
// caller then sets the members without a JSON name.
func Decode(raw json.RawMessage) (Config, error) { return attest.Decode[Config]("unixpeer", raw) }
