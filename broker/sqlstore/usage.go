package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/report"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// The statements of Usage. Each uses an index on the time that bounds it. kind <>
// 'lease.issued' is the condition of the partial index, which is not used without it.
const (
	// usageUses counts the uses of each credential in a window, which may begin later
	// than the window of credentials.
	usageUses = "SELECT lease_id, COUNT(*) AS n, MAX(at) AS newest FROM audit_entries " +
		"WHERE kind = 'egress.allowed' AND kind <> 'lease.issued' AND at >= ? AND at < ? GROUP BY lease_id"

	usageGranted = "SELECT l.id, l.provider, l.scope, l.tool, l.owner, l.task_id, " + endedAt + " AS ended FROM leases l LEFT JOIN tasks t ON t.id = l.task_id " +
		"WHERE l.issued_at >= ? AND l.issued_at < ? AND l.state <> 'intent' AND " + wasMade + " AND l.delivery = 'egress'"
)

// usageHandedOut counts credentials delivered to the sandbox. Its parameters are the end
// of the window, the window, and its beginning.
var usageHandedOut = "SELECT COUNT(*), COALESCE(SUM(" + usedOnce("l.id") + "), 0)" + issuedIn + " AND l.delivery <> 'egress'"

// usedOnce is 1 when a credential was used before the time in its one parameter, else 0.
// It reads only the entries of that credential, which are few before the first use. Both
// databases would rather read all uses. The text after kind keeps SQLite from the index
// on kind. The value with a LIMIT, in place of EXISTS, keeps PostgreSQL from a hash of
// all uses.
func usedOnce(id string) string {
	return "COALESCE((SELECT 1 FROM audit_entries WHERE lease_id = " + id + " AND lease_id <> '' AND kind || '' = 'egress.allowed' AND at < ? LIMIT 1), 0)"
}

// usageEdges are the edges of Usage: of credentials, and of uses.
var usageEdges = [2]edge{edges[0], {
	"SELECT at FROM audit_entries WHERE kind = 'egress.allowed' AND kind <> 'lease.issued' AND at >= ? AND at < ? ORDER BY at DESC LIMIT 1 OFFSET ?", broker.FigureRows,
}}

// usageColumns are the columns by which rows are grouped.
var usageColumns = map[broker.UsageBy]struct {
	names []string
	into  func(*broker.GrantUsage) []any
}{
	report.UsageByScope: {[]string{"g.provider", "g.scope", "g.tool"}, func(r *broker.GrantUsage) []any { return []any{&r.Provider, &r.Scope, &r.Tool} }},
	report.UsageByOwner: {[]string{"g.owner"}, func(r *broker.GrantUsage) []any { return []any{&r.Owner} }},
	report.UsageByTask:  {[]string{"g.task_id", "g.owner"}, func(r *broker.GrantUsage) []any { return []any{&r.TaskID, &r.Owner} }},
}

// usageText returns the grouping statement. Its parameters are the window, its beginning,
// its end, the window of uses, the time, and the number of rows. Only for credentials
// without a use in the window of uses does it look for any earlier use. The parts are
// MATERIALIZED: to group without a sort, SQLite would otherwise read all leases by an
// index on the owner, and compute the uses twice.
func usageText(columns []string) string {
	by := strings.Join(columns, ", ")
	return "WITH c AS MATERIALIZED (" + usageGranted + "), g AS MATERIALIZED (SELECT c.*, x.n, x.newest, CASE WHEN x.n > 0 THEN 1 ELSE " + usedOnce("c.id") + " END AS used " +
		"FROM c LEFT JOIN (" + usageUses + ") x ON x.lease_id = c.id) SELECT " + by + ", COUNT(*) AS issued, SUM(g.used), SUM(CASE WHEN g.used = 0 AND g.ended <= ? THEN 1 ELSE 0 END) AS unused, " +
		"CAST(COALESCE(SUM(g.n), 0) AS BIGINT), COALESCE(MAX(g.newest), 0) FROM g GROUP BY " + by + " ORDER BY unused DESC, issued DESC, " + by + " LIMIT ?"
}

// Usage implements broker.Statistics. It is several statements, as Figures is.
func (fs *figureStore) Usage(ctx context.Context, f broker.UsageFilter) (broker.Usage, error) {
	if _, known := usageColumns[f.By]; !known || f.From.IsZero() || !f.From.Before(f.Now) {
		return broker.Usage{}, errors.New("usage: the time, a window before it, and a grouping by scope, owner or task are required")
	}
	err := fs.com.flushed(ctx)
	var out broker.Usage
	if err == nil {
		out, err = fs.usage(ctx, f, usageEdges)
	}
	if err != nil {
		return broker.Usage{}, fmt.Errorf("usage: %w", fs.engine.explain(err))
	}
	return out, nil
}

