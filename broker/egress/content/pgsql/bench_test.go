package pgsql_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker/egress/content/pgsql"
)

const usual = "SELECT a, b FROM orders o JOIN customers c ON o.cid = c.id WHERE c.name = $1 AND o.total > 10 ORDER BY 1 LIMIT 10"

func BenchmarkClassify(b *testing.B) {
	for name, sql := range map[string]string{
		"usual":   usual,
		"insert":  "INSERT INTO orders (a, b, c) VALUES ($1, $2, $3) ON CONFLICT (a) DO UPDATE SET b = excluded.b RETURNING a",
		"catalog": "SELECT c.relname, n.nspname, pg_catalog.pg_get_userbyid(c.relowner) FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p') AND n.nspname !~ '^pg_toast' AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1, 2",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = pgsql.Classify(sql, known)
			}
		})
	}
	for name, sql := range large() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(sql)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = pgsql.Classify(sql, known)
			}
		})
	}
}

// large returns texts of 1 MiB that are expensive for a careless parser.
func large() map[string]string {
	const size = 1<<20 - 100
	fill := func(before, piece, after string) string {
		return before + strings.Repeat(piece, (size-len(before)-len(after))/len(piece)) + after
	}
	return map[string]string{
		"1 MiB of values":      fill("INSERT INTO t VALUES (1, 'x')", ", (2, 'y')", ""),
		"1 MiB of tables":      fill("SELECT 1 FROM t", ", t", ""),
		"1 MiB of names":       fill("WITH a AS (SELECT 1)", ", a AS (SELECT 1)", " TABLE a"),
		"1 MiB of statements":  fill("", "SELECT 1;", ""),
		"1 MiB of changes":     fill("WITH a AS (SELECT 1)", ", b AS (DELETE FROM t WHERE a OR b OR c)", " SELECT 1"),
		"1 MiB of parentheses": fill("SELECT ", "(", ""),
		"1 MiB of groups":      fill("SELECT 1", "+(((((((((1)))))))))", ""),
		"1 MiB of comments":    fill("", "/*", ""),
		"1 MiB of ended lines": fill("SELECT 'a'", "\n''", ""),
		"1 MiB of gaps":        fill("SELECT 'a'", "\n 'a' x", ""),
		"1 MiB of quotes":      fill("SELECT '", "''", "'"),
		"1 MiB of dollars":     fill("SELECT ", "$a$b", ""),
		"1 MiB of tags":        fill("SELECT 1 ", "$$a", "$"),
		"1 MiB of words":       fill("CREATE TABLE x (a int) ", "like ", ""),
		"1 MiB of conditions":  fill("DELETE FROM t WHERE a", " OR a", ""),
		"1 MiB of casts":       fill("SELECT 1", "::a", ""),
		"1 MiB of periods":     fill("SELECT a", ".a", ""),
	}
}

// TestLinearTime: no text of 1 MiB takes 5 s. A linear parser takes about 0.1 s, also with the race
// detector on a busy machine far less than 5 s; a quadratic one takes minutes.
//
//ebb:invariant I12 The time to classify an SQL text grows linearly with its size
func TestLinearTime(t *testing.T) {
	t.Parallel()
	for name, sql := range large() {
		start := time.Now()
		_, _ = pgsql.Classify(sql, known)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: %v", name, took)
		}
	}
}

func BenchmarkGuard(b *testing.B) {
	w := pgsql.NewGuard(known, func(pgsql.Text) *pgsql.Denial { return nil }).Client(io.Discard)
	query := []byte(message('Q', usual+"\x00"))
	rows := bytes.Repeat([]byte(message('d', strings.Repeat("x", 1000))), 32)
	b.Run("query", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = w.Write(query)
		}
	})
	b.Run("copy", func(b *testing.B) {
		b.SetBytes(int64(len(rows)))
		b.ReportAllocs()
		for b.Loop() {
			_, _ = w.Write(rows)
		}
	})
}
