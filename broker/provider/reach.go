package provider

import (
	"ebb/broker/exact"
	"ebb/scopes"
)

// SSH is the protocol of the hosts that a Reacher is for (RFC 4251).
const SSH = "ssh"

// Reacher is implemented by drivers whose credentials are for hosts that are reached by SSH, in
// which the sandbox proves itself and egress reads nothing: egress carries connections to these
// hosts while the credential lives.
type Reacher interface {
	// Reaches reports whether scopes, all of which Check accepts, are for a host.
	Reaches(scopes.Set, exact.Host) bool
}
