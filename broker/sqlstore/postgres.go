package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"ebb/migrations"
)

const (
	minPostgres = 140000
	isolation   = "default_transaction_isolation"
)

// openPostgres connects to a primary of at least version 14 with UTF-8.
func openPostgres(ctx context.Context, cfg Config) (*engine, error) {
	conf, err := pgx.ParseConfig(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err) // pgx keeps the password out
	}
	if conf.ConnectTimeout == 0 {
		conf.ConnectTimeout = 5 * time.Second
	}
	for name, value := range map[string]string{
		"application_name":   "ebb",
		"synchronous_commit": "on", // an acknowledged unit survives power loss
		// Who waits for a lock sees what was committed meanwhile, whatever the server, the
		// database or the role would have: above this the wait begins with an old snapshot.
		isolation:          "read committed",
		"lock_timeout":     "5s",
		"jit":              "off", // it takes longer than any statement here
		"random_page_cost": "1.1", // a page of a listing looks its rows up, and does not read the table beside
		// A peer that vanished must not hold its locks for ever.
		"idle_in_transaction_session_timeout": "30s",
	} {
		if _, set := conf.RuntimeParams[name]; !set || name == "synchronous_commit" || name == isolation {
			conf.RuntimeParams[name] = value
		}
	}
	e := &engine{
		dialect: migrations.Postgres, begin: "BEGIN", lock: " FOR SHARE", skip: " FOR UPDATE OF u SKIP LOCKED",
		tell: tellPostgres, lone: lonePostgres, again: againPostgres,
		taken: violates("leases_pkey"), shut: shutPostgres, forked: violates("audit_entries_pkey"), pipeline: pipeline,
		name: fmt.Sprintf("postgres %s at %s", conf.Database, net.JoinHostPort(conf.Host, fmt.Sprint(conf.Port))),
		// The committer has a handle of its own: readers can never take its connection.
		writer: pgHandle(ready(*conf), 1), reader: pgHandle(*conf, cfg.MaxConns-1), stream: pgHandle(*conf, streams),
	}
	err = fitPostgres(ctx, e.writer)
	if err == nil {
		err = warm(ctx, e.reader, min(warmReaders, cfg.MaxConns-1))
	}
	if err != nil {
		_ = e.close()
		return nil, e.explain(err)
	}
	return e, nil
}

// ready keeps the plan of a statement from its first run on. What the committer runs
// finds its rows by primary key whatever the values are, and has one text for each
// number of rows: to plan each text anew for its first five runs is most of what a
// batch costs the server.
func ready(conf pgx.ConnConfig) pgx.ConnConfig {
	conf.RuntimeParams = maps.Clone(conf.RuntimeParams)
	conf.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	return conf
}

// warmReaders is how many statements the end of a task reads at one time.
const warmReaders = 3

// warm opens n connections: with TLS and SCRAM that takes longer than all else
// that the first caller would wait for.
func warm(ctx context.Context, db *sql.DB, n int) (err error) {
	conns := make([]*sql.Conn, n)
	for i := range conns {
		if conns[i], err = db.Conn(ctx); err != nil {
			break
		}
	}
	for _, c := range conns {
		if c != nil {
			_ = c.Close() // back into the pool
		}
	}
	return err
}

func pgHandle(conf pgx.ConnConfig, conns int) *sql.DB {
	db := stdlib.OpenDB(conf)
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return db
}

func fitPostgres(ctx context.Context, db *sql.DB) error {
	var version int
	var encoding string
	var standby bool
	err := db.QueryRowContext(ctx, "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), pg_is_in_recovery()").
		Scan(&version, &encoding, &standby)
	switch {
	case err != nil:
		return err
	case version < minPostgres:
		return fmt.Errorf("the server is version %d: ebb needs PostgreSQL 14 or newer", version/10000)
	case encoding != "UTF8":
		return fmt.Errorf("the database has encoding %s: create it with ENCODING 'UTF8'", encoding)
	case standby:
		return errors.New("the server is a read-only standby: name the primary, or several hosts with target_session_attrs=read-write")
	}
	return nil
}

func tellPostgres(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		switch pe.Code {
		case "28P01", "28000":
			return "the user or its password was refused: check the URL and pg_hba.conf"
		case "3D000":
			return "the database does not exist: create it, or correct the URL"
		case "42501":
			return "the user lacks a privilege: it must own its schema (GRANT CREATE, USAGE ON SCHEMA)"
		case "25006":
			return "the server is read-only: name the primary"
		case "53100":
			return "the server's disk is full: free space, nothing was lost"
		case "53300":
			return "the server has no free connection: raise max_connections or lower the journal's max_conns"
		case "42P07":
			return "a table of another application has the same name: give ebb a database or a search_path of its own"
		case "57P01", "57P02", "57P03":
			return "the server is shutting down or starting"
		}
		return ""
	}
	var ce *pgconn.ConnectError
	if errors.As(err, &ce) {
		return "no connection: is the server up, and the URL right?"
	}
	return ""
}

// lonePostgres reports whether an error concerns one unit of a batch, so that
// the others may succeed without it: bad data, a constraint, a lock.
func lonePostgres(err error) bool {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return false
	}
	for _, class := range []string{"21", "22", "23", "40", "54", "55"} {
		if strings.HasPrefix(pe.Code, class) {
			return true
		}
	}
	return false
}

// againPostgres reports whether the server undid a transaction only because of
// another one (deadlock, serialization).
func againPostgres(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && strings.HasPrefix(pe.Code, "40")
}

// violates recognises the violation of one constraint.
func violates(constraint string) func(error) bool {
	return func(err error) bool {
		var pe *pgconn.PgError
		return errors.As(err, &pe) && pe.Code == "23505" && pe.ConstraintName == constraint
	}
}

// shutPostgres recognises what leaseRows provokes (not_null_violation).
func shutPostgres(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == "23502" && pe.TableName == "leases" && pe.ColumnName == "task_id"
}

// pipeline sends everything at once. After an error the server skips what
// follows, the commit too.
func pipeline(ctx context.Context, conn *sql.Conn, begin bool, sts []statement) error {
	return conn.Raw(func(driver any) error {
		var b pgx.Batch
		if begin {
			b.Queue("BEGIN")
		}
		for _, st := range sts {
			b.Queue(st.text, st.args...)
		}
		b.Queue("COMMIT")
		results := driver.(*stdlib.Conn).Conn().SendBatch(ctx, &b)
		var tag pgconn.CommandTag
		var err error
		for range b.Len() {
			if tag, err = results.Exec(); err != nil {
				break
			}
		}
		err = errors.Join(err, results.Close())
		var pe *pgconn.PgError
		switch {
		case err == nil && tag.String() == "COMMIT":
			return nil
		case err == nil:
			return errors.New("the server rolled the transaction back")
		case errors.As(err, &pe) && !fatal(pe), pgconn.SafeToRetry(err):
			return err
		}
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	})
}

// fatal reports whether the server ended the connection with this error.
func fatal(pe *pgconn.PgError) bool {
	return pe.SeverityUnlocalized == "FATAL" || pe.SeverityUnlocalized == "PANIC"
}
