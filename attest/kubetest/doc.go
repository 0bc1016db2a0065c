// Package kubetest is a real API server for the tests of whoever speaks to one, and
// the words of one for tests that stand in for it.
//
//	cluster.go  Cluster: what its administrator does
//	objects.go  what tests need in it: namespaces, accounts, roles, pods, tokens
//	wire.go     how a server reads and answers
package kubetest
