// Package kubetest gives tests a real Kubernetes API server, and helpers for tests with
// a fake one.
//
// A Cluster sends requests as the cluster's administrator and makes namespaces,
// accounts, roles, pods and tokens. A fake server uses the helpers that decode requests
// and write responses as an API server does.
package kubetest
