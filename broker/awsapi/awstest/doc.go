// Package awstest is what the AWSs of the tests share.
//
//	sign.go  Signed: is a request signed as AWS demands?
package awstest
