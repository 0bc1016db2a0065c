package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"time"

	"ebb/broker"
	"ebb/migrations"
)

// streams is how many exports run at one time; the next one waits.
const streams = 4

// engine is an open database: handles to write and to read, and what the two
// kinds do not have in common.
type engine struct {
	dialect migrations.Dialect
	name    string // for messages: no secret
	writer  *sql.DB
	reader  *sql.DB
	stream  *sql.DB // for exports, which may be slow: they cannot starve reader
	hot     hot
	begin   string
	waits   int                // how far a wait for company may grow with it, in quarters of what the batch before took; 0: it stays half
	lock    string             // ends a SELECT: what it read does not change before the commit
	skip    string             // ends a SELECT of u: rows that somebody else changes are left out; "" where one writes at a time
	tell    func(error) string // advice for an error of the driver, "" for none
	lone    func(error) bool   // the error concerns one unit of a batch, the others may succeed without it
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
		return nil, errors.New("journal: the URL cannot be parsed: write sqlite:///path/ebb.db or postgres://user@host/database") // err would repeat a password
	}
	switch u.Scheme {
	case "sqlite":
		return openSQLite(ctx, u, cfg, create)
	case "postgres", "postgresql":
		return openPostgres(ctx, cfg)
	}
	return nil, fmt.Errorf("journal: unknown kind of URL %q: write sqlite:///path/ebb.db or postgres://user@host/database", u.Scheme)
}

func (e *engine) close() error {
	return errors.Join(e.stream.Close(), e.reader.Close(), e.writer.Close())
}

// explain adds where and what to do to an error of the driver.
func (e *engine) explain(err error) error {
	if err == nil || refusal(err) || errors.Is(err, context.Canceled) {
		return err
	}
	if advice := e.tell(err); advice != "" {
		return fmt.Errorf("journal %s: %w: %w", e.name, broker.Reason(advice), err)
	}
	return fmt.Errorf("journal %s: %w", e.name, err)
}

// ServerClock asks the database what time it is. SQLite has the clock of this
// machine. It opens no store and changes nothing.
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
