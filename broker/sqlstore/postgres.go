package sqlstore

import (
	"context"
	"crypto/fips140"
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

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/migrations"
)

const (
	minPostgres = 140000
	isolation   = "default_transaction_isolation"
)

// openPostgres connects to a primary of at least version 14 with UTF-8.
func openPostgres(ctx context.Context, cfg Config) (*engine, error) {
	conf, err := pgx.ParseConfig(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err) // the error of pgx does not contain the password
	}
	conf.RequireAuth = provider.RequireAuth(conf.RequireAuth)
	if conf.ConnectTimeout == 0 {
		conf.ConnectTimeout = 5 * time.Second
	}
	for name, value := range map[string]string{
		"application_name":   "ebb",
		"synchronous_commit": "on", // an acknowledged unit survives power loss
		// After a wait for a lock, a transaction must see the commits in between,
		// regardless of the default of the server, the database or the role. Stricter levels
		// keep the snapshot from before the wait.
		isolation:          "read committed",
		"lock_timeout":     "5s",
		"jit":              "off", // compiling takes longer than any statement here
		"random_page_cost": "1.1", // makes the planner use indexes for a page of a listing instead of reading the whole table
		// A client that vanished must not hold its locks indefinitely.
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
		// The committer has a handle of its own: readers cannot use up its connection.
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

// ready makes the server plan each statement once, at its first run. The committer's
// statements find their rows by primary key for all values, and have one text for each
// number of rows. Planning each text again in its first five runs is most of the server's
// work for a batch.
func ready(conf pgx.ConnConfig) pgx.ConnConfig {
	conf.RuntimeParams = maps.Clone(conf.RuntimeParams)
	conf.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	return conf
}

// warmReaders is the number of statements that the close of a task reads concurrently.
const warmReaders = 3

// warm opens n connections. With TLS and SCRAM that takes longer than the rest of the
// first caller's wait.
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
			return "the server has no free connection: raise max_connections or lower the database's max_conns"
		case "42P07":
			return "a table of another application has the same name: give ebb a database or a search_path of its own"
		case "57P01", "57P02", "57P03":
			return "the server is shutting down or starting"
		}
		return ""
	}
	var ce *pgconn.ConnectError
	if errors.As(err, &ce) {
		if strings.Contains(err.Error(), "server requested md5 authentication") && fips140.Enforced() {
			return "the server asks for the password by MD5, which GODEBUG=fips140=only forbids: set password_encryption to scram-sha-256 there and set the role's password again, or run ebb with GODEBUG=fips140=on"
		}
		return "the server cannot be reached: check that it is running and that the URL is correct"
	}
	return ""
}

// lonePostgres reports whether an error concerns one unit of a batch (bad data, a
// constraint, a lock): the other units may succeed without it.
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

// againPostgres reports whether the server rolled a transaction back only because of a
// concurrent one (deadlock, serialization failure).
func againPostgres(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && strings.HasPrefix(pe.Code, "40")
}

// violates returns a function that recognises the violation of one unique constraint.
func violates(constraint string) func(error) bool {
	return func(err error) bool {
		var pe *pgconn.PgError
		return errors.As(err, &pe) && pe.Code == "23505" && pe.ConstraintName == constraint
	}
}

// shutPostgres recognises the not_null_violation that leaseRows provokes for a closed
// task.
func shutPostgres(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == "23502" && pe.TableName == "leases" && pe.ColumnName == "task_id"
}

// pipeline sends all statements and the commit in one round trip. After an error the
// server skips the remaining ones, including the commit.
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
