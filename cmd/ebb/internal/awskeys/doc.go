// Package awskeys converts credentials to the formats of AWS clients.
//
//	keys.go     Keys: a credential as an access key, and as output of credential_process
//	server.go   Serve: the endpoint that SDKs call under AWS_CONTAINER_CREDENTIALS_FULL_URI
package awskeys
