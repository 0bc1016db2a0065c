// Package cgroup gives a box a control group of its own (cgroups(7), version 2): a bound of memory,
// processor time and processes, and one word that ends all that is in it.
//
//	group.go   Make, Group: a group, its bounds, its end
//	place.go   where this process may make one
//	limits.go  Limits as the kernel reads them
//	other.go   none but on Linux
//
// A box is held apart by its namespaces, and not by this: where a process may make no group, there
// are boxes all the same.
package cgroup
