// Package kubernetes attests by the token of a service account that a kubelet
// projects into a pod, made for ebb's audience and bound to that pod.
//
// In mode jwks the Attestor checks only the cluster's signature. In mode tokenreview it
// asks the API server about the token and reads the pod. It authenticates to the API
// server with files that rotate. The claims under kubernetes.io name the pod. Watch waits
// for the end of a pod.
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
