package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ebb/broker"
)

// maxTake bounds a claim and a page of sealed handles.
const maxTake = 1000

// due is what may be claimed; its parameters are twice the time.
const due = "u.next_at > 0 AND u.next_at <= ? AND u.claimed_until <= ?"

// chooseDue lists what is due at a provider: trees of tasks take turns, and in the
// turns of its tree each task. What comes after as many of its own task as are asked
// for is left out before trees are looked up.
const chooseDue = "SELECT lease_id FROM (SELECT i.lease_id, i.next_at, row_number() OVER (PARTITION BY coalesce(nullif(t.root_id, ''), i.task_id) ORDER BY i.turn, i.next_at) AS turn " +
	"FROM (SELECT u.lease_id, u.task_id, u.next_at, row_number() OVER (PARTITION BY u.task_id ORDER BY u.next_at) AS turn " +
	"FROM upstream_leases u WHERE u.provider = ? AND " + due + ") i LEFT JOIN tasks t ON t.id = i.task_id WHERE i.turn <= ?) o ORDER BY turn, next_at LIMIT ?"

// spare is how many times as many leases are chosen as are asked for: others may
// be claiming the same.
const spare = 4

// claim is one lease that was claimed and the fence of that.
type claim struct {
	id    string
	fence int64
}

func scanClaim(row scan) (c claim, err error) { return c, row(&c.id, &c.fence) }

// Take implements broker.Lane. Sorting tens of thousands of due leases into turns
// must not keep the committer waiting, so what is chosen is not locked, and a claim
// takes of it what is still free. When others were faster with all of it, it chooses
// again: nothing means that nothing was due.
func (s *Store) Take(ctx context.Context, provider string, now, hold time.Time, n int) ([]broker.Claimed, error) {
	if provider == "" || now.IsZero() || !hold.After(now) || n < 1 || n > maxTake {
		return nil, fmt.Errorf("take: it needs a provider, a claim that ends after now, and 1 to %d leases", maxTake)
	}
	for {
		chosen, err := collect(ctx, s.engine.read(), chooseDue, []any{provider, millis(now), millis(now), spare * n, spare * n},
			func(row scan) (id string, err error) { return id, row(&id) })
		if err == nil && len(chosen) == 0 {
			return nil, nil
		}
		var claims []claim
		if err == nil {
			claims, err = s.claimAny(ctx, chosen, millis(now), millis(hold), n)
		}
		if err == nil && len(claims) == 0 {
			// All that is due is held by somebody else's transaction, which may hang:
			// look again, and not as fast as this machine can.
			select {
			case <-ctx.Done():
				err = ctx.Err()
			case <-time.After(takeAgain):
				continue
			}
		}
		var out []broker.Claimed
		if err == nil {
			out, err = s.claimed(ctx, claims)
		}
		if err != nil {
			return nil, fmt.Errorf("take: %w", s.engine.explain(err))
		}
		place := make(map[string]int, len(chosen))
		for i, id := range chosen {
			place[id] = i
		}
		slices.SortFunc(out, func(a, b broker.Claimed) int { return place[a.ID] - place[b.ID] })
		return out, nil
	}
}

// takeAgain is the pause of a Take that found all that is due taken.
const takeAgain = 20 * time.Millisecond

// claimAny claims the first n of the chosen that are free. Where there is one writer
// the committer does it.
func (s *Store) claimAny(ctx context.Context, chosen []string, now, hold int64, n int) (claims []claim, err error) {
	if s.engine.skip != "" {
		return mark(ctx, s.engine.read(), s.engine.skip, chosen, now, hold, n)
	}
	err = s.com.do(ctx, &unit{work: func(ctx context.Context, sess *session, _ *unit) (err error) {
		claims, err = mark(ctx, sess, "", chosen, now, hold, n)
		sess.writes += len(claims)
		return err
	}})
	return claims, err
}

// mark claims; skip leaves out what somebody else is about to claim, end or close.
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

// padded fills ids up to a chunk with its last one, so that there is one statement
// to prepare.
func padded(ids []string) []any {
	out := make([]any, chunk)
	for i := range out {
		out[i] = ids[min(i, len(ids)-1)]
	}
	return out
}

