// Package vaulttest sets up a real Vault for a test, as the documentation describes for
// operators.
//
// vaulttest.go  Server, its mounts and policies, an AppRole for the broker
// proxy.go      Proxy: a TCP connection that can be cut, to test failures
package vaulttest
