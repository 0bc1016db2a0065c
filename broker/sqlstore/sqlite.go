package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/migrations"
)

const sqliteMagic = "SQLite format 3\x00"

// openSQLite opens one connection for writing and a pool for reading. It refuses a file
// that is not a complete SQLite database of ebb before anything changes the file.
func openSQLite(ctx context.Context, u *url.URL, cfg Config, create bool) (*engine, error) {
	path := u.Path
	if u.Host != "" || u.Opaque != "" || u.RawQuery != "" || u.Fragment != "" || !filepath.IsAbs(path) {
		return nil, errors.New("database: write the SQLite file as sqlite:///absolute/path, without parameters")
	}
	fresh, err := inspect(path, create)
	if err != nil {
		return nil, err
	}
	if fresh && !create {
		return nil, nil
	}
	e := &engine{dialect: migrations.SQLite, name: "sqlite " + path, path: path, begin: "BEGIN IMMEDIATE",
		waits: 16, // a commit is work of this process, mostly on pages that its units share
		tell:  tellSQLite, lone: loneSQLite, again: func(error) bool { return false },
		taken: violated("UNIQUE", "leases.id"), shut: violated("NOT NULL", "leases.task_id"), forked: violated("UNIQUE", "audit_entries.writer")}
	const read = "&_pragma=query_only(1)"
	for _, h := range []struct {
		to    **sql.DB
		more  string
		conns int
	}{{&e.writer, "", 1}, {&e.reader, read, cfg.MaxConns - 1}, {&e.stream, read, streams}} {
		if *h.to, err = handle(path, h.more, h.conns); err != nil { // the DSN was refused; no connection is open yet
			return nil, err
		}
	}
	if create && !fresh {
		err = quickCheck(ctx, e.reader, cfg)
	}
	if err == nil {
		err = enter(ctx, e.writer, create)
	}
	if err != nil {
		_ = e.close()
		return nil, e.explain(err)
	}
	return e, nil
}

// damaged is the advice for a file that SQLite finds damaged.
const damaged = "the database is damaged; nothing was changed: restore it from a backup, or move it away to start anew"

// quickCheck checks the structure of every page, for at most cfg.checkTime: a large
// database must not delay the start for minutes. It logs a warning when the time was not
// enough.
func quickCheck(ctx context.Context, db *sql.DB, cfg Config) error {
	look, cancel := context.WithTimeout(ctx, cfg.checkTime)
	defer cancel()
	var found string
	err := db.QueryRowContext(look, "PRAGMA quick_check(1)").Scan(&found)
	switch {
	case look.Err() != nil && ctx.Err() == nil:
		cfg.Logger.WarnContext(ctx, "the integrity check of the database was not finished in time: ebb starts, and the unchecked part may be damaged; run PRAGMA quick_check with sqlite3 on a copy", "time", cfg.checkTime)
		return nil
	case err != nil:
		return err
	case found != "ok":
		return fmt.Errorf("%w: PRAGMA quick_check: %s", broker.Reason(damaged), found)
	}
	return nil
}

func handle(path, more string, conns int) (*sql.DB, error) {
	dsn := url.URL{Scheme: "file", Path: path, RawQuery: "mode=rw&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)&_pragma=cache_size(-8192)&_pragma=temp_store(MEMORY)&_pragma=wal_autocheckpoint(4000)" + more}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("database: sqlite %s: %w", path, err)
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// inspect reads the file without SQLite, which would initialize an empty or a foreign
// file. fresh means that the file is new or empty.
func inspect(path string, create bool) (fresh bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if !create {
			return true, nil
		}
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) { // another process was faster
			f, err = os.Open(path)
		}
	}
	if err != nil {
		return false, fmt.Errorf("database: the SQLite file cannot be opened: make its directory and file readable and writable for this user: %w", err)
	}
	defer func() { _ = f.Close() }()
	head := make([]byte, len(sqliteMagic))
	n, err := io.ReadFull(f, head)
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return true, nil
	case err == nil && string(head) == sqliteMagic:
		return false, nil
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return false, fmt.Errorf("database: the SQLite file cannot be read: %w", err)
	}
	return false, fmt.Errorf("database: %s is not a SQLite database; nothing was changed: name another file, or restore it from a backup", path)
}

// enter checks that the database belongs to ebb before it switches to WAL mode, which
// writes to the file.
func enter(ctx context.Context, db *sql.DB, write bool) error {
	if _, err := migrations.Status(ctx, db, migrations.SQLite); err != nil || !write {
		return err
	}
	var mode string
	if err := db.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("the file system does not support write-ahead logging (journal mode %q): put the file on a local disk", mode)
	}
	return nil
}

func sqliteCode(err error) int {
	var se *sqlite.Error
	if errors.As(err, &se) {
		return se.Code() & 0xff // the primary code of an extended result code
	}
	return 0
}

func tellSQLite(err error) string {
	switch sqliteCode(err) {
	case sqlite3.SQLITE_FULL:
		return "the disk is full: free space, nothing that was acknowledged is lost"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN:
		return "the file or its directory cannot be written: check owner, mode and mount"
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return damaged
	case sqlite3.SQLITE_IOERR:
		return "the disk reports an error: check it"
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return "another process holds the database: let one ebb use a file, or move to PostgreSQL"
	}
	return ""
}

// loneSQLite is lonePostgres for SQLite.
func loneSQLite(err error) bool {
	switch sqliteCode(err) {
	case sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH:
		return true
	}
	return false
}

// violated recognises a constraint of one column; SQLite names it in the message only.
func violated(constraint, column string) func(error) bool {
	return func(err error) bool {
		return sqliteCode(err) == sqlite3.SQLITE_CONSTRAINT && strings.Contains(err.Error(), constraint+" constraint failed: "+column)
	}
}
