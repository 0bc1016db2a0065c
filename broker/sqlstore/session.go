package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

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
