// Package kubernetes mints tokens of service accounts by TokenRequest
// (https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/).
// Each token is bound to a Secret of its own. Deleting the Secret revokes the token.
//
// Before a token is issued, its claims must equal the request. CheckSetup finds missing
// permissions of the broker.
//
// The Secret is empty. Its name follows from the lease, so that ebb finds it without having seen a
// response. The server refuses a TokenRequest after its Secret is deleted.
package kubernetes
