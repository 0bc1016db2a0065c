package kubernetes

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
)

// ref is the name and UID of an object in a token.
type ref struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// token has the claims of a service account token. It may be unverified; the mode
// verifies it.
type token struct {
	namespace string
	account   ref
	pod       ref // zero when the token is not bound to a pod
	node      ref // the UID may be absent; before Kubernetes 1.29 all of it
	id        string
	digest    string
	expiry    time.Time
}

// username returns the service account's user name at the API server.
func (t token) username() string {
	return "system:serviceaccount:" + t.namespace + ":" + t.account.Name
}

// subject returns the Subject. It is unique within the cluster and the same for every
// token of one pod.
func (t token) subject() string {
	if t.pod.Name == "" {
		return "serviceaccount:" + t.namespace + "/" + t.account.Name + "/" + t.account.UID
	}
	return "pod:" + t.namespace + "/" + t.pod.Name + "/" + t.pod.UID
}

const maxSubdomain = 253

// uidForm matches UIDs. A UID is opaque; observed values are UUIDs, and hashes for
// static pods.
var uidForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)

func subdomain(s string) bool { return len(s) <= maxSubdomain && subdomainForm.MatchString(s) }

// wellFormed reports whether r can be a pod or a service account. The name becomes part
// of a request's path.
func (r ref) wellFormed() bool { return subdomain(r.Name) && uidForm.MatchString(r.UID) }

var errClaims = errors.New("the claim kubernetes.io does not have the documented form")

// readToken parses the claims of a service account token.
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
	if c.Has("cnf") { // no code here would verify the binding
		return token{}, attest.Reject(attest.ReasonKeyBinding, "the token is bound to a key (cnf), but service account tokens never are", nil)
	}
	if len(g.cfg.Namespaces) > 0 && !slices.Contains(g.cfg.Namespaces, t.namespace) {
		return token{}, attest.Reject(attest.ReasonClaims, "the namespace of the pod is not one that is configured for this attestor", nil)
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
