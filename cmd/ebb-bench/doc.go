// Command ebb-bench measures an ebb: the load generator and the benchmarks, apart
// from the product. It calls ebb only over HTTP and starts the ebb program for
// `ebb serve` and `ebb run`; it contains no part of the server.
//
//	main.go          the command line, and the ebb program to measure
//	bench.go         ebb-bench: mint, introspection, offline verification, completion
//	server.go        an ebb in a process of its own, its configuration and principals
//	egress.go        ebb-bench egress
//	egress_parts.go  the upstream, the proxy and the ebb that it starts
//	vault.go         ebb-bench vault: a Vault or OpenBao, for comparison
//
//	internal/load         the closed-loop HTTP load generator
//	internal/bench        the measurements of ebb-bench
//	internal/egressbench  the measurements of ebb-bench egress
//	internal/vaultbench   the measurements of ebb-bench vault
package main
