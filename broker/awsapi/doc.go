// Package awsapi makes the SDK configuration for calls to AWS with ebb's own credentials. Calls
// have a timeout and retries, response bodies have a size limit, and only credentials come from
// the SDK's configuration.
//
//	client.go     Config, and the SDK configuration from it; adds error codes to responses of Ceph
//	              RGW
//	reply.go      classifies errors of AWS
package awsapi
