package sqlstore

import (
	"context"
	"database/sql"
	"sync"

	"ebb/migrations"
)

// hot are the statements of reads that each request through egress makes. SQLite takes
// longer to prepare one than to run it; the driver of PostgreSQL keeps its own.
type hot struct {
	mu sync.Mutex
	of map[string]*sql.Stmt
}

// hotPool is pool for such reads: their texts are few and fixed.
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

// prepare is the statement of a text. It belongs to the handle, which prepares it for each of
// its connections and closes it with itself.
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
