// Package egressbench measures the egress proxy of an ebb that runs as a process of its
// own, beside nginx and a bare proxy of net/http that add a header, with one upstream behind both.
//
//	bench.go     Config, Run: the measurements in their order
//	report.go    Row, Bound: what was measured, and beside what it is held
//	ways.go      the ways from a client to the upstream: straight, by nginx, by net/http, by ebb
//	connect.go   connections that they take
//	bare.go      a proxy of net/http that only sets a header
//	nginx.go     nginx as a process, and its configuration
//	upstream.go  the server behind all of them: small answers, large ones, events
//	requests.go  closed loops over all ways, in turn; h2.go the loop for HTTP/2
//	bodies.go    large bodies
//	tunnels.go   what tunnels cost that nobody uses
//	revoke.go    how soon streams end whose credential is revoked
//	runs.go      what `ebb run` adds to bubblewrap
//	spread.go    many connections, of tasks and boxes enough
//	people.go    the task, its credential and its boxes
//	process.go   processor time and memory of other processes, as Linux says
//
// Ways are measured in turn and not one after the other, several rounds of all of them, and
// medians are reported: the load of a machine changes in minutes.
package egressbench
