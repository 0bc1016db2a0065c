// Package awstest is what the AWSs of the tests share.
//
//	cloud.go  Serve and SecretFile: how tests reach one
//	sign.go   Signed: is a request signed as AWS demands?
package awstest
