// Package ask lets a process in a sandbox request, list and revoke credentials
// through its runner. The sandbox's private key stays with the runner. The
// sandbox only has a socket, and the runner acts in its name while the sandbox
// runs, so there is no key in the sandbox to steal.
//
// Serve is the side of the runner, Client that of the sandbox, with the methods of client.Sandbox. A
// response that waits for an approval is polled by the runner.
package ask
