// Package vaultapi is a client of Vault or OpenBao that is logged in: the ground
// that everything stands on which talks to one (providers vault and static,
// sealing keys).
//
//	config.go     Config: address, namespace, and how to log in
//	client.go     Client: Do as the broker, As somebody else; logs in again by itself
//	transport.go  what no answer can do: send the token elsewhere, go on for ever, write into the log
//	login.go      AppRole, JWT, Kubernetes, or a token in a file; wrapped secret ids
//	errors.go     what an answer means
package vaultapi
