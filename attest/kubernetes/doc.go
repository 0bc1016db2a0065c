// Package kubernetes attests by the token of a service account that a kubelet
// projects into a pod, made for ebb's audience and bound to that pod.
//
//	config.go   Config, Decode for the configuration file
//	login.go    ebb's own login at the API server, from files that rotate
//	kubernetes.go New, and what both modes do: the strict gate, the Identity
//	claims.go   what a token says of itself under kubernetes.io
//	signed.go   mode jwks: the cluster's signature, and nothing else
//	reviewed.go mode tokenreview: what the API server says of token and pod
//	api.go      calls to the API server and what their answers mean
//	pod.go      reading a pod: is it alive, what is there to know of it
//	watch.go    Watch: a pod that ends
//
// # What it proves
//
// In both modes: the cluster's issuer signed, for this ebb, for not longer than
// max_lifetime, that whoever holds the token runs as a service account in a pod
// of that name and UID. In mode tokenreview also that this pod exists, has not
// ended and is not being deleted: the API server is asked for token and pod each
// time. The signature alone cannot tell: a token whose pod is gone is good, by
// its signature, until it expires.
//
// An API server remembers for 10 s that a token was good, and lets one pass for a
// minute after its exp and after its pod's deletionTimestamp. None of the three
// counts here: exp is judged by ebb's own clock, and the pod is read after the
// review.
//
// Which container of the pod asks it does not prove: all that mount the volume
// can.
//
// # Why there is no code in common with the provider of that name
//
// The driver writes, needs to know after each call what the server has done, and
// waits where the server is busy. The attestor reads, through package fetch as
// all attestors do, and takes every answer that it does not know for no answer.
// What they would share is the sending of a request.
package kubernetes
