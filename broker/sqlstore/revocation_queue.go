package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

// revocationStore is the revocation queue: replicas claim due leases and record the
// outcome.
type revocationStore struct {
	com    *committer
	engine *engine
}

// due selects leases that may be claimed. Both of its parameters are the current time.
const due = "u.next_at > 0 AND u.next_at <= ? AND u.claimed_until <= ?"

// chooseDue lists the due leases of a provider. Task trees take turns, and within the
// turns of a tree its tasks do. At most as many leases of one task as are asked for enter
// the join with tasks.
const chooseDue = "SELECT lease_id FROM (SELECT i.lease_id, i.next_at, row_number() OVER (PARTITION BY coalesce(nullif(t.root_id, ''), i.task_id) ORDER BY i.turn, i.next_at) AS turn " +
	"FROM (SELECT u.lease_id, u.task_id, u.next_at, row_number() OVER (PARTITION BY u.task_id ORDER BY u.next_at) AS turn " +
	"FROM upstream_leases u WHERE u.provider = ? AND " + due + ") i LEFT JOIN tasks t ON t.id = i.task_id WHERE i.turn <= ?) o ORDER BY turn, next_at LIMIT ?"

// spare is the number of chosen leases for each lease asked for: other replicas may be
// claiming the same ones.
const spare = 4

// claim is a claimed lease and the fence of the claim.
type claim struct {
	id    string
	fence int64
}

func scanClaim(row scan) (c claim, err error) { return c, row(&c.id, &c.fence) }

// Take implements broker.RevocationQueue. Sorting tens of thousands of due leases into turns must
// not block the committer. So the choice takes no locks, and the claim takes those of the
// chosen leases that are still free. If other replicas claimed all of them, Take chooses
// again. An empty result means that no lease was due.
func (q *revocationStore) Take(ctx context.Context, provider string, now, hold time.Time, n int) ([]broker.Claimed, error) {
	if provider == "" || now.IsZero() || !hold.After(now) || n < 1 || n > maxTake {
		return nil, fmt.Errorf("take: it needs a provider, a claim that ends after now, and 1 to %d leases", maxTake)
	}
	for {
		chosen, err := collect(ctx, q.engine.read(), chooseDue, []any{provider, millis(now), millis(now), spare * n, spare * n},
			func(row scan) (id string, err error) { return id, row(&id) })
		if err == nil && len(chosen) == 0 {
			return nil, nil
		}
		var claims []claim
		if err == nil {
			claims, err = q.claimAny(ctx, chosen, millis(now), millis(hold), n)
		}
		if err == nil && len(claims) == 0 {
			// Another transaction holds all due leases, and it may hang. Choose again,
			// after a pause.
			select {
			case <-ctx.Done():
				err = ctx.Err()
			case <-time.After(takeAgain):
				continue
			}
		}
		var out []broker.Claimed
		if err == nil {
			out, err = q.claimed(ctx, claims)
		}
		if err != nil {
			return nil, fmt.Errorf("take: %w", q.engine.explain(err))
		}
		place := make(map[string]int, len(chosen))
		for i, id := range chosen {
			place[id] = i
		}
		slices.SortFunc(out, func(a, b broker.Claimed) int { return place[a.ID] - place[b.ID] })
		return out, nil
	}
}

// takeAgain is the pause of Take after other replicas claimed all due leases.
const takeAgain = 20 * time.Millisecond

// claimAny claims the first n free leases of chosen. With a single writer (SQLite) the
// committer does it.
func (q *revocationStore) claimAny(ctx context.Context, chosen []string, now, hold int64, n int) (claims []claim, err error) {
	if q.engine.skip != "" {
		return mark(ctx, q.engine.read(), q.engine.skip, chosen, now, hold, n)
	}
	err = q.com.do(ctx, &unit{work: func(ctx context.Context, sess *session, _ *unit) (err error) {
		claims, err = mark(ctx, sess, "", chosen, now, hold, n)
		sess.writes += len(claims)
		return err
	}})
	return claims, err
}

