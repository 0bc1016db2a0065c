package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/approval"
	"github.com/ebb-broker/ebb/migrations"
)

// RequestColumns are the columns of a request, in order.
const RequestColumns = requestColumns

// Patiently allows 5 minutes for a batch, for tests that write much at once under the
// race detector.
func (c Config) Patiently() Config {
	c.batchTime = 5 * time.Minute
	return c
}

// Hastily allows 1 ns for the integrity check at the start.
func (c Config) Hastily() Config {
	c.checkTime = time.Nanosecond
	return c
}

// Say runs a statement on the writing connection, for tests that set limits.
func (s *Store) Say(ctx context.Context, text string) error {
	return s.com.do(ctx, &unit{work: func(ctx context.Context, sess *session, _ *unit) error {
		rows, err := sess.conn.QueryContext(ctx, text)
		if err != nil {
			return err
		}
		for rows.Next() { // a PRAGMA takes effect when its row is read
		}
		return errors.Join(rows.Err(), rows.Close())
	}})
}

// Reconnect makes the committer lose its connection and open another one.
func (s *Store) Reconnect(ctx context.Context) error {
	first := true
	return s.com.do(ctx, &unit{work: func(_ context.Context, sess *session, _ *unit) error {
		if !first {
			return nil
		}
		first = false
		sess.close()
		return driver.ErrBadConn
	}})
}

// Hold keeps the committer busy until release is closed. It closes held once the
// committer is busy.
func (s *Store) Hold(held, release chan struct{}) error {
	return s.com.do(context.Background(), &unit{work: func(context.Context, *session, *unit) error {
		close(held)
		<-release
		return nil
	}})
}

// OpenLimited opens a SQLite store whose file cannot grow beyond the given number of
// pages, as on a full disk.
func OpenLimited(ctx context.Context, cfg Config, pages int) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg}
	if s.engine, err = openEngine(ctx, cfg, true); err != nil {
		return nil, err
	}
	_ = s.engine.writer.Close()
	if s.engine.writer, err = handle(strings.TrimPrefix(cfg.URL, "sqlite://"), fmt.Sprintf("&_pragma=max_page_count(%d)", pages), 1); err != nil {
		return nil, err
	}
	return s, s.start(ctx)
}

// Plans returns the query plans of a page of leases: of its window with the end of the
// window, and of the page.
func (s *Store) Plans(ctx context.Context, q broker.LeaseQuery) (window, page string, err error) {
	w, err := s.window(ctx, q)
	if err != nil {
		return "", "", err
	}
	inner := "SELECT l.id, l.task_id, l.scope FROM leases l" + w.in.String() + " ORDER BY " + w.order + fmt.Sprintf(" LIMIT %d", q.Look)
	if w.whole {
		inner = "SELECT l.id, l.task_id, l.scope FROM leases l" + w.in.String()
	}
	text, args := w.text(q.Look, q.Limit+1)
	window, err1 := s.Plan(ctx, inner, w.in.args...)
	page, err2 := s.Plan(ctx, text, append([]any{millis(q.Now)}, args...)...)
	return window, page, errors.Join(err1, err2)
}

// EntriesPlans returns the query plans of a page of the audit log.
func (s *Store) EntriesPlans(ctx context.Context, q broker.EntryQuery) (window, page string, err error) {
	w := entriesWindow(q)
	window, err1 := s.Plan(ctx, "SELECT "+entryColumns+" FROM audit_entries"+w.in.String()+" ORDER BY "+w.order+fmt.Sprintf(" LIMIT %d", q.Look), w.in.args...)
	page, err2 := s.Plan(ctx, w.text(q.Look, q.Limit+1), append(slices.Clone(w.in.args), w.rest.args...)...)
	return window, page, errors.Join(err1, err2)
}

// WaitingPlans returns the query plans of a page of the approval queue, of its count, and
// of its newest requests.
func (s *Store) WaitingPlans(ctx context.Context, f broker.WaitFilter) (page, count, newest string, err error) {
	text, args, err1 := waitingText(f)
	w, err2 := waiting(f)
	if err := errors.Join(err1, err2); err != nil {
		return "", "", "", err
	}
	page, err1 = s.Plan(ctx, text, args...)
	count, err2 = s.Plan(ctx, countText(w), w.args...)
	text, args, err3 := newestText(f.Now, f.Without, approval.MaxMarks)
	if err3 == nil {
		newest, err3 = s.Plan(ctx, text, args...)
	}
	return page, count, newest, errors.Join(err1, err2, err3)
}

// MarksPlan returns the query plan of Marks.
func (s *Store) MarksPlan(ctx context.Context, f broker.RequestFilter) (string, error) {
	text, args, err := marksText(f)
	if err != nil {
		return "", err
	}
	return s.Plan(ctx, text, args...)
}

// TasksPlan returns the query plan of a page of tasks.
func (s *Store) TasksPlan(ctx context.Context, f broker.TaskFilter) (string, error) {
	text, args, err := tasksText(f)
	if err != nil {
		return "", err
	}
	return s.Plan(ctx, text, args...)
}

