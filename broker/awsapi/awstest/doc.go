// Package awstest has what the fake AWS servers of the tests share.
//
// cloud.go  Serve and SecretFile: a server, and a file with a secret
// sign.go   Signed: checks the signature of a request as AWS does
package awstest
