package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/secretstore"
	"github.com/ebb-broker/ebb/migrations"
)

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
	if s.cfg.Exclusive {
		s.secretStore.kept.rows = map[string]secretstore.Row{}
	}
	s.taskStore = &taskStore{engine: s.engine}
	s.leaseStore = &leaseStore{engine: s.engine}
	s.requestStore = &requestStore{com: s.com, engine: s.engine}
	s.emergencyStore = &emergencyStore{com: s.com, engine: s.engine}
	s.auditStore = &auditStore{writer: s.cfg.Writer, com: s.com, engine: s.engine}
	s.storeWriter = &storeWriter{com: s.com, engine: s.engine}
	s.revocationStore = &revocationStore{com: s.com, engine: s.engine}
	s.figureStore = &figureStore{com: s.com, engine: s.engine}
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
	if err := s.openLog(ctx); err != nil {
		sess.close()
		return err
	}
	s.connect()
	go s.com.run()
	return nil
}

// openLog opens the log of egress entries if this process owns the SQLite database, and inserts
// the rows that the last run left in it. For a database of another owner it only inserts these
// rows.
func (s *Store) openLog(ctx context.Context) error {
	path := s.engine.path + logSuffix
	if s.engine.path == "" {
		return nil
	}
	if _, err := os.Lstat(path); !s.cfg.Exclusive && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	f, old, err := readLog(path)
	if err != nil {
		return err
	}
	l := noLog()
	l.file, l.round, l.delay = f, rand.Uint64(), s.cfg.flushTime
	entries, err := readFrames(old)
	if err == nil {
		l.waiting, err = withoutRow(ctx, s.com.sess, entries)
	}
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("database: %s: %w", path, err)
	}
	s.com.entryLog = l
	if n := len(l.waiting); n > 0 {
		if err = s.com.attempt(nil); err == nil {
			s.cfg.Logger.InfoContext(ctx, "inserted the rows of egress entries that the last run had left in the log", "entries", n)
		}
	}
	if err != nil || !s.cfg.Exclusive {
		l.close()
		s.com.entryLog = noLog()
	}
	return err
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

// Migrate applies pending migrations and returns their names.
func Migrate(ctx context.Context, cfg Config) ([]migrations.File, error) {
	_, eng, err := connect(ctx, cfg, true)
	if err != nil {
		return nil, err
	}
	done, err := migrations.Apply(ctx, eng.writer, eng.dialect)
	return done, errors.Join(eng.explain(err), eng.close())
}

// MigrationStatus reports the applied and the pending migrations. It changes nothing.
func MigrationStatus(ctx context.Context, cfg Config) (migrations.State, error) {
	_, eng, err := connect(ctx, cfg, false)
	if err != nil {
		return migrations.State{}, err
	}
	if eng == nil { // no file yet
		files, err := migrations.Files()
		return migrations.State{Pending: files}, err
	}
	st, err := migrations.Status(ctx, eng.writer, eng.dialect)
	return st, errors.Join(eng.explain(err), eng.close())
}

// migrate applies pending migrations, or refuses them if Config.Manual is set.
func (s *Store) migrate(ctx context.Context) error {
	if s.cfg.Manual {
		st, err := migrations.Status(ctx, s.engine.writer, s.engine.dialect)
		if err != nil {
			return err
		}
		if len(st.Pending) > 0 {
			return fmt.Errorf("database: %d migrations are pending, the first is %s: run `ebb migrate`", len(st.Pending), st.Pending[0].Name)
		}
		return nil
	}
	done, err := migrations.Apply(ctx, s.engine.writer, s.engine.dialect)
	if n := len(done); n > 0 {
		s.cfg.Logger.InfoContext(ctx, "database schema changed", "migrations", n, "first", done[0].Name, "last", done[n-1].Name)
	}
	return err
}
