package sqlstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
)

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

	Now        func() time.Time      // default time.Now
	Logger     *slog.Logger          // default: none
	Registerer prometheus.Registerer // default: no metrics

	batchTime time.Duration // limit for one batch, so that a hanging database becomes an error. Default 10 s
	checkTime time.Duration // limit for the integrity check of a SQLite file at the start. Default 5 s
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

// Store is the database of ebb, PostgreSQL or SQLite. It embeds one store for each kind
// of data and is safe for concurrent use.
type Store struct {
	cfg    Config
	engine *engine
	com    *committer

	*taskStore
	*leaseStore
	*requestStore
	*emergencyStore
	*auditStore
	*storeWriter
	*revocationStore
	*figureStore
	*outboxStore
	*policyStore
	*peopleStore
	*secretStore
}

var (
	_ broker.Store         = (*Store)(nil)
	_ broker.ApprovalStore = (*Store)(nil)
)

// connect gives each embedded store the engine and the committer, which must both be set.
func (s *Store) connect() {
	s.secretStore = &secretStore{com: s.com, engine: s.engine}
	s.taskStore = &taskStore{engine: s.engine}
	s.leaseStore = &leaseStore{engine: s.engine}
	s.requestStore = &requestStore{com: s.com, engine: s.engine}
	s.emergencyStore = &emergencyStore{com: s.com, engine: s.engine}
	s.auditStore = &auditStore{writer: s.cfg.Writer, com: s.com, engine: s.engine}
	s.storeWriter = &storeWriter{com: s.com, engine: s.engine}
	s.revocationStore = &revocationStore{com: s.com, engine: s.engine}
	s.figureStore = &figureStore{engine: s.engine}
	s.outboxStore = &outboxStore{engine: s.engine, secrets: s.secretStore}
	s.policyStore = &policyStore{com: s.com, engine: s.engine}
	s.peopleStore = &peopleStore{engine: s.engine, secrets: s.secretStore}
}

// Open connects, applies pending migrations, and starts this run's chain. Its errors name
// the remedy. It overwrites no existing data.
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
	s.connect()
	go s.com.run()
	return nil
}

// register records the writer and checks that no earlier run had its name: two runs in
// one chain would fork it.
func register(ctx context.Context, s *session, writer string, now time.Time) error {
	n, err := s.exec(ctx, "INSERT INTO audit_writers (writer, started_at) VALUES (?, ?) ON CONFLICT (writer) DO NOTHING", writer, millis(now))
	if err != nil {
		return err
	}
	if n != 1 {
		return fmt.Errorf("database: writer id %q was used by an earlier run: every run needs its own", writer)
	}
	return nil
}

// Close commits the queued units, refuses later ones, and disconnects.
func (s *Store) Close() error {
	s.com.stop()
	return s.engine.close()
}

// Writer returns the id of this run's chain.
func (s *Store) Writer() string { return s.cfg.Writer }
