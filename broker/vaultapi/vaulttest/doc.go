// Package vaulttest sets up a real Vault for a test, the way the documentation
// tells an operator to.
//
//	vaulttest.go  Server, its mounts and policies, an AppRole for the broker
//	proxy.go      Proxy: a TCP connection that can be cut, to break what is behind it
package vaulttest