// mark claims leases. skip excludes rows that another transaction is claiming, revoking
// or closing.
func mark(ctx context.Context, q querier, skip string, chosen []string, now, hold int64, n int) ([]claim, error) {
	text := "UPDATE upstream_leases SET fence = fence + 1, claimed_until = ? WHERE lease_id IN (SELECT u.lease_id FROM upstream_leases u " +
		"WHERE u.lease_id IN (" + marks(chunk) + ") AND " + due + skip + ") RETURNING lease_id, fence"
	var claims []claim
	for len(chosen) > 0 && len(claims) < n {
		ids := chosen[:min(chunk, n-len(claims), len(chosen))]
		chosen = chosen[len(ids):]
		got, err := collect(ctx, q, text, slices.Concat([]any{hold}, padded(ids), []any{now, now}), scanClaim)
		if err != nil {
			return nil, err
		}
		claims = append(claims, got...)
	}
	return claims, nil
}

// padded repeats the last id up to the length of a chunk, so that one prepared statement
// serves every number of ids.
func padded(ids []string) []any {
	out := make([]any, chunk)
	for i := range out {
		out[i] = ids[min(i, len(ids)-1)]
	}
	return out
}

// claimed reads the claimed leases. It leaves out a lease that was claimed again, or
// settled by a person, in the meantime.
func (q *revocationStore) claimed(ctx context.Context, claims []claim) ([]broker.Claimed, error) {
	text := rawLease + " WHERE u.lease_id IN (" + marks(chunk) + ")"
	fences := make(map[string]int64, len(claims))
	ids := make([]string, len(claims))
	for i, c := range claims {
		fences[c.id], ids[i] = c.fence, c.id
	}
	out := make([]broker.Claimed, 0, len(claims))
	for ids := range slices.Chunk(ids, chunk) {
		got, err := collect(ctx, q.engine.read(), text, padded(ids), scanClaimed)
		if err != nil {
			return nil, err
		}
		for _, c := range got {
			if c.Fence == fences[c.ID] && !final(c.State) {
				out = append(out, c)
			}
		}
	}
	return out, nil
}

// rawLease selects leases with their recorded state at third parties.
var rawLease = "SELECT " + leaseFields + ", l.state, 0, '', '', " + upstreamFields + ", u.handle FROM upstream_leases u JOIN leases l ON l.id = u.lease_id"

func scanClaimed(row scan) (broker.Claimed, error) {
	var handle string
	l, fence, err := scanLeaseRow(row, &handle)
	if err == nil {
		l.Upstream.Handle = handle
	}
	return broker.Claimed{Lease: l, Fence: fence}, err
}

// DueBy implements broker.RevocationQueue. It updates at most maxTake rows per unit of the committer, so
// that other writes need not wait for all rows.
func (q *revocationStore) DueBy(ctx context.Context, at time.Time) error {
	by := millis(at)
	ids, err := collect(ctx, q.engine.read(), "SELECT u.lease_id FROM leases l CROSS JOIN upstream_leases u WHERE u.lease_id = l.id AND l.state IN ('intent', 'revoking') AND u.next_at > ? "+
		"UNION SELECT lease_id FROM upstream_leases WHERE next_at > 0 AND claimed_until > ?", []any{by, by},
		func(row scan) (id string, err error) { return id, row(&id) })
	if err != nil {
		return fmt.Errorf("due by: %w", q.engine.explain(err))
	}
	// Each UPDATE tests again, because a lease may have been settled since it was read.
	const claims = "UPDATE upstream_leases SET claimed_until = ? WHERE claimed_until > ? AND next_at > 0 AND lease_id IN ("
	const attempts = "UPDATE upstream_leases SET next_at = ? WHERE next_at > ? AND EXISTS (SELECT 1 FROM leases l WHERE l.id = upstream_leases.lease_id AND l.state IN ('intent', 'revoking')) AND lease_id IN ("
	for part := range slices.Chunk(ids, maxTake) {
		err := q.com.do(ctx, &unit{work: func(ctx context.Context, sess *session, _ *unit) error {
			for some := range slices.Chunk(part, chunk) {
				for _, text := range []string{claims, attempts} {
					if _, err := sess.exec(ctx, text+marks(chunk)+")", slices.Concat([]any{by, by}, padded(some))...); err != nil {
						return err
					}
				}
			}
			return nil
		}})
		if err != nil {
			return fmt.Errorf("due by: %w", q.engine.explain(err))
		}
	}
	return nil
}

