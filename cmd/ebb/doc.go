// Command ebb is the broker, its command line client, its guided tour and its
// bench, in one binary.
//
//	main.go          the command tree, exit codes, how an error is shown
//	wire.go          the whole object graph of the server, from top to bottom
//	serve.go         ebb serve: config, wire, listen, run, shut down
//
// The tests beside it hold the house together: layers_test.go (who may import
// whom), exits_test.go (who may take a secret out of custody), script_test.go
// (txtar scripts against the built binary).
package main
