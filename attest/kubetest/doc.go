// Package kubetest gives tests a real Kubernetes API server, and helpers for tests with
// a fake one.
//
//	cluster.go  Cluster: requests as its administrator
//	objects.go  makes namespaces, accounts, roles, pods and tokens
//	wire.go     decodes requests and writes responses as an API server does
package kubetest
