// Package awskeys says a credential in the words of AWS's clients.
//
//	keys.go     Keys: a credential as an access key; what credential_process says
//	server.go   Serve: what SDKs ask for under AWS_CONTAINER_CREDENTIALS_FULL_URI
package awskeys
