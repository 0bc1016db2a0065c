package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/migrations"
)

// streams is the maximum number of concurrent exports; a further one waits.
const streams = 4

// engine is an open database: its handles for writing and reading, and the differences
// between PostgreSQL and SQLite.
type engine struct {
	dialect migrations.Dialect
	name    string // for messages; holds no secret
	writer  *sql.DB
	reader  *sql.DB
	stream  *sql.DB // for exports, which may be slow: they must not use up reader's connections
	hot     hot
	begin   string
	waits   int                // maximum wait for further units, in quarters of the previous batch's duration; it grows with the batch's size. 0: always half the duration
	lock    string             // suffix of a SELECT: the rows stay unchanged until the commit
	skip    string             // suffix of a SELECT of u: skips rows locked by other transactions; "" with a single writer
	tell    func(error) string // advice for a driver error; "" if there is none
	lone    func(error) bool   // the error concerns one unit of a batch; the others may succeed without it
	again   func(error) bool   // the same transaction may succeed at once
	taken   func(error) bool   // a lease with this id exists
	shut    func(error) bool   // the task of a lease is closed or unknown
	forked  func(error) bool   // the place in the chain is taken

	// pipeline is session.finish in one round trip; nil where that is no gain.
	pipeline func(ctx context.Context, conn *sql.Conn, begin bool, sts []statement) error
}

// openEngine connects. Without create a SQLite file that does not exist is nil.
func openEngine(ctx context.Context, cfg Config, create bool) (*engine, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, errors.New("database: the URL cannot be parsed; write sqlite:///path/ebb.db or postgres://user@host/database") // err would contain the URL's password
	}
	switch u.Scheme {
	case "sqlite":
		return openSQLite(ctx, u, cfg, create)
	case "postgres", "postgresql":
		return openPostgres(ctx, cfg)
	}
	return nil, fmt.Errorf("database: the URL scheme %q is not supported; write sqlite:///path/ebb.db or postgres://user@host/database", u.Scheme)
}

func (e *engine) close() error {
	return errors.Join(e.stream.Close(), e.reader.Close(), e.writer.Close())
}

// explain adds the database's name and advice to a driver error.
func (e *engine) explain(err error) error {
	if err == nil || refusal(err) || errors.Is(err, context.Canceled) {
		return err
	}
	if advice := e.tell(err); advice != "" {
		return fmt.Errorf("database %s: %w: %w", e.name, broker.Reason(advice), err)
	}
	return fmt.Errorf("database %s: %w", e.name, err)
}

// ServerClock returns the time of the database server; for SQLite, of this machine. It
// opens no store and changes nothing.
func ServerClock(ctx context.Context, cfg Config) (time.Time, error) {
	_, eng, err := connect(ctx, cfg, false)
	if err != nil {
		return time.Time{}, err
	}
	if eng == nil || eng.dialect != migrations.Postgres {
		if eng != nil {
			err = eng.close()
		}
		return time.Now(), err
	}
	var at time.Time
	err = eng.writer.QueryRowContext(ctx, "SELECT CURRENT_TIMESTAMP").Scan(&at)
	return at, errors.Join(eng.explain(err), eng.close())
}
