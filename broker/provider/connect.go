package provider

import (
	"context"
	"crypto/x509"
	"net"
	"net/netip"

	"ebb/broker/exact"
	"ebb/scopes"
)

// PostgreSQL is the Protocol of an Endpoint that speaks PostgreSQL's, version 3.
const PostgreSQL = "postgresql"

// Endpoint is where the sessions are that a credential opens, as a sandbox calls it.
type Endpoint struct {
	Protocol string     `json:"protocol"` // PostgreSQL
	Host     exact.Host `json:"host"`     // and port; a name: addresses are none of a sandbox's
	Database string     `json:"database"`
}

// Connector is implemented by drivers whose credentials open sessions in a protocol of their
// own. The sandbox logs in at the egress proxy, and the proxy, with a session that the driver
// opens, at the provider: what passes then is not read.
type Connector interface {
	// Endpoint is where sessions for these scopes lead, all of which Check accepts; false:
	// egress cannot open any.
	Endpoint(scopes.Set) (at Endpoint, is bool)
	// Connect opens a session with the credential of a lease, in a way that nobody else can
	// read or answer. It works from what the broker remembers, so that any replica can do it
	// after any restart; that the lease is live is the caller's to know. It wraps ErrElsewhere
	// when the credential opens none, and ErrRefused or *BusyError when the provider says no.
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
