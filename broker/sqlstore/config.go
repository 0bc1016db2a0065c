package sqlstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ebb/broker/audit"
)

// Config says where the journal is.
type Config struct {
	// URL is sqlite:///absolute/path or postgres://user@host/database?... Required.
	URL string
	// MaxConns is how many connections may be open, beside 4 for exports. Default
	// 8, at least 2.
	MaxConns int
	// Writer names this process run in the audit record. It must never have
	// been used before. Default "ebb-" and random characters.
	Writer string
	// Queue is how many units may wait for the committer before Append waits
	// itself. Default 1024.
	Queue int
	// Manual refuses a database with pending migrations instead of applying them.
	Manual bool

	Now        func() time.Time      // default time.Now
	Logger     *slog.Logger          // default: none
	Registerer prometheus.Registerer // default: no metrics

	batchTime time.Duration // bounds one batch, so that a database that hangs is an error. Default 10 s
	checkTime time.Duration // bounds the integrity check of a SQLite file at the start. Default 5 s
}

func (c Config) withDefaults() (Config, error) {
	if c.MaxConns == 0 {
		c.MaxConns = 8
	}
	if c.MaxConns < 2 || c.MaxConns > 1000 {
		return c, fmt.Errorf("journal: %d connections: allow 2 to 1000, one is for writing", c.MaxConns)
	}
	if c.batchTime == 0 {
		c.batchTime = 10 * time.Second
	}
	if c.checkTime == 0 {
		c.checkTime = 5 * time.Second
	}
	if c.Queue == 0 {
		c.Queue = 1024
	}
	if c.Queue < 1 || c.Queue > 1<<20 {
		return c, fmt.Errorf("journal: a queue of %d: allow 1 to %d", c.Queue, 1<<20)
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

// Store is the Journal and the Desk. It is safe for concurrent use.
type Store struct {
	cfg    Config
	engine *engine
	com    *committer
	days   leaseDays
}

// Open connects, applies pending migrations, and starts this run's chain. Its
// errors say what to do; nothing that is there is overwritten.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	cfg, eng, err := connect(ctx, cfg, true)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, engine: eng}
	if err := s.start(ctx); err != nil {
		_ = eng.close()
		return nil, eng.explain(err)
	}
	return s, nil
}

// connect fills in the defaults. Without create the engine of a SQLite file that does
// not exist is nil.
func connect(ctx context.Context, cfg Config, create bool) (Config, *engine, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return cfg, nil, err
	}
	eng, err := openEngine(ctx, cfg, create)
	return cfg, eng, err
}

func (s *Store) start(ctx context.Context) error {
	if err := s.migrate(ctx); err != nil {
		return err
	}
	chain, err := audit.NewChain(s.cfg.Writer)
	if err != nil {
		return err
	}
	sess, err := openSession(ctx, s.engine)
	if err != nil {
		return err
	}
	if err := register(ctx, sess, s.cfg.Writer, s.cfg.Now()); err != nil {
		sess.close()
		return err
	}
	m, err := newMetrics(s.cfg.Registerer)
	if err != nil {
		sess.close()
		return err
	}
	s.com = newCommitter(s.cfg, s.engine, m, sess, chain)
	go s.com.run()
	return nil
}

// register makes the writer known and makes sure that no other run had its name:
// two runs in one chain would fork it.
func register(ctx context.Context, s *session, writer string, now time.Time) error {
	n, err := s.exec(ctx, "INSERT INTO audit_writers (writer, started_at) VALUES (?, ?) ON CONFLICT (writer) DO NOTHING", writer, millis(now))
	if err != nil {
		return err
	}
	if n != 1 {
		return fmt.Errorf("journal: writer id %q was used by an earlier run: every run needs its own", writer)
	}
	return nil
}

// Close commits what is queued, refuses what comes later, and disconnects.
func (s *Store) Close() error {
	s.com.stop()
	return s.engine.close()
}

// Writer is the id of this run's chain.
func (s *Store) Writer() string { return s.cfg.Writer }
