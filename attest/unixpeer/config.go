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

	"ebb/attest"
)

// Config configures one instance.
type Config struct {
	// Name of the instance. Required.
	Name string `json:"-"`
	// Require lists selectors that every piece of evidence must have and every
	// registration must name. At least one must tell sandboxes apart:
	// container_id, cgroup_id, cgroup, netns, or pid together with start_time.
	// Required.
	Require []string `json:"require"`
	// Subject says what is one sandbox: SubjectContainer, SubjectNetns or
	// SubjectProcess. Default: the first of these that Require names, container_id
	// before netns before the process.
	Subject Subject `json:"subject"`
	// Liveness says whose end is the sandbox's. Default: LivenessContainer when
	// Require names a container or a cgroup, LivenessProcess when it names a pid,
	// otherwise LivenessNamespace.
	Liveness Liveness `json:"liveness"`
	// CgroupParents are cgroups each of whose children is a container named like
	// it, for runners of one's own: "/sandboxes".
	CgroupParents []string `json:"cgroup_parents"`
	// Nested accepts containers in containers, which are then all the outermost.
	Nested bool `json:"nested"`
	// ExeDigest reads the program of the process, at most 128 MiB.
	ExeDigest bool `json:"exe_digest"`
	// Runtime is the path of the socket of Docker or Podman, "" = ask nobody.
	Runtime string `json:"runtime_socket"`
	// Containerd is the path of the socket of containerd, "" = ask it nothing. Not
	// together with Runtime.
	Containerd string `json:"containerd_socket"`
	// Namespaces of containerd to look in, and in no other. Required with Containerd;
	// with CgroupParents one only: names are unique within a namespace.
	Namespaces []string `json:"containerd_namespaces"`
	// Labels of the container that become selectors label/NAME. Needs Runtime or
	// Containerd.
	Labels []string `json:"labels"`

	// Proc is where procfs is, "" = /proc. Now is the clock, nil = time.Now.
	Proc string           `json:"-"`
	Now  func() time.Time `json:"-"`
}

// Subject is what Identity.Subject names.
type Subject string

// The subjects. Each is unique for this boot of this machine.
const (
	SubjectContainer Subject = "container"
	SubjectNetns     Subject = "netns"
	SubjectProcess   Subject = "process"
)

// Liveness is whose end is the sandbox's.
type Liveness string

// The ways to see a sandbox die.
const (
	LivenessProcess   Liveness = "process"   // the process that enrolled
	LivenessContainer Liveness = "container" // the last process of its cgroup (v2)
	// The first process of the process namespace of the one that enrolled: with it
	// the kernel ends all of them. ebb's own namespace has no such end.
	LivenessNamespace Liveness = "namespace"
	LivenessNone      Liveness = "none"
)

const (
	maxLabels     = 32
	maxNamespaces = 16
)

// check reports all problems at once and fills in the defaults.
func (c *Config) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Name == "" {
		bad("name is empty")
	}
	c.checkRequire(bad)
	if c.Subject == "" {
		c.Subject = c.defaultSubject()
	}
	if !slices.Contains([]Subject{SubjectContainer, SubjectNetns, SubjectProcess}, c.Subject) {
		bad("subject: %q is none of container, netns and process", c.Subject)
	}
	if of := map[Subject]string{SubjectContainer: "container_id", SubjectNetns: "netns"}[c.Subject]; of != "" && !slices.Contains(c.Require, of) {
		bad("subject %s needs %s in require: a process without one has no subject", c.Subject, of)
	}
	if c.Liveness == "" {
		c.Liveness = c.defaultLiveness()
	}
	if !slices.Contains([]Liveness{LivenessContainer, LivenessProcess, LivenessNamespace, LivenessNone}, c.Liveness) {
		bad("liveness: %q is none of process, namespace, container and none", c.Liveness)
	}
	for _, p := range c.CgroupParents {
		if p == "/" || !path.IsAbs(p) || path.Clean(p) != p {
			bad("cgroup_parents: %q is not an absolute path below the root of cgroups, such as /sandboxes", p)
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
			bad("require: %q is of no label that labels names", name)
		case !isLabel && !slices.Contains(names, name):
			bad("require: there is no selector %q; there are %s", name, strings.Join(names, ", "))
		case c.needs(name) != "":
			bad("require: %s needs %s", name, c.needs(name))
		}
	}
	if !tellsApart(c.Require) {
		bad("require must name what tells one sandbox from another: %s, or pid and start_time; uid alone fits every process of a user", strings.Join(unique, ", "))
	}
}

func (c *Config) checkRuntime(bad func(string, ...any)) {
	if c.Runtime != "" && !filepath.IsAbs(c.Runtime) {
		bad("runtime_socket must be the absolute path of the socket of Docker or Podman, such as /var/run/docker.sock")
	}
	if len(c.Labels) > 0 && c.Runtime == "" && c.Containerd == "" {
		bad("labels need runtime_socket or containerd_socket: only the container runtime knows them")
	}
	if len(c.Labels) > maxLabels || slices.ContainsFunc(c.Labels, func(l string) bool { return l == "" || len(l) > 100 }) {
		bad("labels: name at most %d, each of 1 to 100 bytes", maxLabels)
	}
}

func (c *Config) checkContainerd(bad func(string, ...any)) {
	switch {
	case c.Containerd == "" && len(c.Namespaces) > 0:
		bad("containerd_namespaces need containerd_socket")
	case c.Containerd == "":
		return
	case !filepath.IsAbs(c.Containerd):
		bad("containerd_socket must be the absolute path of the socket of containerd, such as /run/containerd/containerd.sock")
	case c.Runtime != "":
		bad("runtime_socket and containerd_socket are two runtimes: make an attestor for each")
	}
	if len(c.Namespaces) == 0 || len(c.Namespaces) > maxNamespaces || slices.ContainsFunc(c.Namespaces, func(n string) bool { return !identifier(n) }) {
		bad("containerd_namespaces: name 1 to %d of containerd's namespaces, such as k8s.io", maxNamespaces)
	}
	if len(c.Namespaces) > 1 && len(c.CgroupParents) > 0 {
		bad("containerd_namespaces: with cgroup_parents name one: a container's name is unique only within it")
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

// Decode reads the part of the configuration file that belongs to one instance. The
// caller sets Name and what is borrowed.
func Decode(raw json.RawMessage) (Config, error) { return attest.Decode[Config]("unixpeer", raw) }
