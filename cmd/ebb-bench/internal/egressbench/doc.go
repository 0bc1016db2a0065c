// Package egressbench measures the egress proxy of an ebb in a process of its own, and for
// comparison nginx and a bare proxy of net/http that add a header, with the same upstream.
//
//	bench.go     Config, Run: the measurements in their order
//	report.go    Row, Bound: the results, and the bounds that they must meet
//	ways.go      the ways from a client to the upstream: straight, by nginx, by net/http, by ebb
//	connect.go   the connections of a way
//	bare.go      a proxy of net/http that only sets a header
//	nginx.go     nginx as a process, and its configuration
//	upstream.go  the upstream server: small responses, large ones, events
//	requests.go  closed loops over all ways, in turn; h2.go the loop for HTTP/2
//	bodies.go    large bodies
//	tunnels.go   the memory of idle tunnels
//	revoke.go    the time until streams end after their credential is revoked
//	runs.go      the start-up time that `ebb run` adds to bubblewrap
//	spread.go    enough tasks and sandboxes for many connections
//	people.go    the task, its credential and its egress endpoints
//	process.go   processor time and memory of other processes, from /proc
//
// Each round measures all ways in turn, and medians over several rounds are reported,
// because the load of a machine changes within minutes.
package egressbench
