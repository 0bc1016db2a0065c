// Package kubernetes attests by the token of a service account that a kubelet
// projects into a pod, made for ebb's audience and bound to that pod.
//
//	config.go   Config, Decode for the configuration file
//	login.go    reads ebb's own credential for the API server from files that rotate
//	kubernetes.go New, and the steps of both modes: verify the token, make the Identity
//	claims.go   parses the claims under kubernetes.io
//	signed.go   mode jwks: checks the cluster's signature only
//	reviewed.go mode tokenreview: asks the API server about the token and the pod
//	api.go      sends requests to the API server and parses its errors
//	pod.go      reads a pod: whether it is alive, and its selectors
//	watch.go    Watch: waits for the end of a pod
//
// # Guarantees
//
// In both modes the issuer of the cluster has signed that the holder of the token runs as
// a service account in the pod with that name and UID. The token is made for this ebb
// and for at most max_lifetime. In mode tokenreview, that pod also exists, has not ended
// and is not being deleted, because ebb asks the API server about token and pod each
// time. A signature cannot prove that: until a token expires, its signature stays valid
// after its pod has been removed.
//
// An API server caches for 10 s that a token was valid, and accepts a token for one
// minute after its exp and after the deletionTimestamp of its pod. None of these
// tolerances applies here: ebb checks exp with its own clock, and reads the pod after
// the review.
//
// The token does not prove which container of the pod sends it, because every container
// that mounts the volume has the token.
//
// # Relation to the provider kubernetes
//
// The provider of the same name shares no code with this package. The provider writes,
// has to know after each request whether the server applied it, and waits while the
// server is busy. The attestor only reads, through package fetch like all attestors,
// and treats every unexpected response as no response. Only the sending of a request
// would be common.
package kubernetes