func (fs *figureStore) usage(ctx context.Context, f broker.UsageFilter, edges [2]edge) (broker.Usage, error) {
	columns, out := usageColumns[f.By], broker.Usage{At: f.Now, By: f.By}
	to := millis(f.Now) + 1
	from, cut, err1 := fs.cutAt(ctx, edges[:1], millis(f.From), to)
	uses, _, err4 := fs.cutAt(ctx, edges[1:], from, to) // a credential has no use before its issue
	out.From, out.Cut, out.UsesFrom = fromMillis(from), cut, fromMillis(uses)
	handed, err2 := collect(ctx, fs.engine.read(), usageHandedOut, []any{to, from, to, from}, func(row scan) (n [2]int, err error) { return n, row(&n[0], &n[1]) })
	rows, err3 := collect(ctx, fs.engine.read(), usageText(columns.names), []any{from, to, from, to, uses, to, millis(f.Now), report.UsageRows + 1},
		func(row scan) (r broker.GrantUsage, err error) {
			var last int64
			err = row(append(columns.into(&r), &r.Issued, &r.Used, &r.Unused, &r.Uses, &last)...)
			r.LastUsed = fromMillis(last)
			return r, err
		})
	for _, n := range handed {
		out.HandedOut, out.Carried = n[0], n[1]
	}
	out.More = len(rows) > report.UsageRows
	out.Items = rows[:min(len(rows), report.UsageRows)]
	return out, errors.Join(err1, err2, err3, err4)
}

// figureVotes selects votes on requests that no longer wait. A vote on a pending request
// is left out: otherwise approvers and auditors could read the first of two votes from
// the sums.
const figureVotes = "SELECT v.voter, v.voter_groups, v.approve, v.voted_at, v.shown_at, r.ask FROM votes v JOIN requests r ON r.id = v.request_id " +
	"WHERE v.voted_at >= ? AND v.voted_at < ? AND (r.state <> 'pending' OR r.expires_at <= ?) ORDER BY v.voted_at DESC, v.request_id DESC, v.place DESC"

// decisions returns the votes of a window on requests that no longer wait, newest first.
// Medians are computed in Go, because the votes are few.
func (fs *figureStore) decisions(ctx context.Context, from, to, now int64) ([]broker.Decision, error) {
	groups, asks := read[[]string]{}, read[policy.Approval]{}
	return collect(ctx, fs.engine.read(), figureVotes, []any{from, to, now}, func(row scan) (broker.Decision, error) {
		var d broker.Decision
		var of, ask string
		var approve, at, shown int64
		if err := row(&d.By, &of, &approve, &at, &shown, &ask); err != nil {
			return d, err
		}
		d.Approve, d.At = approve != 0, fromMillis(at)
		if d.Timed = shown > 0; d.Timed {
			d.Took = max(time.Duration(at-shown)*time.Millisecond, 0)
		}
		has, err := groups.of(of)
		if err != nil {
			return d, err
		}
		asked, err := asks.of(ask)
		if err != nil {
			return d, err
		}
		for _, g := range has {
			if slices.Contains(asked.Groups, g) {
				d.Groups = append(d.Groups, g)
			}
		}
		slices.Sort(d.Groups)
		d.Groups = slices.Compact(d.Groups)
		return d, nil
	})
}

// read caches parsed JSON texts by their text: the same few texts are in many rows.
type read[T any] map[string]T

func (r read[T]) of(text string) (T, error) {
	v, ok := r[text]
	if ok {
		return v, nil
	}
	err := json.Unmarshal([]byte(text), &v)
	if err == nil && len(r) < 1024 {
		r[text] = v
	}
	return v, err
}

// revocationTimes returns how long revocations at each provider took in a window.
func (fs *figureStore) revocationTimes(ctx context.Context, from, to int64) ([]broker.RevocationTimes, error) {
	type rank struct {
		provider string
		n, at    int
		took     int64
	}
	ranks, err := collect(ctx, fs.engine.read(), figureRevocations, []any{from, to}, func(row scan) (r rank, err error) { return r, row(&r.provider, &r.n, &r.at, &r.took) })
	if err != nil {
		return nil, err
	}
	by := map[string]*broker.RevocationTimes{}
	of := func(provider string) *broker.RevocationTimes {
		if by[provider] == nil {
			by[provider] = &broker.RevocationTimes{Provider: provider}
		}
		return by[provider]
	}
	for _, r := range ranks {
		d, took := of(r.provider), max(time.Duration(r.took)*time.Millisecond, 0)
		d.N = r.n
		if r.at == (r.n*50+99)/100 {
			d.P50 = took
		}
		if r.at == (r.n*95+99)/100 {
			d.P95 = took
		}
		if r.at == r.n {
			d.Max = took
		}
	}
	type proof struct {
		provider string
		how      broker.Proof
		n        int
	}
	proofs, err := collect(ctx, fs.engine.read(), figureProofs, []any{from, to}, func(row scan) (p proof, err error) { return p, row(&p.provider, &p.how, &p.n) })
	if err != nil {
		return nil, err
	}
	for _, p := range proofs {
		switch d := of(p.provider); p.how {
		case broker.ProofExpired:
			d.ByExpiry = p.n
		case broker.ProofNever:
			d.Never = p.n
		case broker.ProofForced:
			d.Forced = p.n
		}
	}
	out := make([]broker.RevocationTimes, 0, len(by))
	for _, d := range by {
		out = append(out, *d)
	}
	slices.SortFunc(out, func(a, b broker.RevocationTimes) int { return cmp.Compare(a.Provider, b.Provider) })
	return out, nil
}
