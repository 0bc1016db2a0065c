package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"ebb/broker"
)

// What usage reads, each by an index on the time that bounds it. kind <> 'lease.issued' is the
// condition of the partial index, without which it is not used.
const (
	// usageUses is of each credential what went through with it: nothing of it is older than the credential.
	usageUses = "SELECT lease_id, COUNT(*) AS n, MAX(at) AS newest FROM audit_entries " +
		"WHERE kind = 'egress.allowed' AND kind <> 'lease.issued' AND at >= ? AND at < ? GROUP BY lease_id"

	usageGranted = "SELECT l.id, l.provider, l.scope, l.tool, l.owner, l.task_id, " + endedAt + " AS ended FROM leases l LEFT JOIN tasks t ON t.id = l.task_id " +
		"WHERE l.issued_at >= ? AND l.issued_at < ? AND l.state <> 'intent' AND " + wasMade + " AND l.delivery = 'egress'"

	// Its parameters are the window, the window once more, and its beginning.
	usageHandedOut = "SELECT COUNT(*), COALESCE(SUM(CASE WHEN l.id IN (SELECT lease_id FROM audit_entries WHERE kind = 'egress.allowed' AND kind <> 'lease.issued' AND at >= ? AND at < ?) THEN 1 ELSE 0 END), 0)" +
		issuedIn + " AND l.delivery <> 'egress'"
)

// usageEdges are as edges.
var usageEdges = []edge{edges[0], {
	"SELECT at FROM audit_entries WHERE kind = 'egress.allowed' AND kind <> 'lease.issued' AND at >= ? AND at < ? ORDER BY at DESC LIMIT 1 OFFSET ?", broker.FigureRows,
}}

// usageColumns are what rows are put together by.
var usageColumns = map[broker.UsageBy]struct {
	names []string
	into  func(*broker.GrantUsage) []any
}{
	broker.UsageByScope: {[]string{"g.provider", "g.scope", "g.tool"}, func(r *broker.GrantUsage) []any { return []any{&r.Provider, &r.Scope, &r.Tool} }},
	broker.UsageByOwner: {[]string{"g.owner"}, func(r *broker.GrantUsage) []any { return []any{&r.Owner} }},
	broker.UsageByTask:  {[]string{"g.task_id", "g.owner"}, func(r *broker.GrantUsage) []any { return []any{&r.TaskID, &r.Owner} }},
}

// usageText sums up; its parameters are the window, its beginning, the moment, the window
// once more, and how many rows. Materialized, because to group without a sort SQLite would
// walk through all there is by an index on the owner.
func usageText(columns []string) string {
	by := strings.Join(columns, ", ")
	return "WITH g AS MATERIALIZED (" + usageGranted + ") SELECT " + by + ", COUNT(*) AS issued, COUNT(x.lease_id), SUM(CASE WHEN x.lease_id IS NULL AND g.ended <= ? THEN 1 ELSE 0 END) AS unused, " +
		"CAST(COALESCE(SUM(x.n), 0) AS BIGINT), COALESCE(MAX(x.newest), 0) FROM g LEFT JOIN (" + usageUses + ") x ON x.lease_id = g.id " +
		"GROUP BY " + by + " ORDER BY unused DESC, issued DESC, " + by + " LIMIT ?"
}

// Usage implements broker.Statistics. It is several statements, as Figures is.
func (s *Store) Usage(ctx context.Context, f broker.UsageFilter) (broker.Usage, error) {
	if _, known := usageColumns[f.By]; !known || f.From.IsZero() || !f.From.Before(f.Now) {
		return broker.Usage{}, errors.New("usage: it needs the time, a window before that, and what rows are put together by")
	}
	out, err := s.usage(ctx, f, usageEdges)
	if err != nil {
		return broker.Usage{}, fmt.Errorf("usage: %w", s.engine.explain(err))
	}
	return out, nil
}

func (s *Store) usage(ctx context.Context, f broker.UsageFilter, edges []edge) (broker.Usage, error) {
	columns, out := usageColumns[f.By], broker.Usage{At: f.Now, By: f.By}
	to := millis(f.Now) + 1
	from, cut, err1 := s.cutAt(ctx, edges, millis(f.From), to)
	out.From, out.Cut = fromMillis(from), cut
	handed, err2 := collect(ctx, s.engine.read(), usageHandedOut, []any{from, to, from, to, from}, func(row scan) (n [2]int, err error) { return n, row(&n[0], &n[1]) })
	rows, err3 := collect(ctx, s.engine.read(), usageText(columns.names), []any{from, to, from, millis(f.Now), from, to, broker.UsageRows + 1},
		func(row scan) (r broker.GrantUsage, err error) {
			var last int64
			err = row(append(columns.into(&r), &r.Issued, &r.Used, &r.Unused, &r.Uses, &last)...)
			r.LastUsed = fromMillis(last)
			return r, err
		})
	for _, n := range handed {
		out.HandedOut, out.Carried = n[0], n[1]
	}
	out.More = len(rows) > broker.UsageRows
	out.Items = rows[:min(len(rows), broker.UsageRows)]
	return out, errors.Join(err1, err2, err3)
}
