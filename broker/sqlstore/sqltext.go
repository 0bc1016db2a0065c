package sqlstore

import (
	"database/sql/driver"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

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
