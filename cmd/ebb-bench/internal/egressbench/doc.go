// Package egressbench measures the egress proxy of an ebb in a process of its own, and for
// comparison nginx and a bare proxy of net/http that add a header, with the same upstream.
//
// Run makes the measurements in their order. Closed loops of small and large requests go all ways
// from a client to the upstream: straight, by nginx, by net/http and by ebb. Further measurements
// are the memory of idle tunnels, the time until streams end after their credential is revoked, and
// the start-up time that `ebb run` adds to bubblewrap. Each Row is compared with the Bound that it
// must meet. Processor time and memory of other processes are read from /proc.
//
// Each round measures all ways in turn, and medians over several rounds are reported,
// because the load of a machine changes within minutes.
package egressbench
