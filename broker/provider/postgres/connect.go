package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// maxLogin is the maximum size in bytes of a server's message before the session is open.
const maxLogin = 1 << 20

// reach returns the host at which egress finds the server: the one for sandboxes, with the
// same name and mode. It returns the zero value if egress must open no sessions, because there
// is no host name or because the connection could be intercepted.
func (c Config) reach(host, port string, own *pgconn.Config) stricturl.Host {
	at, err := stricturl.ParseHost(net.JoinHostPort(host, port), 0)
	if err != nil || c.SSLMode != "verify-full" && (c.SSLMode != "disable" || !local(own.Host, own.Port)) {
		return stricturl.Host{}
	}
	return at
}

// Endpoint implements provider.Connector.
func (d *Driver) Endpoint(s scopes.Set) (at provider.Endpoint, is bool) {
	database, _, err := d.groups(s)
	if err != nil || d.at.Port == 0 {
		return provider.Endpoint{}, false
	}
	return provider.Endpoint{Protocol: provider.PostgreSQL, Host: d.at, Database: database}, true
}

// ScopesAt implements provider.Connector.
func (d *Driver) ScopesAt(name string, at provider.Endpoint) []scopes.Scope {
	return provider.Grants[string](d.cfg.Databases).Fitting(name, func(s scopes.Set) bool {
		leads, is := d.Endpoint(s)
		return is && leads == at
	})
}

// Connect implements provider.Connector. The password is never sent: the server and ebb prove to
// each other that they know it (SCRAM, RFC 5802). Any other authentication method is refused.
func (d *Driver) Connect(ctx context.Context, t provider.Target, o provider.Opening) (provider.Session, error) {
	at, is := d.Endpoint(t.Scopes)
	if !is {
		return provider.Session{}, provider.Elsewhere("sessions of this provider are not opened by egress")
	}
	h, err := of(t)
	if err != nil {
		return provider.Session{}, err
	}
	if h.Password == "" {
		return provider.Session{}, provider.Elsewhere("the lease holds no password")
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	c := d.session(at, h, o)
	var judge func(content.Facts) *provider.UncoveredError
	if allowed, read := d.cfg.statements(t.Scopes); read {
		judge = d.judge(t.Scopes, allowed)
		if readsOnly(allowed) { // a view or an operator can write where a statement only reads
			c.RuntimeParams["default_transaction_read_only"] = "on"
		}
	}
	build, from := c.BuildFrontend, io.Reader(nil)
	c.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend { from = r; return build(r, w) }
	conn, err := pgconn.ConnectConfig(ctx, c)
	if err != nil {
		return provider.Session{}, refusal(fmt.Errorf("postgres: opening a session: %w", err))
	}
	hijacked, err := conn.Hijack()
	if err != nil {
		return provider.Session{}, errors.Join(err, conn.Close(ctx))
	}
	hijacked.Config.BuildFrontend = build
	return provider.Session{
		Conn: opened{hijacked.Conn, from}, Parameters: maps.Clone(hijacked.ParameterStatuses), ProcessID: hijacked.PID,
		Cancel: func(ctx context.Context) error {
			again := *hijacked
			c, err := pgconn.Construct(&again)
			if err != nil {
				return err
			}
			return c.CancelRequest(ctx)
		},
		Judge: judge,
	}, nil
}

// opened reads through the reader of pgconn. During a slow write of the login, pgconn reads in
// the background, and that reader may already have the first bytes of the session.
type opened struct {
	net.Conn
	from io.Reader
}

// Read implements net.Conn.
func (o opened) Read(p []byte) (int, error) { return o.from.Read(p) }

// session returns the configuration of one session for egress. Of the broker's own connections
// it uses only the CA that the operator trusts for this server.
func (d *Driver) session(at provider.Endpoint, h handle, o provider.Opening) *pgconn.Config {
	c := d.pool.Config().ConnConfig.Config.Copy()
	roots := o.Roots
	if c.TLSConfig != nil && c.TLSConfig.RootCAs != nil {
		roots = c.TLSConfig.RootCAs
	}
	c.Host, c.Port, c.Database, c.User, c.Password = at.Host.Name, at.Host.Port, at.Database, h.Role, h.Password
	c.Fallbacks, c.ValidateConnect, c.AfterConnect, c.AfterNetConnect = nil, nil, nil, nil
	c.RequireAuth, c.MinProtocolVersion, c.MaxProtocolVersion, c.MaxProtocolMessageBodyLen = "scram-sha-256", "3.0", "3.0", maxLogin
	c.SSLNegotiation, c.SSLCertMode, c.ConnectTimeout = "postgres", "", callTime
	c.RuntimeParams = maps.Clone(o.Parameters)
	c.TLSConfig = d.tls(at.Host, roots)
	c.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	c.DialFunc = func(ctx context.Context, _, address string) (net.Conn, error) {
		to, _ := netip.ParseAddrPort(address) // the address of the server at which a query is cancelled; zero otherwise, and Dial uses the name
		conn, err := o.Dial(ctx, to)
		if err == nil && c.TLSConfig == nil && !loopback(conn) {
			return nil, errors.Join(errors.New("sslmode disable, and the server is not on this machine"), conn.Close())
		}
		return conn, err
	}
	c.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		return pgproto3.NewFrontend(&byMessage{r: r}, w)
	}
	return c
}

// tls returns the TLS configuration that verifies the server; nil when TLS is disabled.
func (d *Driver) tls(at stricturl.Host, roots *x509.CertPool) *tls.Config {
	if d.cfg.SSLMode == "disable" {
		return nil
	}
	return &tls.Config{RootCAs: roots, ServerName: at.Name, MinVersion: tls.VersionTLS12}
}

func loopback(c net.Conn) bool {
	at, is := c.RemoteAddr().(*net.TCPAddr)
	return is && at.IP.IsLoopback()
}

// refusal converts an error of a login.
func refusal(err error) error {
	switch code(err) {
	case tooManyConns:
		return &provider.BusyError{After: time.Second, Cause: err}
	case badPassword, badAuthorization:
		return provider.Refused("The database does not know the credential any more. Ask for another.", err)
	}
	return err
}

// byMessage never reads beyond the end of a message. The bytes after the message that opens
// the session are for the new owner of the connection.
type byMessage struct {
	r    io.Reader
	head [5]byte // type and length
	had  int     // bytes of head
	left int     // bytes of the message after it
}

// Read implements io.Reader.
func (m *byMessage) Read(p []byte) (int, error) {
	if m.left > 0 {
		n, err := m.r.Read(p[:min(len(p), m.left)])
		m.left -= n
		return n, err
	}
	n, err := m.r.Read(p[:min(len(p), len(m.head)-m.had)])
	m.had += copy(m.head[m.had:], p[:n])
	if m.had == len(m.head) {
		m.had, m.left = 0, max(int(binary.BigEndian.Uint32(m.head[1:]))-4, 0)
	}
	return n, err
}