// TallyPlans returns the query plans of LeaseTally.
func (s *Store) TallyPlans(ctx context.Context) (plans string, err error) {
	for _, which := range []string{" WHERE l.expires_at > 5 ORDER BY l.expires_at DESC", " WHERE l.state IN ('intent', 'revoking') ORDER BY l.id", " WHERE l.state = 'unconfirmed' ORDER BY l.id", " ORDER BY l.id DESC"} {
		p, err := s.Plan(ctx, tallyText(which), int64(5))
		if err != nil {
			return "", err
		}
		plans += p + "\n"
	}
	return plans, nil
}

// Plan returns the query plan of a statement, with one line for each step.
func (s *Store) Plan(ctx context.Context, text string, args ...any) (string, error) {
	explain := "EXPLAIN "
	if s.engine.dialect == migrations.SQLite {
		explain = "EXPLAIN QUERY PLAN "
	}
	steps, err := collect(ctx, s.engine.read(), explain+text, args, func(row scan) (step string, err error) {
		if s.engine.dialect == migrations.SQLite {
			var a, b, c int
			return step, row(&a, &b, &c, &step)
		}
		return step, row(&step)
	})
	return strings.Join(steps, "\n"), err
}

// UsageWithin is Usage with limits on the number of credentials and of uses.
func (s *Store) UsageWithin(ctx context.Context, f broker.UsageFilter, leases, uses int) (broker.Usage, error) {
	return s.usage(ctx, f, [2]edge{{usageEdges[0].text, leases}, {usageEdges[1].text, uses}})
}

// FigureTexts returns the statements of Figures and Usage, by name.
func FigureTexts() map[string]string {
	out := map[string]string{"requests": figureRequests, "refused": figureRefused, "issued": figureIssued, "ended": figureEnded, "scopes": figureScopes,
		"providers": figureProviders, "ends": figureEnds, "revocations": figureRevocations, "proofs": figureProofs, "votes": figureVotes, "day": figureDay, "handed out": usageHandedOut, "uses": usageUses}
	for by, columns := range usageColumns {
		out["usage by "+string(by)] = usageText(columns.names)
	}
	for _, e := range append(slices.Clone(edges), usageEdges[:]...) {
		out["edge: "+e.text] = e.text
	}
	return out
}

// Isolations returns the isolation levels of the committer, of readers and of streams.
func (s *Store) Isolations(ctx context.Context) ([]string, error) {
	const text = "SELECT current_setting('transaction_isolation')"
	var out [3]string
	err := s.com.do(ctx, &unit{work: func(ctx context.Context, sess *session, _ *unit) error {
		return sess.conn.QueryRowContext(ctx, text).Scan(&out[0])
	}})
	for i, db := range []*sql.DB{s.engine.reader, s.engine.stream} {
		err = errors.Join(err, db.QueryRowContext(ctx, text).Scan(&out[i+1]))
	}
	return out[:], err
}

// Later makes the outcomes stored for Writable older by d.
func (s *Store) Later(d time.Duration) {
	o := &s.com.outcomes
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = o.last.Add(-d)
	if !o.failed.IsZero() {
		o.failed = o.failed.Add(-d)
	}
}

// LateRows makes rows of egress entries wait for an hour, or for the next commit.
func (c Config) LateRows() Config { return c.RowsAfter(time.Hour) }

// RowsAfter sets how long rows of egress entries wait.
func (c Config) RowsAfter(d time.Duration) Config {
	c.flushTime = d
	return c
}

// Continue makes s write to the chain of another run.
func (s *Store) Continue(ctx context.Context, writer string) error {
	s.com.writer = writer
	return s.Reconnect(ctx)
}

// FailingLog makes writes to the log of egress entries fail while fail is set. They write half of
// their bytes, as on a full disk, or all of them, as when they cannot be made durable.
func (s *Store) FailingLog(fail *atomic.Bool, all bool) error {
	return s.com.do(context.Background(), &unit{work: func(context.Context, *session, *unit) error {
		s.com.entryLog.file = failingLog{s.com.entryLog.file, fail, all}
		return nil
	}})
}

type failingLog struct {
	logFile
	fail *atomic.Bool
	all  bool
}

func (f failingLog) WriteAt(b []byte, at int64) (int, error) {
	switch {
	case !f.fail.Load():
		return f.logFile.WriteAt(b, at)
	case f.all:
		_, _ = f.logFile.WriteAt(b, at)
		return 0, syscall.EIO
	default:
		n, _ := f.logFile.WriteAt(b[:len(b)/2], at)
		return n, syscall.ENOSPC
	}
}

// LoseOutcome makes the committer lose the outcome of a commit, and so its connection.
func (s *Store) LoseOutcome() error {
	return s.com.do(context.Background(), &unit{work: func(context.Context, *session, *unit) error { return ErrUnknown }})
}

// WithoutRow returns how many egress entries are durable without a row.
func (s *Store) WithoutRow() int { return int(s.com.entryLog.count.Load()) }

// AppendFrame and ReadFrames export appendFrame and readFrames.
var (
	AppendFrame = appendFrame
	ReadFrames  = readFrames
)

// LogSuffix exports logSuffix.
const LogSuffix = logSuffix
