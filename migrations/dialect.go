package migrations

import (
	"context"
	"database/sql"
	"fmt"
)

// Dialect is the kind of database behind a *sql.DB.
type Dialect string

// Dialects.
const (
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite"
)

// lockKey is the key of the advisory lock that replicas take in turn: an arbitrary constant that no
// other application in the database uses.
const lockKey = 0x656262_6d6967 // "ebbmig"

// words are the statements that differ between the engines.
type words struct {
	begin  string // a transaction that waits for every other one of Apply
	lock   string // the first statement in it, or ""
	exists string // 1 or 0: whether a table meta exists
	others string // number of tables in the database
	insert string
	after  string // a statement to run after the last file, or ""
}

// appendOnly revokes the rights to change and delete rows of the audit log, and of the list of migrations, from every role
// except the owner of these tables. Without it, the role of ebb serve has these rights, as on every new table
// (docs/deploy/postgres-roles.sql). It does nothing if the current role does not own the tables.
const appendOnly = `DO $$
DECLARE r record;
BEGIN
    FOR r IN SELECT DISTINCT c.relname, CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END AS role
        FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace, aclexplode(c.relacl) a
        WHERE c.relname IN ('audit_entries', 'audit_writers', 'checkpoints', 'meta') AND n.nspname = current_schema() AND pg_get_userbyid(c.relowner) = current_user
        AND a.grantee <> c.relowner AND a.privilege_type IN ('UPDATE', 'DELETE', 'TRUNCATE')
    LOOP
        EXECUTE format('REVOKE UPDATE, DELETE, TRUNCATE ON %I FROM %s CASCADE', r.relname, r.role);
    END LOOP;
END $$`

func (d Dialect) words() (words, error) {
	switch d {
	case Postgres:
		return words{
			begin:  "BEGIN",
			lock:   fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", lockKey),
			exists: "SELECT count(*) FROM pg_catalog.pg_class WHERE relname = 'meta' AND relkind = 'r' AND relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = current_schema())",
			others: "SELECT 0", // a schema may be shared; a clash of names rolls back by itself
			insert: "INSERT INTO meta (version, name, checksum, applied_at) VALUES ($1, $2, $3, $4)",
			after:  appendOnly,
		}, nil
	case SQLite:
		return words{
			begin:  "BEGIN IMMEDIATE",
			exists: "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'meta'",
			others: "SELECT count(*) FROM sqlite_master",
			insert: "INSERT INTO meta (version, name, checksum, applied_at) VALUES (?, ?, ?, ?)",
		}, nil
	}
	return words{}, fmt.Errorf("unknown database dialect %q", d)
}

// within runs f in one transaction on one connection. It begins the transaction in SQL, because
// database/sql cannot issue IMMEDIATE.
func within(ctx context.Context, db *sql.DB, w words, f func(*sql.Conn) error) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, w.begin); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		}
	}()
	if w.lock != "" {
		if _, err := conn.ExecContext(ctx, w.lock); err != nil {
			return err
		}
	}
	if err := f(conn); err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	return err
}
