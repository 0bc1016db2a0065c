package provider

import (
	"context"
	"crypto/fips140"
	"crypto/x509"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// PostgreSQL is the Protocol of an Endpoint for version 3 of PostgreSQL's protocol.
const PostgreSQL = "postgresql"

// Endpoint is the server for sessions that a credential opens, as a sandbox addresses it.
type Endpoint struct {
	Protocol string         `json:"protocol"` // PostgreSQL
	Host     stricturl.Host `json:"host"`     // name and port; a sandbox may not use addresses
	Database string         `json:"database"`
}

// Connector is implemented by drivers whose credentials open sessions in a protocol other
// than HTTP. The sandbox logs in at the egress proxy. The proxy forwards the session to one
// that the driver opens at the provider. It parses the client's statements only for Session.Judge.
type Connector interface {
	// Endpoint returns the server for sessions with these scopes, all of which Check
	// accepts. is is false when egress cannot open any.
	Endpoint(scopes.Set) (at Endpoint, is bool)
	// ScopesAt returns the scopes of the provider of this name, each of which alone has this Endpoint.
	ScopesAt(name string, at Endpoint) []scopes.Scope
	// Connect opens a session with the credential of a lease, encrypted and authenticated end to
	// end. It uses only the stored Target, so that any replica can do it after any restart. The
	// caller checks that the lease is live. The error wraps ErrElsewhere if the credential is not
	// for this session, and ErrRefused or *BusyError if the provider refuses.
	Connect(context.Context, Target, Opening) (Session, error)
}

// Opening has the parameters of a new session.
type Opening struct {
	// Dial connects to the Endpoint: by its name, or to one given address of it.
	Dial func(ctx context.Context, at netip.AddrPort) (net.Conn, error)
	// Roots verify the provider when its configuration has none; nil means the system's
	// roots.
	Roots *x509.CertPool
	// Parameters are settings that the sandbox chose, from a fixed set of names.
	Parameters map[string]string
}

// Session is an open session in which no query has been sent.
type Session struct {
	Conn       net.Conn
	Parameters map[string]string // the provider's parameters
	ProcessID  uint32            // the provider's id for the session
	// Cancel asks the provider to cancel the session's current query.
	Cancel func(context.Context) error
	// Judge decides about the statements of a text before the provider receives them. It returns nil to
	// allow them. Needed of the error has the scopes of a lease for a denied text that people approve;
	// empty = no lease can be for it. A nil Judge means that the proxy does not read the session.
	Judge func(content.Facts) *UncoveredError
}

// SessionJudge is a Connector whose sessions can have a Judge.
type SessionJudge interface {
	// JudgesSessions reports whether sessions with these scopes, all of which Check accepts, have a
	// Judge. People can then approve one text that it denies.
	JudgesSessions(scopes.Set) bool
}

// SSH is the protocol of the hosts of a Reacher (RFC 4251).
const SSH = "ssh"

// Reacher is implemented by drivers whose credentials are for hosts that are reached by SSH.
// The sandbox authenticates itself within SSH, and egress does not parse it: egress forwards
// connections to these hosts while the credential is valid.
type Reacher interface {
	// Reaches reports whether scopes, all of which Check accepts, are for a host.
	Reaches(scopes.Set, stricturl.Host) bool
}

// RequireAuth returns the value of require_auth with which ebb connects to a PostgreSQL
// server: that of the URL, without MD5 under GODEBUG=fips140=only. In that mode pgx would
// panic when a server requests MD5.
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
