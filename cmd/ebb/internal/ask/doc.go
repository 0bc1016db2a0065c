// Package ask lets a process in a sandbox request, list and revoke credentials
// through its runner. The sandbox's private key stays with the runner. The
// sandbox only has a socket, and the runner acts in its name while the sandbox
// runs, so there is no key in the sandbox to steal.
//
//	wire.go     the messages on the socket
//	server.go   Serve: the side of the runner
//	flow.go     a response that waits for an approval
//	client.go   Client: the side of the sandbox, with the methods of client.Sandbox
package ask
