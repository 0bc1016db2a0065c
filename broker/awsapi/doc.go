// Package awsapi is how ebb calls AWS as itself: it gives up in time, tries again
// what ended early, reads no answer without an end, and takes nothing from the
// SDK's configuration but credentials.
//
//	client.go     Config and the SDK's configuration made of it
//	transport.go  refusals of Ceph RGW get a code
//	reply.go      what an error of AWS says
package awsapi
