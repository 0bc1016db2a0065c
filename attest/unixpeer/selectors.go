package unixpeer

import (
	"fmt"
	"slices"
	"strings"
)

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