// RevocationBacklog implements broker.RevocationQueue.
func (q *revocationStore) RevocationBacklog(ctx context.Context, now time.Time) ([]broker.RevocationBacklog, error) {
	if now.IsZero() {
		return nil, errors.New("revocation backlog: it needs a time")
	}
	// Both parts read few rows. Intents and revocations have an index of their own, and
	// of the many live leases only the due ones are looked up. The columns beside the
	// first part are subqueries: for a join, PostgreSQL without table statistics would
	// choose to read all of upstream_leases. CROSS JOIN, the comparison with '' and "+ 0"
	// keep SQLite, which has no row counts, from going through every lease that ever
	// expired.
	const text = "SELECT provider, sum(intent), sum(revoking), coalesce(min(nullif(since, 0)), 0), coalesce(min(nullif(next_at, 0)), 0) FROM (" +
		"SELECT (SELECT u.provider FROM upstream_leases u WHERE u.lease_id = l.id AND u.next_at > 0 AND (l.state = 'revoking' OR u.next_at <= ?)) AS provider, " +
		"CASE l.state WHEN 'intent' THEN 1 ELSE 0 END AS intent, CASE l.state WHEN 'intent' THEN 0 ELSE 1 END AS revoking, " +
		"CASE l.state WHEN 'intent' THEN l.issued_at ELSE l.revoked_at END AS since, (SELECT u.next_at FROM upstream_leases u WHERE u.lease_id = l.id) AS next_at " +
		"FROM leases l WHERE l.state IN ('intent', 'revoking') " +
		"UNION ALL SELECT u.provider, 0, 1, l.expires_at, u.next_at FROM upstream_leases u CROSS JOIN leases l " +
		"WHERE l.id = u.lease_id AND u.provider > '' AND u.next_at > 0 AND u.next_at <= ? AND l.state = 'live' AND l.expires_at + 0 <= ?" +
		") o WHERE provider IS NOT NULL GROUP BY provider ORDER BY provider"
	at := millis(now)
	out, err := collect(ctx, q.engine.read(), text, []any{at, at, at}, func(row scan) (broker.RevocationBacklog, error) {
		var o broker.RevocationBacklog
		var oldest, next int64
		err := row(&o.Provider, &o.Intents, &o.Revoking, &oldest, &next)
		o.Oldest, o.NextAt = fromMillis(oldest), fromMillis(next)
		return o, err
	})
	if err != nil {
		return nil, fmt.Errorf("revocation backlog: %w", q.engine.explain(err))
	}
	return out, nil
}

// Held implements broker.RevocationQueue.
func (q *revocationStore) Held(ctx context.Context) (map[string]int, error) {
	out := map[string]int{}
	_, err := collect(ctx, q.engine.read(), "SELECT provider, count(*) FROM upstream_leases WHERE next_at > 0 GROUP BY provider", nil, func(row scan) (struct{}, error) {
		var name string
		var n int
		err := row(&name, &n)
		out[name] = n
		return struct{}{}, err
	})
	if err != nil {
		return nil, fmt.Errorf("held: %w", q.engine.explain(err))
	}
	return out, nil
}

// Sealed implements broker.RevocationQueue.
func (q *revocationStore) Sealed(ctx context.Context, notBy, after string, n int) ([]broker.Lease, error) {
	if n < 1 || n > maxTake {
		return nil, fmt.Errorf("sealed: ask for 1 to %d", maxTake)
	}
	// LIKE differs between the engines.
	text := rawLease + " WHERE u.next_at > 0 AND u.handle <> '' AND replace(u.handle, ?, '') = u.handle AND u.lease_id > ? ORDER BY u.lease_id LIMIT ?"
	out, err := collect(ctx, q.engine.read(), text, []any{"." + notBy + ".", after, n}, func(row scan) (broker.Lease, error) {
		c, err := scanClaimed(row)
		return c.Lease, err
	})
	if err != nil {
		return nil, fmt.Errorf("sealed: %w", q.engine.explain(err))
	}
	return out, nil
}
