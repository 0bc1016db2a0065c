package sqlstore

import (
	"context"
	"database/sql"
	"sync"

	"github.com/ebb-broker/ebb/migrations"
)

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
