package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// handle holds values that cannot be found by name after the role is dropped: its sessions are
// then known by the role's oid only. For a credential that stays in ebb, it is the only copy of
// the password.
type handle struct {
	Role     string `json:"role"`
	OID      uint32 `json:"oid"`
	Password string `json:"password,omitempty"`
}

// of returns the handle of a target; an intent has none.
func of(t provider.Target) (handle, error) {
	h := handle{Role: provider.Name(t.Instance, t.LeaseID)}
	if !t.Handle.Empty() {
		if err := json.Unmarshal([]byte(t.Handle.Reveal()), &h); err != nil {
			return h, errors.New("postgres: the handle is damaged")
		}
	}
	// Only roles with a name of this instance are ever dropped, at any content of the handle.
	if _, ok := provider.LeaseOf(t.Instance, h.Role); !ok {
		return h, errors.New("postgres: the handle names no role of this installation")
	}
	return h, nil
}

// oid returns the oid of a role, 0 when it does not exist.
func (d *Driver) oid(ctx context.Context, role string) (uint32, error) {
	var oid uint32
	err := d.pool.QueryRow(ctx, "SELECT oid FROM pg_catalog.pg_roles WHERE rolname = $1", role).Scan(&oid)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("postgres: looking for a role: %w", err)
	}
	return oid, nil
}

