package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/broker/stricturl"
	"github.com/ebb-broker/ebb/scopes"
)

// format is the issued_token_type of a credential of this kind.
const format = "urn:ebb:token-type:postgres"

// Driver mints roles on one PostgreSQL server.
type Driver struct {
	cfg        Config
	pool       *pgxpool.Pool
	host, port string
	at         stricturl.Host // host at which egress opens sessions; zero for none
	log        *slog.Logger
}

var (
	_ provider.Driver       = (*Driver)(nil)
	_ provider.Connector    = (*Driver)(nil)
	_ provider.SessionJudge = (*Driver)(nil)
	_ provider.Prober       = (*Driver)(nil)
	_ provider.Lister       = (*Driver)(nil)
	_ provider.Checker      = (*Driver)(nil)
)

// New returns a driver. It makes no connections, so that an unavailable database does not
// prevent the broker's start. log may be nil.
func New(c Config, log *slog.Logger) (*Driver, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if c.Connections == 0 {
		c.Connections = 4
	}
	if c.SSLMode == "" {
		c.SSLMode = "verify-full"
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	pc, err := c.pool()
	if err != nil {
		return nil, err
	}
	d := &Driver{cfg: c, log: log}
	if d.host, d.port, err = c.address(pc); err != nil {
		return nil, err
	}
	d.at = c.reach(d.host, d.port, &pc.ConnConfig.Config)
	if d.pool, err = pgxpool.NewWithConfig(context.Background(), pc); err != nil {
		return nil, errors.New("url: the connection cannot be configured")
	}
	return d, nil
}

// Traits implements provider.Driver. A role never ends by expiry, because its sessions
// continue after VALID UNTIL. After Revoke has returned, the role has no rights and no
// sessions.
func (d *Driver) Traits() provider.Traits {
	return provider.Traits{Revocability: provider.Revocability{Class: provider.ClassInstant}, ThirdParty: true, Lasting: true}
}

// Check accepts actions of one configured database, without patterns: a role logs in to one
// database, and each action has exactly one group role.
func (d *Driver) Check(s scopes.Set) error {
	_, _, err := d.groups(s)
	return err
}

// groups returns the database of the scopes and the group roles that grant them.
func (d *Driver) groups(s scopes.Set) (database string, roles []string, err error) {
	if s.Empty() {
		return "", nil, fmt.Errorf("%w: no scope", provider.ErrUnsupported)
	}
	for _, sc := range s.Scopes() {
		actions, known := d.cfg.Databases[sc.Resource()]
		role, can := actions[sc.Action()]
		switch {
		case !known || sc.IsPattern():
			return "", nil, fmt.Errorf("%w: %s names no configured database", provider.ErrUnsupported, sc)
		case !can:
			return "", nil, fmt.Errorf("%w: %s names no configured action of its database", provider.ErrUnsupported, sc)
		case database != "" && database != sc.Resource():
			return "", nil, fmt.Errorf("%w: a credential is for one database", provider.ErrUnsupported)
		}
		database, roles = sc.Resource(), append(roles, role)
	}
	slices.Sort(roles)
	return database, slices.Compact(roles), nil
}

// document is the credential that the sandbox receives.
type document struct {
	URI      string `json:"uri"`
	Host     string `json:"host"`
	Port     string `json:"port"`
	Database string `json:"database"`
	User     string `json:"user"`
	Password string `json:"password"`
	SSLMode  string `json:"sslmode"`
}

// Mint creates the role in one query, which is one transaction: it exists with all its
// limits or not at all.
func (d *Driver) Mint(ctx context.Context, g provider.Grant) (provider.Credential, error) {
	database, groups, err := d.groups(g.Scopes)
	if err != nil {
		return provider.Credential{}, provider.Inexact(err)
	}
	name, err := g.Name()
	if err != nil {
		return provider.Credential{}, err
	}
	password := newPassword()
	hashed, err := verifier(password)
	if err != nil {
		return provider.Credential{}, provider.Refused("No password could be made.", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	for i, r := range groups {
		groups[i] = quote(r)
	}
	// Utility statements take no parameters. Every part is a fixed form: names are
	// quoted, the verifier is base64, the time is digits.
	statement := fmt.Sprintf("CREATE ROLE %s LOGIN INHERIT NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS CONNECTION LIMIT %d PASSWORD '%s' VALID UNTIL '%s'",
		quote(name), d.cfg.Connections, hashed, g.ExpiresAt.UTC().Format(time.RFC3339))
	if err := d.create(ctx, statement, name, strings.Join(groups, ", ")); err != nil {
		return provider.Credential{}, judged(fmt.Errorf("postgres: creating a role: %w", err))
	}
	oid, err := d.oid(ctx, name)
	if err != nil {
		return provider.Credential{}, err
	}
	kept := handle{Role: name, OID: oid}
	if g.Injected {
		kept.Password = password
	}
	h, err := json.Marshal(kept)
	if err != nil {
		return provider.Credential{}, err
	}
	token, err := json.Marshal(document{
		URI: d.uri(name, password, database), Host: d.host, Port: d.port, Database: database, User: name, Password: password, SSLMode: d.cfg.SSLMode,
	})
	if err != nil {
		return provider.Credential{}, err
	}
	return provider.Credential{
		Token: secret.New(string(token)), Type: "N_A", Format: format, ExpiresAt: g.ExpiresAt, Handle: secret.New(string(h)),
	}, nil
}

// create makes a role with the rights of its groups. From version 16 on, the role cannot SET ROLE
// to a group: objects that it made that way would belong to the group and remain.
func (d *Driver) create(ctx context.Context, statement, name, groups string) error {
	return d.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		if separates(c.Conn().PgConn().ParameterStatus("server_version")) {
			statement += "; GRANT " + groups + " TO " + quote(name) + " WITH INHERIT TRUE, SET FALSE"
		} else {
			statement += " IN ROLE " + groups
		}
		_, err := c.Exec(ctx, statement)
		return err
	})
}

// separates reports whether a server of this version can grant the rights of a role without SET
// ROLE. An unknown version counts as new; an old server refuses the statement.
func separates(version string) bool {
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	return err != nil || n >= setVersion/10000
}

func (d *Driver) uri(user, password, database string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(user, password), Host: net.JoinHostPort(d.host, d.port), Path: "/" + database,
		RawQuery: url.Values{"sslmode": {d.cfg.SSLMode}}.Encode(),
	}
	return u.String()
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

// Describe implements provider.Describer. The effects come from the operator's Words.
func (d *Driver) Describe(s scopes.Scope) (provider.Effect, error) {
	if _, known := d.cfg.Databases[s.Resource()][s.Action()]; !known || s.IsPattern() {
		return provider.Effect{}, fmt.Errorf("%w: %s is not configured", provider.ErrUnsupported, s)
	}
	return provider.ByAction(s), nil
}

// SQLSTATEs (PostgreSQL's appendix A).
const (
	undefinedObject  = "42704" // no such role
	noPrivilege      = "42501"
	tooManyConns     = "53300"
	dependentObjects = "2BP01" // the role owns or may use something
	badAuthorization = "28000"
	badPassword      = "28P01" // also for an unknown role, and after VALID UNTIL
)

func code(err error) string {
	if pe, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pe.Code
	}
	return ""
}

// judged classifies an error of CREATE ROLE. After an error from the server nothing was made,
// because one statement is one transaction. Without a response the outcome is unknown, and the
// broker keeps a pending revocation.
func judged(err error) error {
	switch code(err) {
	case "":
		return err
	case undefinedObject:
		return provider.Refused("A group role of this scope does not exist in the database any more. Tell the operator of the broker.", err)
	case noPrivilege:
		return provider.Refused("The broker may not make this member of its group role. Tell the operator of the broker: ebb providers check lists what is missing.", err)
	case tooManyConns:
		return &provider.BusyError{After: time.Second, Cause: err}
	default:
		return err
	}
}
