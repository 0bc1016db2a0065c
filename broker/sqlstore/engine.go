package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

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
	path    string // of the SQLite file; "" = PostgreSQL
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

// Config describes the database and how it is used.
type Config struct {
	// URL is sqlite:///absolute/path or postgres://user@host/database?... Required.
	URL string
	// MaxConns is the maximum number of open connections, without the 4 for exports.
	// Default 8, minimum 2.
	MaxConns int
	// Writer names this process run in the audit log. It must never have been used
	// before. Default "ebb-" and random characters.
	Writer string
	// Queue is how many units may wait for the committer before Append blocks. Default
	// 1024.
	Queue int
	// Manual refuses a database with pending migrations instead of applying them.
	Manual bool
	// Exclusive states that no other process uses the SQLite database. The store then keeps
	// secret rows that egress reads in memory, and makes egress entries durable in a file
	// beside the database before it inserts their rows.
	Exclusive bool

	Now        func() time.Time      // default time.Now
	Logger     *slog.Logger          // default: none
	Registerer prometheus.Registerer // default: no metrics

	batchTime time.Duration // limit for one batch, so that a hanging database becomes an error. Default 10 s
	checkTime time.Duration // limit for the integrity check of a SQLite file at the start. Default 5 s
	flushTime time.Duration // see entryLog. Default 50 ms
}

func (c Config) withDefaults() (Config, error) {
	if c.MaxConns == 0 {
		c.MaxConns = 8
	}
	if c.MaxConns < 2 || c.MaxConns > 1000 {
		return c, fmt.Errorf("database: max_conns is %d: allow 2 to 1000; one connection is for writing", c.MaxConns)
	}
	if c.batchTime == 0 {
		c.batchTime = 10 * time.Second
	}
	if c.checkTime == 0 {
		c.checkTime = 5 * time.Second
	}
	if c.flushTime == 0 {
		c.flushTime = 50 * time.Millisecond
	}
	if c.Queue == 0 {
		c.Queue = 1024
	}
	if c.Queue < 1 || c.Queue > 1<<20 {
		return c, fmt.Errorf("database: the queue length is %d: allow 1 to %d", c.Queue, 1<<20)
	}
	if c.Writer == "" {
		c.Writer = "ebb-" + strings.ToLower(rand.Text())
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// connect fills in the defaults and opens the engine. Without create, the engine is nil
// when the SQLite file does not exist.
func connect(ctx context.Context, cfg Config, create bool) (Config, *engine, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return cfg, nil, err
	}
	eng, err := openEngine(ctx, cfg, create)
	return cfg, eng, err
}

// hot caches the prepared statements of reads that happen with each request through
// egress. SQLite takes longer to prepare one than to run it. The driver of PostgreSQL has
// its own cache.
type hot struct {
	mu sync.Mutex
	of map[string]*sql.Stmt
}

// hotPool is pool for the few fixed texts of these reads.
type hotPool struct{ e *engine }

func (p hotPool) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	if p.e.dialect != migrations.SQLite {
		return p.e.read().query(ctx, text, args...)
	}
	st, err := p.e.hot.prepare(ctx, p.e.reader, p.e.dialectText(text))
	if err != nil {
		return nil, err
	}
	return st.QueryContext(ctx, args...)
}

// prepare returns the statement of a text. It belongs to the handle, which prepares it
// for each of its connections and closes it when the handle closes.
func (h *hot) prepare(ctx context.Context, db *sql.DB, text string) (*sql.Stmt, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if st := h.of[text]; st != nil {
		return st, nil
	}
	st, err := db.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	if h.of == nil {
		h.of = map[string]*sql.Stmt{}
	}
	h.of[text] = st
	return st, nil
}

// errClosed is returned for every unit after Close: its outcome was not decided.
var errClosed = errors.New("the database is closed")

// ErrUnknown is wrapped when a commit was sent and its outcome is not known. Repeating
// the unit is safe: rows that exist already give broker.ErrExists.
var ErrUnknown = errors.New("it is not known whether the unit was committed")

var sentinels = []error{
	broker.ErrNotFound, broker.ErrDone, broker.ErrStale, broker.ErrClaimed, broker.ErrTaskClosed,
	broker.ErrTaskPaused, broker.ErrCap, broker.ErrOwnerCap, broker.ErrLost, broker.ErrExists, broker.ErrOutranked, broker.ErrPendingRevocation,
}

// refusal reports whether err is a decision of the database's content (a lost race, a
// missing row) and not a failure of the database.
func refusal(err error) bool {
	var be *broker.Error
	if errors.As(err, &be) {
		return true
	}
	for _, s := range sentinels {
		if errors.Is(err, s) {
			return true
		}
	}
	return false
}

// storable rejects texts that PostgreSQL cannot store, before they fail a whole batch.
// The rule is the same for both engines.
func storable(texts ...string) error {
	for _, s := range texts {
		if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
			return fmt.Errorf("a text is not UTF-8 or holds a NUL byte")
		}
	}
	return nil
}
