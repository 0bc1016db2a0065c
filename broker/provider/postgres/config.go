package postgres

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ebb-broker/ebb/attest/fetch"
	"github.com/ebb-broker/ebb/attest/lazyregexp"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// Config is the provider's part of the configuration.
type Config struct {
	// URL is the URL by which the broker's own role reaches the server, without a password.
	// Unless the server is on this machine, the connection must use verified TLS:
	// postgres://ebb@db.internal:5432/postgres?sslmode=verify-full.
	URL          string `json:"url"`
	PasswordFile string `json:"password_file,omitempty"`
	// Address is the host:port by which a sandbox reaches the server; "" means that of URL.
	Address string `json:"address,omitempty"`
	// SSLMode is libpq's sslmode in the credentials of sandboxes; "" means verify-full.
	SSLMode string `json:"sslmode,omitempty"`
	// Databases maps a database to its actions, and an action to the NOLOGIN group role that
	// has its rights: {orders: {read: orders_ro, write: orders_rw}}.
	Databases map[string]map[string]string `json:"databases"`
	// Statements maps an action to the statements that its sessions through egress may use:
	// {read: [read], write: [read, insert, "update public.orders"]}. Without an entry for each action of a
	// lease, egress does not read its sessions, and the group role alone limits them. See
	// statementNames.
	Statements map[string][]string `json:"statements,omitempty"`
	// Owner is the role that receives the tables and sequences of a lease's role when that is
	// dropped; "" means that they are dropped with all its other objects. It must not be a
	// group role, because other leases would then own these tables.
	Owner string `json:"owner,omitempty"`
	// Connections is the maximum number of open sessions of one lease; 0 means 4.
	Connections int `json:"connections,omitempty"`
}

const (
	maxConnections = 1000
	// callTime is the maximum duration of one Mint or Revoke.
	callTime = 15 * time.Second
	poolSize = 16
)

var (
	// databaseForm matches a database name, which is one segment of a scope. roleForm matches
	// a role name that needs only double quotes as an identifier.
	databaseForm = lazyregexp.New(`^[A-Za-z0-9._~@+=,-]{1,63}$`)
	roleForm     = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_$ .@-]{0,62}$`)
)

// check returns all problems joined.
func (c Config) check() error {
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	if len(c.Databases) == 0 {
		bad("databases: name at least one database and its actions")
	}
	for _, db := range slices.Sorted(maps.Keys(c.Databases)) {
		if !databaseForm.MatchString(db) || db == "." || db == ".." {
			bad("databases: %q cannot be part of a scope", db)
		}
		if len(c.Databases[db]) == 0 {
			bad("databases.%s: name at least one action and its group role", db)
		}
		for _, action := range slices.Sorted(maps.Keys(c.Databases[db])) {
			if !provider.ValidAction(action) {
				bad("databases.%s: %q is not an action", db, action)
			}
			if role := c.Databases[db][action]; !roleForm.MatchString(role) || reserved(role) {
				bad("databases.%s.%s: %q is not the name of a group role", db, action, role)
			}
		}
	}
	if c.Owner != "" && (!roleForm.MatchString(c.Owner) || reserved(c.Owner)) {
		bad("owner: %q is not the name of a role", c.Owner)
	}
	for _, db := range slices.Sorted(maps.Keys(c.Databases)) {
		if slices.Contains(slices.Collect(maps.Values(c.Databases[db])), c.Owner) {
			bad("owner: %q is a group role of databases.%s: its members would own what other leases left; name a NOLOGIN role of its own", c.Owner, db)
		}
	}
	if err := c.checkStatements(); err != nil {
		errs = append(errs, err)
	}
	if c.Connections < 0 || c.Connections > maxConnections {
		bad("connections: must be 1 to %d", maxConnections)
	}
	switch c.SSLMode {
	case "", "verify-full", "verify-ca", "require", "disable":
	default:
		bad("sslmode: %q is none of verify-full, verify-ca, require, disable", c.SSLMode)
	}
	return errors.Join(errs...)
}

// reserved reports whether a role is one of PostgreSQL's own. An application cannot have these
// as a group.
func reserved(role string) bool {
	return len(role) >= 3 && role[:3] == "pg_" || role == "public" || role == "postgres" || role == "none"
}

// pool returns the configuration of the broker's own connections. The first connection is made
// at its first use.
func (c Config) pool() (*pgxpool.Config, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Host == "" {
		return nil, errors.New("url: it is not postgres://user@host:port/database") // err may contain parts of it
	}
	if _, has := u.User.Password(); has || u.Query().Has("password") {
		return nil, errors.New("url: a password does not belong into the URL: use password_file")
	}
	pc, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, errors.New("url: it is not the URL of a PostgreSQL server")
	}
	if err := private(pc.ConnConfig); err != nil {
		return nil, err
	}
	if c.PasswordFile != "" {
		s, err := secret.Read(c.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("password_file: %w", err)
		}
		pc.ConnConfig.Password = s.Reveal()
	}
	pc.ConnConfig.RequireAuth = provider.RequireAuth(pc.ConnConfig.RequireAuth)
	pc.MaxConns = poolSize
	pc.ConnConfig.ConnectTimeout = 5 * time.Second
	pc.ConnConfig.RuntimeParams["application_name"] = "ebb"
	// A lease may be able to create functions and operators in a schema of the default search
	// path, and the broker could call them by mistake (CVE-2018-1058). PostgreSQL searches
	// pg_temp first unless the path names it.
	pc.ConnConfig.RuntimeParams["search_path"] = "pg_catalog, pg_temp"
	// The server has the same timeout, so that a statement does not continue after its caller
	// has given up.
	pc.ConnConfig.RuntimeParams["statement_timeout"] = strconv.FormatInt(callTime.Milliseconds(), 10)
	return pc, nil
}

// private refuses connections that send the broker's password, or the roles' passwords,
// unencrypted or to an unverified server, also as a fallback. It checks the result of pgx from the
// URL and the environment (PGSSLMODE). verify-ca without a configured CA would accept every
// certificate of a public CA.
func private(c *pgx.ConnConfig) error {
	ways := append([]*pgconn.FallbackConfig{{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}}, c.Fallbacks...)
	for _, w := range ways {
		if local(w.Host, w.Port) {
			continue
		}
		t := w.TLSConfig
		if t == nil || t.InsecureSkipVerify && (t.VerifyPeerCertificate == nil || t.RootCAs == nil) {
			return fmt.Errorf("url: the connection to %s could be read or answered by others: add sslmode=verify-full, and sslrootcert=<file> for a CA of your own (sslmode=verify-ca needs one)", w.Host)
		}
	}
	return nil
}

// local reports whether the server is on this machine.
func local(host string, port uint16) bool {
	network, _ := pgconn.NetworkAddress(host, port)
	return network == "unix" || fetch.Loopback(host)
}

// address returns the host and port for the sandbox.
func (c Config) address(pc *pgxpool.Config) (host, port string, err error) {
	if c.Address == "" {
		return pc.ConnConfig.Host, strconv.Itoa(int(pc.ConnConfig.Port)), nil
	}
	host, port, err = net.SplitHostPort(c.Address)
	if err == nil && (host == "" || port == "") {
		err = errors.New("host or port is missing")
	}
	if err != nil {
		return "", "", fmt.Errorf("address: %q is not host:port", c.Address)
	}
	return host, port, nil
}
