package kubernetes

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"ebb/attest"
	"ebb/attest/jose"
)

// ref is an object that a token names.
type ref struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// token is what a token says of itself. Who vouches for it is the mode's business.
type token struct {
	namespace string
	account   ref
	pod       ref // zero: bound to no pod
	node      ref // its UID, and before 1.29 all of it, may be absent
	id        string
	digest    string
	expiry    time.Time
}

// username is what the API server calls the service account.
func (t token) username() string {
	return "system:serviceaccount:" + t.namespace + ":" + t.account.Name
}

// subject is unique within the cluster and the same for every token of one pod.
func (t token) subject() string {
	if t.pod.Name == "" {
		return "serviceaccount:" + t.namespace + "/" + t.account.Name + "/" + t.account.UID
	}
	return "pod:" + t.namespace + "/" + t.pod.Name + "/" + t.pod.UID
}

const maxSubdomain = 253

// A UID is opaque; what has been seen are UUIDs, and hashes for static pods.
var uidForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)

func subdomain(s string) bool { return len(s) <= maxSubdomain && subdomainForm.MatchString(s) }

// wellFormed says whether this could be a pod or a service account: the names go
// into the path of a request.
func (r ref) wellFormed() bool { return subdomain(r.Name) && uidForm.MatchString(r.UID) }

var errClaims = errors.New("kubernetes.io has no such form")

// readToken takes the claims of a service account's token apart.
func (g *gate) readToken(c *jose.Claims) (token, error) {
	var k struct {
		Namespace string `json:"namespace"`
		Account   ref    `json:"serviceaccount"`
		Pod       *ref   `json:"pod"`
		Node      *ref   `json:"node"`
	}
	const notOurs = "the token is none of a Kubernetes service account"
	if err := c.DecodeClaim("kubernetes.io", &k); err != nil {
		return token{}, attest.Reject(attest.ReasonClaims, notOurs, err)
	}
	t := token{namespace: k.Namespace, account: k.Account, id: c.ID, digest: c.Digest(), expiry: c.Expiry}
	if !labelForm.MatchString(k.Namespace) || !k.Account.wellFormed() || c.Subject != t.username() {
		return token{}, attest.Reject(attest.ReasonClaims, notOurs, errClaims)
	}
	if c.Has("cnf") { // nobody would check it
		return token{}, attest.Reject(attest.ReasonKeyBinding, "the token is bound to a key, which no token of a cluster is", nil)
	}
	if len(g.cfg.Namespaces) > 0 && !slices.Contains(g.cfg.Namespaces, t.namespace) {
		return token{}, attest.Reject(attest.ReasonClaims, "pods of this namespace are not accepted here", nil)
	}
	if k.Node != nil {
		t.node = *k.Node
		if !subdomain(t.node.Name) || t.node.UID != "" && !uidForm.MatchString(t.node.UID) {
			return token{}, attest.Reject(attest.ReasonClaims, notOurs, fmt.Errorf("node: %w", errClaims))
		}
	}
	switch {
	case k.Pod != nil && !k.Pod.wellFormed():
		return token{}, attest.Reject(attest.ReasonClaims, notOurs, fmt.Errorf("pod: %w", errClaims))
	case k.Pod != nil:
		t.pod = *k.Pod
	case !g.cfg.AllowUnbound:
		return token{}, attest.Reject(attest.ReasonClaims, "the token is not bound to a pod; mount one with a projected volume", nil)
	}
	return t, nil
}