// Revoke ends a role in four steps: it prevents new sessions, ends the open ones, drops or
// reassigns the objects, and drops the role. Each step may be repeated, and depends on the
// server's present state instead of the result of an earlier attempt.
func (d *Driver) Revoke(ctx context.Context, t provider.Target) error {
	h, err := of(t)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	oid, err := d.oid(ctx, h.Role)
	if err != nil {
		return err
	}
	if oid != 0 {
		if err := d.drop(ctx, h.Role, oid); err != nil {
			return err
		}
	}
	// An earlier attempt may have dropped the role while one of its sessions is still open.
	for _, id := range []uint32{oid, h.OID} {
		if id != 0 {
			if err := d.terminate(ctx, id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *Driver) drop(ctx context.Context, role string, oid uint32) error {
	_, err := d.pool.Exec(ctx, "ALTER ROLE "+quote(role)+" NOLOGIN CONNECTION LIMIT 0 PASSWORD NULL")
	if err != nil && code(err) != undefinedObject {
		return fmt.Errorf("postgres: locking a role: %w", err)
	}
	if err := d.terminate(ctx, oid); err != nil {
		return err
	}
	drop := func() error {
		_, err := d.pool.Exec(ctx, "DROP ROLE IF EXISTS "+quote(role))
		return err
	}
	err = drop()
	if code(err) == dependentObjects {
		if err = d.disown(ctx, role, oid); err == nil {
			err = drop()
		}
	}
	if err != nil {
		return fmt.Errorf("postgres: dropping a role: %w", err)
	}
	return nil
}

// terminate ends every session of a role, by oid: a session may have been opened just before
// the role was locked, and the sessions of a dropped role have no role name.
func (d *Driver) terminate(ctx context.Context, oid uint32) error {
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		var open int
		err := d.pool.QueryRow(ctx, "SELECT pg_catalog.count(pg_catalog.pg_terminate_backend(pid)) FROM pg_catalog.pg_stat_activity WHERE usesysid = $1", oid).Scan(&open)
		if err != nil {
			return fmt.Errorf("postgres: ending sessions: %w", err)
		}
		if open == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("postgres: %d sessions go on: %w", open, ctx.Err())
		case <-time.After(wait):
		}
	}
}

// Probe implements provider.Prober. It asks the server whether the role can log in or has a
// session.
func (d *Driver) Probe(ctx context.Context, t provider.Target) (alive bool, err error) {
	h, err := of(t)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	err = d.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = $1)
		OR EXISTS (SELECT FROM pg_catalog.pg_stat_activity WHERE usename = $1 OR usesysid = nullif($2::pg_catalog.oid, 0::pg_catalog.oid))`, h.Role, h.OID).Scan(&alive)
	if err != nil {
		return false, fmt.Errorf("postgres: looking for a role: %w", err)
	}
	return alive, nil
}

// List implements provider.Lister.
func (d *Driver) List(ctx context.Context, instance string, yield func(provider.Target) error) error {
	rows, err := d.pool.Query(ctx, "SELECT rolname, oid FROM pg_catalog.pg_roles WHERE rolname LIKE 'ebb-%' ORDER BY rolname")
	if err != nil {
		return fmt.Errorf("postgres: listing roles: %w", err)
	}
	roles, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (h handle, err error) { return h, row.Scan(&h.Role, &h.OID) })
	if err != nil {
		return fmt.Errorf("postgres: listing roles: %w", err)
	}
	for _, h := range roles {
		lease, ours := provider.LeaseOf(instance, h.Role)
		if !ours {
			continue
		}
		text, err := json.Marshal(h)
		if err != nil {
			return err
		}
		if err := yield(provider.Target{LeaseID: lease, Instance: instance, Handle: secret.New(string(text))}); err != nil {
			return err
		}
	}
	return nil
}

// disown removes the objects and grants of the role, in every database that has some. Tables
// go to the configured owner, and all other objects are dropped.
func (d *Driver) disown(ctx context.Context, role string, oid uint32) error {
	rows, err := d.pool.Query(ctx, `SELECT DISTINCT coalesce(d.datname, pg_catalog.current_database()) FROM pg_catalog.pg_shdepend s
		LEFT JOIN pg_catalog.pg_database d ON d.oid = s.dbid
		WHERE s.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass AND s.refobjid = $1 AND (s.dbid = 0 OR d.datallowconn)`, oid)
	if err != nil {
		return fmt.Errorf("postgres: looking for objects of a role: %w", err)
	}
	databases, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("postgres: looking for objects of a role: %w", err)
	}
	for _, db := range databases {
		if err := d.disownIn(ctx, db, role, oid); err != nil {
			return fmt.Errorf("postgres: taking back objects in database %q: %w", db, err)
		}
	}
	return nil
}

// connect opens a connection of the broker's own role to another database.
func (d *Driver) connect(ctx context.Context, database string) (*pgx.Conn, error) {
	c := d.pool.Config().ConnConfig.Copy()
	c.Database = database
	return pgx.ConnectConfig(ctx, c)
}

func (d *Driver) disownIn(ctx context.Context, database, role string, oid uint32) error {
	conn, err := d.connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // no data is lost by it
	// Only a member of a role may drop its objects. A superuser counts as a member, and in
	// PostgreSQL 16 the creator of the role can make itself one.
	if _, err := conn.Exec(ctx, "GRANT "+quote(role)+" TO CURRENT_USER"); err != nil {
		return err
	}
	if d.cfg.Owner != "" {
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return d.keepTables(ctx, tx, role, oid) })
		if cannot, is := errors.AsType[*undroppable](err); is {
			d.log.WarnContext(ctx, "the tables of a role are dropped with it: what else it made cannot be taken out alone", "role", role, "database", database, "error", cannot.error)
		} else if err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, "DROP OWNED BY "+quote(role)+" CASCADE")
	return err
}

// undroppable means that a lease made an object that this package cannot drop alone. DROP
// OWNED then drops all objects of the lease, including its tables.
type undroppable struct{ error }

func (u *undroppable) Unwrap() error { return u.error }

// keepTables gives the tables and sequences of a role to the owner, and no other objects: a view
// or a function would then run the lease's text with the owner's rights. All rights that the lease
// granted are removed.
func (d *Driver) keepTables(ctx context.Context, tx pgx.Tx, role string, oid uint32) error {
	owner, err := d.oid(ctx, d.cfg.Owner)
	if err != nil {
		return err
	}
	if owner == 0 {
		return fmt.Errorf("the role %s of owner does not exist: make it, or take owner out of the configuration", quote(d.cfg.Owner))
	}
	before, err := acting(ctx, tx, owner)
	if err != nil {
		return err
	}
	drops, err := active(ctx, tx, oid)
	if err != nil {
		return err
	}
	grants, err := granted(ctx, tx, oid)
	if err != nil {
		return err
	}
	// Grants come first, because the grants of an object that a drop removes could no longer
	// be revoked.
	if err := each(ctx, tx, append(grants, drops...)); err != nil {
		return err
	}
	// Then drop the remaining parts that call functions of others.
	calls, err := callers(ctx, tx, oid)
	if err != nil {
		return err
	}
	if err := each(ctx, tx, calls); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "REASSIGN OWNED BY "+quote(role)+" TO "+quote(d.cfg.Owner)); err != nil {
		return err
	}
	// Another lease that became a member of the role may have added an object since.
	after, err := acting(ctx, tx, owner)
	if err != nil {
		return err
	}
	if len(after) > len(before) {
		return errors.New("something was added to the objects of a role while they were taken back")
	}
	return nil
}

// each runs statements that drop objects.
func each(ctx context.Context, tx pgx.Tx, statements []string) error {
	for _, s := range statements {
		if _, err := tx.Exec(ctx, s); err != nil {
			// 42: wrong syntax, unknown name, or no privilege. 2B, 0A: another object depends on it.
			if c := code(err); strings.HasPrefix(c, "42") || strings.HasPrefix(c, "2B") || strings.HasPrefix(c, "0A") {
				return &undroppable{err}
			}
			return err
		}
	}
	return nil
}

// acting returns the statements that drop all objects of a role that run code, directly or through
// functions that they call.
func acting(ctx context.Context, tx pgx.Tx, role uint32) ([]string, error) {
	own, err := active(ctx, tx, role)
	if err != nil {
		return nil, err
	}
	calls, err := callers(ctx, tx, role)
	return append(own, calls...), err
}

// active returns the statements that drop those objects of a role in this database that run
// code or are more than rows: all except tables and sequences, and also the rules, triggers
// and policies of tables. REASSIGN OWNED does not cover default privileges and user mappings.
// A multirange is dropped with its range.
func active(ctx context.Context, tx pgx.Tx, role uint32) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT CASE i.type
			WHEN 'large object' THEN 'SELECT pg_catalog.lo_unlink(' || i.identity || ')'
			ELSE 'DROP ' || CASE WHEN i.type IN ('function', 'procedure', 'aggregate') THEN 'routine'
				WHEN i.type = 'statistics object' THEN 'statistics' ELSE i.type END || ' IF EXISTS ' || i.identity || ' CASCADE' END
		FROM (
			SELECT s.classid, s.objid FROM pg_catalog.pg_shdepend s JOIN pg_catalog.pg_database d ON d.oid = s.dbid
			WHERE d.datname = pg_catalog.current_database() AND s.deptype = 'o' AND s.refobjid = $1
			AND s.refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass
			AND s.classid <> ALL ('{pg_catalog.pg_default_acl, pg_catalog.pg_user_mapping}'::pg_catalog.regclass[]::pg_catalog.oid[])
			AND NOT (s.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND EXISTS (
				SELECT FROM pg_catalog.pg_class c WHERE c.oid = s.objid AND c.relkind IN ('r', 'p', 'S')))
			AND NOT (s.classid = 'pg_catalog.pg_type'::pg_catalog.regclass AND EXISTS (
				SELECT FROM pg_catalog.pg_type t WHERE t.oid = s.objid AND t.typtype = 'm'))
			UNION ALL SELECT 'pg_catalog.pg_rewrite'::pg_catalog.regclass, r.oid FROM pg_catalog.pg_rewrite r
			JOIN pg_catalog.pg_class c ON c.oid = r.ev_class WHERE c.relowner = $1 AND c.relkind IN ('r', 'p')
			UNION ALL SELECT 'pg_catalog.pg_trigger'::pg_catalog.regclass, t.oid FROM pg_catalog.pg_trigger t
			JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid WHERE c.relowner = $1 AND c.relkind IN ('r', 'p') AND NOT t.tgisinternal AND t.tgparentid = 0
			UNION ALL SELECT 'pg_catalog.pg_policy'::pg_catalog.regclass, p.oid FROM pg_catalog.pg_policy p
			JOIN pg_catalog.pg_class c ON c.oid = p.polrelid WHERE c.relowner = $1 AND c.relkind IN ('r', 'p')
		) o, LATERAL pg_catalog.pg_identify_object(o.classid, o.objid, 0) i WHERE i.identity IS NOT NULL ORDER BY o.objid`, role)
	if err != nil {
		return nil, fmt.Errorf("looking for what a role made: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// granted returns the statements that revoke the grants of other roles on the tables and
// sequences of a role. Revoking them on a table also revokes those on its columns.
func granted(ctx context.Context, tx pgx.Tx, role uint32) ([]string, error) {
	rows, err := tx.Query(ctx, `SELECT DISTINCT pg_catalog.format('REVOKE ALL ON TABLE %I.%I FROM %s CASCADE', n.nspname, c.relname,
			CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE pg_catalog.quote_ident(g.rolname) END)
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		CROSS JOIN LATERAL (SELECT x.grantee FROM pg_catalog.aclexplode(c.relacl) x
			UNION SELECT y.grantee FROM pg_catalog.pg_attribute t, pg_catalog.aclexplode(t.attacl) y WHERE t.attrelid = c.oid) a
		LEFT JOIN pg_catalog.pg_roles g ON g.oid = a.grantee
		WHERE c.relowner = $1 AND c.relkind IN ('r', 'p', 'S') AND a.grantee <> $1`, role)
	if err != nil {
		return nil, fmt.Errorf("looking for what a role granted: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// callers returns the statements that drop parts of a role's tables through which the server calls
// another role's function with the rights of the tables' owner. The server does that for ANALYZE,
// which runs automatically, and for REINDEX. These parts are indexes with expressions or
// conditions, and range columns with a subtype difference function. Functions of a superuser, and
// so of PostgreSQL and its extensions, may stay. For all other functions it is unknown which roles
// can replace them: the members of a group role can replace the functions of the group.
func callers(ctx context.Context, tx pgx.Tx, role uint32) ([]string, error) {
	rows, err := tx.Query(ctx, `WITH RECURSIVE theirs AS (
			SELECT p.oid FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_roles r ON r.oid = p.proowner WHERE NOT r.rolsuper
		), bad AS (
			SELECT 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid AS class, f.oid FROM theirs f
			UNION ALL SELECT 'pg_catalog.pg_operator'::pg_catalog.regclass, o.oid FROM pg_catalog.pg_operator o JOIN theirs f ON f.oid = o.oprcode
			UNION ALL SELECT 'pg_catalog.pg_type'::pg_catalog.regclass, t.oid FROM pg_catalog.pg_type t
			JOIN pg_catalog.pg_roles r ON r.oid = t.typowner WHERE NOT r.rolsuper AND t.typtype IN ('c', 'd', 'm', 'r')
		), ranges AS (
			SELECT x.oid FROM pg_catalog.pg_range g JOIN theirs f ON f.oid IN (g.rngsubdiff, g.rngcanonical), LATERAL (VALUES (g.rngtypid), (g.rngmultitypid)) x(oid)
			UNION SELECT t.oid FROM pg_catalog.pg_type t JOIN ranges g ON t.typbasetype = g.oid WHERE t.typtype = 'd'
		), tables AS (
			SELECT c.oid, pg_catalog.format('%I.%I', n.nspname, c.relname) AS name FROM pg_catalog.pg_class c
			JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relowner = $1 AND c.relkind IN ('r', 'p')
		)
		SELECT s FROM (
			SELECT x.oid, pg_catalog.format('DROP INDEX IF EXISTS %I.%I CASCADE', n.nspname, x.relname) AS s
			FROM tables t JOIN pg_catalog.pg_index i ON i.indrelid = t.oid JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
			JOIN pg_catalog.pg_namespace n ON n.oid = x.relnamespace
			WHERE EXISTS (SELECT FROM pg_catalog.pg_depend d JOIN bad b ON d.refclassid = b.class AND d.refobjid = b.oid
				WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass AND d.objid = i.indexrelid)
			UNION ALL SELECT t.oid, pg_catalog.format('ALTER TABLE %s DROP COLUMN IF EXISTS %I CASCADE', t.name, a.attname)
			FROM tables t JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid JOIN ranges g ON g.oid = a.atttypid WHERE NOT a.attisdropped
		) o ORDER BY o.oid`, role)
	if err != nil {
		return nil, fmt.Errorf("looking for what a role's tables call: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