// claimed reads what was claimed. What was claimed again or settled by a person
// since is left out.
func (s *Store) claimed(ctx context.Context, claims []claim) ([]broker.Claimed, error) {
	text := rawLease + " WHERE u.lease_id IN (" + marks(chunk) + ")"
	fences := make(map[string]int64, len(claims))
	ids := make([]string, len(claims))
	for i, c := range claims {
		fences[c.id], ids[i] = c.fence, c.id
	}
	out := make([]broker.Claimed, 0, len(claims))
	for ids := range slices.Chunk(ids, chunk) {
		got, err := collect(ctx, s.engine.read(), text, padded(ids), scanClaimed)
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

// rawLease reads leases with what they have at third parties, as they are recorded.
var rawLease = "SELECT " + leaseFields + ", l.state, 0, '', '', " + upstreamFields + ", u.handle FROM upstream_leases u JOIN leases l ON l.id = u.lease_id"

func scanClaimed(row scan) (broker.Claimed, error) {
	var handle string
	l, fence, err := scanLeaseRow(row, &handle)
	if err == nil {
		l.Upstream.Handle = handle
	}
	return broker.Claimed{Lease: l, Fence: fence}, err
}

// Owing implements broker.Lane.
func (s *Store) Owing(ctx context.Context, now time.Time) ([]broker.Owing, error) {
	if now.IsZero() {
		return nil, errors.New("owing: it needs a time")
	}
	// Two ways to few rows: intents and revocations have an index of their own, and of
	// the many live ones only those that are due are looked up. What lies beside the
	// first is read row by row: of a join, PostgreSQL believes before it has counted
	// that reading everything there is at third parties is faster. CROSS JOIN, the
	// comparison with '' and "+ 0" keep SQLite, which knows no numbers of rows, from
	// going through every lease that ever expired.
	const text = "SELECT provider, sum(intent), sum(revoking), coalesce(min(nullif(since, 0)), 0), coalesce(min(nullif(next_at, 0)), 0) FROM (" +
		"SELECT (SELECT u.provider FROM upstream_leases u WHERE u.lease_id = l.id AND u.next_at > 0 AND (l.state = 'revoking' OR u.next_at <= ?)) AS provider, " +
		"CASE l.state WHEN 'intent' THEN 1 ELSE 0 END AS intent, CASE l.state WHEN 'intent' THEN 0 ELSE 1 END AS revoking, " +
		"CASE l.state WHEN 'intent' THEN l.issued_at ELSE l.revoked_at END AS since, (SELECT u.next_at FROM upstream_leases u WHERE u.lease_id = l.id) AS next_at " +
		"FROM leases l WHERE l.state IN ('intent', 'revoking') " +
		"UNION ALL SELECT u.provider, 0, 1, l.expires_at, u.next_at FROM upstream_leases u CROSS JOIN leases l " +
		"WHERE l.id = u.lease_id AND u.provider > '' AND u.next_at > 0 AND u.next_at <= ? AND l.state = 'live' AND l.expires_at + 0 <= ?" +
		") o WHERE provider IS NOT NULL GROUP BY provider ORDER BY provider"
	at := millis(now)
	out, err := collect(ctx, s.engine.read(), text, []any{at, at, at}, func(row scan) (broker.Owing, error) {
		var o broker.Owing
		var oldest, next int64
		err := row(&o.Provider, &o.Intents, &o.Revoking, &oldest, &next)
		o.Oldest, o.NextAt = fromMillis(oldest), fromMillis(next)
		return o, err
	})
	if err != nil {
		return nil, fmt.Errorf("owing: %w", s.engine.explain(err))
	}
	return out, nil
}

// Held implements broker.Lane.
func (s *Store) Held(ctx context.Context) (map[string]int, error) {
	out := map[string]int{}
	_, err := collect(ctx, s.engine.read(), "SELECT provider, count(*) FROM upstream_leases WHERE next_at > 0 GROUP BY provider", nil, func(row scan) (struct{}, error) {
		var name string
		var n int
		err := row(&name, &n)
		out[name] = n
		return struct{}{}, err
	})
	if err != nil {
		return nil, fmt.Errorf("held: %w", s.engine.explain(err))
	}
	return out, nil
}

// Sealed implements broker.Lane.
func (s *Store) Sealed(ctx context.Context, notBy, after string, n int) ([]broker.Lease, error) {
	if n < 1 || n > maxTake {
		return nil, fmt.Errorf("sealed: ask for 1 to %d", maxTake)
	}
	// LIKE is not the same in both engines.
	text := rawLease + " WHERE u.next_at > 0 AND u.handle <> '' AND replace(u.handle, ?, '') = u.handle AND u.lease_id > ? ORDER BY u.lease_id LIMIT ?"
	out, err := collect(ctx, s.engine.read(), text, []any{"." + notBy + ".", after, n}, func(row scan) (broker.Lease, error) {
		c, err := scanClaimed(row)
		return c.Lease, err
	})
	if err != nil {
		return nil, fmt.Errorf("sealed: %w", s.engine.explain(err))
	}
	return out, nil
}
