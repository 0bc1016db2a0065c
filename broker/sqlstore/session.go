package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/migrations"
)

// querier runs queries; a session and a pool implement it.
type querier interface {
	query(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}

// pool reads outside of any transaction.
type pool struct {
	e  *engine
	db *sql.DB
}

func (e *engine) read() pool { return pool{e, e.reader} }

func (p pool) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	return p.db.QueryContext(ctx, p.e.dialectText(text), args...)
}

// session is one connection with its prepared statements. Transactions are begun and
// ended in SQL: database/sql would prepare every statement again in each of its own
// transactions.
type session struct {
	e      *engine
	conn   *sql.Conn
	stmts  map[string]*sql.Stmt
	writes int // number of rows changed so far
}

func openSession(ctx context.Context, e *engine) (*session, error) {
	conn, err := e.writer.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &session{e: e, conn: conn, stmts: map[string]*sql.Stmt{}}, nil
}

func (s *session) prepare(ctx context.Context, text string) (*sql.Stmt, error) {
	if st := s.stmts[text]; st != nil {
		return st, nil
	}
	st, err := s.conn.PrepareContext(ctx, s.e.dialectText(text))
	if err != nil {
		return nil, err
	}
	s.stmts[text] = st
	return st, nil
}

// exec runs a prepared statement and returns the number of changed rows.
func (s *session) exec(ctx context.Context, text string, args ...any) (int64, error) {
	st, err := s.prepare(ctx, text)
	if err != nil {
		return 0, err
	}
	r, err := st.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	n, err := r.RowsAffected()
	s.writes += int(n)
	return n, err
}

func (s *session) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	st, err := s.prepare(ctx, text)
	if err != nil {
		return nil, err
	}
	return st.QueryContext(ctx, args...)
}

// say runs a statement without rows or arguments: BEGIN, COMMIT, ROLLBACK.
func (s *session) say(ctx context.Context, text string) error {
	_, err := s.conn.ExecContext(ctx, text)
	return err
}

// statement is an SQL text of the dialect with its arguments.
type statement struct {
	text string
	args []any
}

// finish runs the statements and commits; if begin is set, it begins the transaction
// first. The error wraps ErrUnknown when the database may have committed. Otherwise it
// has not committed, and the transaction may still be open.
func (s *session) finish(ctx context.Context, begin bool, sts []statement) error {
	if len(sts) == 0 && begin {
		return nil // every unit refused: no statement to run
	}
	if s.e.pipeline != nil {
		return s.e.pipeline(ctx, s.conn, begin, sts)
	}
	if begin {
		if err := s.say(ctx, s.e.begin); err != nil {
			return err
		}
	}
	for _, st := range sts {
		if _, err := s.exec(ctx, st.text, st.args...); err != nil {
			return err
		}
	}
	if err := s.say(ctx, "COMMIT"); err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	return nil
}

// close gives the connection up; the server undoes an unfinished transaction on it.
func (s *session) close() {
	for _, st := range s.stmts {
		_ = st.Close()
	}
	_ = s.conn.Raw(func(any) error { return errDiscard })
	_ = s.conn.Close()
}

func (e *engine) dialectText(text string) string {
	if e.dialect == migrations.Postgres {
		return dollars(text)
	}
	return text
}

// scan is the Scan method of a row.
type scan func(dest ...any) error

// each returns the rows of a query. It ends after an error.
func each[T any](ctx context.Context, q querier, text string, args []any, one func(scan) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		rows, err := q.query(ctx, text, args...)
		if err != nil {
			yield(none, err)
			return
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			v, err := one(rows.Scan)
			if !yield(v, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(none, err)
		}
	}
}

// collect reads all rows of a query.
func collect[T any](ctx context.Context, q querier, text string, args []any, one func(scan) (T, error)) (out []T, err error) {
	for v, err := range each(ctx, q, text, args, one) {
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// single returns the row found by its key, or the error none if there is no row.
func single[T any](found []T, err error, what string, none error) (T, error) {
	if err == nil && len(found) == 0 {
		err = none
	}
	if err != nil {
		var v T
		return v, fmt.Errorf("%s: %w", what, err)
	}
	return found[0], nil
}

// exists reports whether a query has a row.
func exists(ctx context.Context, q querier, text string, args ...any) (bool, error) {
	rows, err := q.query(ctx, text, args...)
	if err != nil {
		return false, err
	}
	found := rows.Next()
	return found, errors.Join(rows.Err(), rows.Close())
}

// errDiscard makes database/sql discard a connection.
var errDiscard = driver.ErrBadConn

// dollars turns each ? into $1, $2, ... No SQL text of this package has a ? in a literal.
func dollars(text string) string {
	var b strings.Builder
	b.Grow(len(text) + 64)
	n := 0
	for {
		before, after, found := strings.Cut(text, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		n++
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(n))
		text = after
	}
}

// bulk is an INSERT of 1 to chunk rows; it caches the text for each number of rows.
type bulk struct {
	e     *engine
	head  string // INSERT INTO t (a, b) VALUES
	row   string // (?, ?)
	tail  string // after the last row
	texts [chunk + 1]string
}

func (b *bulk) text(n int) string {
	if b.texts[n] == "" {
		b.texts[n] = b.e.dialectText(b.head + " " + b.row + strings.Repeat(", "+b.row, n-1) + b.tail)
	}
	return b.texts[n]
}

func marks(n int) string { return "?" + strings.Repeat(", ?", n-1) }

// where collects conditions and their arguments.
type where struct {
	conds []string
	args  []any
}

func (w *where) add(cond string, args ...any) {
	w.conds = append(w.conds, cond)
	w.args = append(w.args, args...)
}

// equal adds column = value unless value is empty.
func (w *where) equal(column, value string) {
	if value != "" {
		w.add(column+" = ?", value)
	}
}

func (w *where) in(column string, values []string) {
	if len(values) == 0 {
		return
	}
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = v
	}
	w.add(column+" IN ("+marks(len(values))+")", args...)
}

func (w *where) String() string {
	if len(w.conds) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conds, " AND ")
}

const (
	defaultLimit = 50
	maxLimit     = 1000
	maxIDs       = 1000
)

// page adds the cursor and returns the ORDER BY and LIMIT clauses.
func (w *where) page(column string, p broker.Page, ids []string) (order, limit string, err error) {
	if p.Limit < 0 || p.Limit > maxLimit {
		return "", "", fmt.Errorf("the limit is %d: ask for 1 to %d", p.Limit, maxLimit)
	}
	if len(ids) > maxIDs {
		return "", "", fmt.Errorf("%d ids: ask for at most %d at a time", len(ids), maxIDs)
	}
	w.in(column, ids)
	op, dir := " > ?", " ASC"
	if p.Desc {
		op, dir = " < ?", " DESC"
	}
	if p.After != "" {
		w.add(column+op, p.After)
	}
	n := p.Limit
	if n == 0 {
		n = defaultLimit
	}
	return " ORDER BY " + column + dir, " LIMIT " + strconv.Itoa(n), nil
}

// millis returns the stored form of a time: Unix milliseconds, 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// chunk is the maximum number of rows of one INSERT. It is far below the parameter limit
// of both engines, and keeps the number of prepared texts small.
const chunk = 64

// maxTake is the maximum of one claim and of one page of sealed handles.
const maxTake = 1000
