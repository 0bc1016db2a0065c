package provider

import (
	"context"
	"crypto/fips140"
	"crypto/x509"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// PostgreSQL is the Protocol of an Endpoint that speaks PostgreSQL's, version 3.
const PostgreSQL = "postgresql"

// Endpoint is where the sessions are that a credential opens, as a sandbox calls it.
type Endpoint struct {
	Protocol string         `json:"protocol"` // PostgreSQL
	Host     stricturl.Host `json:"host"`     // and port; a name: addresses are none of a sandbox's
	Database string         `json:"database"`
}

// Connector is implemented by drivers whose credentials open sessions in a protocol of their
// own. The sandbox logs in at the egress proxy, and the proxy, with a session that the driver
// opens, at the provider: what passes then is not read.
type Connector interface {
	// Endpoint is where sessions for these scopes lead, all of which Check accepts; false:
	// egress cannot open any.
	Endpoint(scopes.Set) (at Endpoint, is bool)
	// ScopesAt returns the scopes of the provider of this name, each of which alone has this Endpoint.
	ScopesAt(name string, at Endpoint) []scopes.Scope
	// Connect opens a session with the credential of a lease, encrypted and authenticated end to
	// end. It uses only the stored Target, so that any replica can do it after any restart. The
	// caller checks that the lease is live. The error wraps ErrElsewhere if the credential is not
	// for this session, and ErrRefused or *BusyError if the provider refuses.
	Connect(context.Context, Target, Opening) (Session, error)
}

// Opening is how a session is opened.
type Opening struct {
	// Dial connects to the Endpoint: by its name, or to the one address of it that is given.
	Dial func(ctx context.Context, at netip.AddrPort) (net.Conn, error)
	// Roots verify the provider where its configuration names none; nil = the machine's.
	Roots *x509.CertPool
	// Parameters are settings that the sandbox chose, of a fixed set of names.
	Parameters map[string]string
}

// Session is one that is open, and in which nothing has been said yet.
type Session struct {
	Conn       net.Conn
	Parameters map[string]string // what the provider says of itself
	ProcessID  uint32            // its name for the session
	// Cancel asks the provider to give up what the session is doing.
	Cancel func(context.Context) error
}

// SSH is the protocol of the hosts that a Reacher is for (RFC 4251).
const SSH = "ssh"

// Reacher is implemented by drivers whose credentials are for hosts that are reached by SSH, in
// which the sandbox proves itself and egress reads nothing: egress carries connections to these
// hosts while the credential lives.
type Reacher interface {
	// Reaches reports whether scopes, all of which Check accepts, are for a host.
	Reaches(scopes.Set, stricturl.Host) bool
}

// RequireAuth returns the value of require_auth with which ebb connects to a PostgreSQL server:
// what the URL says, without MD5 under GODEBUG=fips140=only. There pgx would panic when a
// server asks for it.
func RequireAuth(configured string) string {
	if !fips140.Enforced() {
		return configured
	}
	methods := slices.DeleteFunc(strings.Split(strings.ReplaceAll(configured, " ", ""), ","), func(m string) bool { return strings.TrimPrefix(m, "!") == "md5" || m == "" })
	if len(methods) == 0 || strings.HasPrefix(methods[0], "!") {
		methods = append(methods, "!md5")
	}
	return strings.Join(methods, ",")
}
