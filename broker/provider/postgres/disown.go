package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// disown takes away what the role owns or was granted, in every database where
// there is something: tables go to the configured owner, all else is dropped.
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

// connect is a connection of the broker's own to another database.
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
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing is lost with it
	// Only a member may dispose of a role's objects; a superuser is one anyway, and
	// on a server of PostgreSQL 16 the creator may make itself one.
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

// undroppable says that a lease made something that this package cannot drop by
// itself: DROP OWNED then ends all of it, tables included.
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
	// Grants first: of what a drop takes with it nothing can be revoked.
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
	// Another lease that was made a member of the role may have added something since.
	after, err := acting(ctx, tx, owner)
	if err != nil {
		return err
	}
	if len(after) > len(before) {
		return errors.New("something was added to the objects of a role while they were taken back")
	}
	return nil
}

// each runs statements that drop something.
func each(ctx context.Context, tx pgx.Tx, statements []string) error {
	for _, s := range statements {
		if _, err := tx.Exec(ctx, s); err != nil {
			// 42: not its syntax, not its name, not its right. 2B, 0A: it is held by something.
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

// active are the statements that drop what a role owns in this database and that
// does something or is more than rows: all but tables and sequences, and the rules,
// triggers and policies of tables. Default privileges and user mappings are never
// reassigned; a multirange goes with its range.
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

// granted are the statements that take back what others may do with the tables and
// sequences of a role. Revoking a table revokes its columns.
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
