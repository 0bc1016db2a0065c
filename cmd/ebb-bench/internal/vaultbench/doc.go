// Package vaultbench measures a Vault or an OpenBao, which has the same API, as
// package bench measures ebb: with package load, at 1, 16 and 64 clients, and with
// rows of the same JSON. .ci/peers/README.md names the operations that are compared.
//
//	bench.go   Run: tokens created and looked up
//	revoke.go  a parent with children is revoked
package vaultbench
