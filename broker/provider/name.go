package provider

import (
	"errors"
	"regexp"
	"strings"
)

// namePrefix begins every name that ebb gives to something at a provider.
const namePrefix = "ebb-"

// leasePrefix is how the broker's lease ids begin; it is left out of names, which
// some providers allow no underscore in.
const leasePrefix = "lse_"

// nameForm is ebb-<instance>-<lease>: 45 characters that are a DNS label (RFC
// 1123 section 2.1), a PostgreSQL identifier (at most 63 bytes), an STS session
// name ([\w+=,.@-]{2,64}) and a Kubernetes object name.
var nameForm = regexp.MustCompile(`^ebb-([0-9a-f]{8})-([0-9a-f]{32})$`)

// Name is what a driver calls the upstream object of a lease, so that it can be
// found again with the lease id alone and no other installation takes it for its
// own. It returns "" when either part has not the form of one.
func Name(instance, leaseID string) string {
	n := namePrefix + instance + "-" + strings.TrimPrefix(leaseID, leasePrefix)
	if !strings.HasPrefix(leaseID, leasePrefix) || !nameForm.MatchString(n) {
		return ""
	}
	return n
}

// Name returns the name of the grant's lease at the provider. It refuses a grant without a
// lifetime or without the parts of the name, because the object could not be found again.
func (g Grant) Name() (string, error) {
	n := Name(g.Instance, g.LeaseID)
	if n == "" || !g.ExpiresAt.After(g.IssuedAt) {
		return "", Refused("The grant is incomplete.", errors.New("no lease, no instance or no lifetime"))
	}
	return n, nil
}

// SavedName is Name for drivers that save a handle: a grant without Save is refused, too.
func (g Grant) SavedName() (string, error) {
	if g.Save == nil {
		return "", Refused("The grant is incomplete.", errors.New("nothing saves a handle"))
	}
	return g.Name()
}

// LeaseOf is the inverse of Name. ok is false for names of others.
func LeaseOf(instance, name string) (leaseID string, ok bool) {
	m := nameForm.FindStringSubmatch(name)
	if m == nil || m[1] != instance {
		return "", false
	}
	return leasePrefix + m[2], true
}
