// Package ask is how a box asks for credentials, sees what it has and gives it back. The key that proves the sandbox stays with
// the runner: in the box is a socket, and what is asked there is asked in the sandbox's name
// while the box lives. There is nothing in the box that could be carried off.
//
//	wire.go     what goes over the socket
//	server.go   Serve: the runner's side
//	flow.go     an answer that waits for a person
//	client.go   Client: the box's side, used like the sandbox itself
package ask
