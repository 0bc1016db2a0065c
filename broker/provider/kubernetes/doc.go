// Package kubernetes mints tokens of service accounts by TokenRequest
// (https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/).
// Each token is bound to a Secret of its own: deleting the Secret ends the token.
//
//	config.go  Config: the service account of each action
//	api.go     the API server over plain HTTP: login, calls, classes of responses
//	driver.go  Driver: Check, Mint, Traits, Describe
//	claims.go  checks that the token's claims equal the request before it is issued
//	revoke.go  Revoke, Probe and List
//	setup.go   CheckSetup: problems of the broker's rights
//
// The Secret is empty. Its name follows from the lease, so that ebb finds it without having seen a
// response. The server refuses a TokenRequest after its Secret is deleted.
package kubernetes
