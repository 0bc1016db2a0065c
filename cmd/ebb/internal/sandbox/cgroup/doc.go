// Package cgroup gives a sandbox a control group of its own (cgroups(7),
// version 2): limits of memory, processor time and processes, and cgroup.kill,
// which kills all its processes.
//
//	group.go   Make, Group: a group, its limits, its end
//	place.go   where this process may create one
//	limits.go  Limits in the format of the kernel
//	other.go   systems other than Linux: no group
//
// A sandbox is isolated by its namespaces, not by its cgroup: where this process may
// create no group, sandboxes still work.
package cgroup
