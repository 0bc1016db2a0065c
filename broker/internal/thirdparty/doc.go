// Package thirdparty holds this process's state of each provider outside of ebb: its limits and
// circuit breakers, running calls, the number of live credentials there, and revocation handles
// that are not stored yet. Minting and revoking share it.
package thirdparty
