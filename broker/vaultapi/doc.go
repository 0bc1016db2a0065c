// Package vaultapi is a client of Vault or OpenBao that logs in and renews its login. The
// providers vault and static and the sealing key in the transit engine use it.
//
//	config.go     Config: address, namespace, and login method
//	client.go     Client: Do with the broker's token, As with another one; logs in again
//	transport.go  refuses redirects, bounds responses, keeps foreign texts out of the log
//	login.go      AppRole, JWT, Kubernetes, or a token in a file; wrapped secret ids
//	errors.go     classifies responses
package vaultapi
