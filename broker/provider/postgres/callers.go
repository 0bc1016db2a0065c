package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

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
