package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ebb/broker"
)

// maxTake bounds a claim and a page of sealed handles.
const maxTake = 1000

// due is what may be claimed: its parameters are the provider and twice the time.
const due = "u.provider = ? AND u.next_at > 0 AND u.next_at <= ? AND u.claimed_until <= ?"

// turns gives each due lease its place within its task.
const turns = "SELECT u.lease_id, u.next_at, row_number() OVER (PARTITION BY u.task_id ORDER BY u.next_at, u.lease_id) AS turn FROM upstream_leases u WHERE " + due

// claim is one lease that was claimed and the fence of that.
type claim struct {
	id    string
	fence int64
}

func scanClaim(row scan) (c claim, err error) { return c, row(&c.id, &c.fence) }

// Take implements broker.Lane. Who sorts tens of thousands of due leases into turns
// must not keep the committer waiting: PostgreSQL claims on a connection to read,
// SQLite, which has one writer, only marks in the committer what a reader chose.
func (s *Store) Take(ctx context.Context, provider string, now, hold time.Time, n int) ([]broker.Claimed, error) {
	if provider == "" || now.IsZero() || !hold.After(now) || n < 1 || n > maxTake {
		return nil, fmt.Errorf("take: it needs a provider, a claim that ends after now, and 1 to %d leases", maxTake)
	}
	find := s.chooseAndMark
	if s.engine.skip != "" {
		find = s.claimSkipping
	}
	claims, err := find(ctx, provider, millis(now), millis(hold), n)
	if err == nil && len(claims) > 0 {
		var out []broker.Claimed
		if out, err = s.claimed(ctx, claims); err == nil {
			return inTurns(out), nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("take: %w", s.engine.explain(err))
	}
	return nil, nil
}

// claimSkipping claims in one statement and leaves out what somebody else is about
// to claim.
func (s *Store) claimSkipping(ctx context.Context, provider string, now, hold int64, n int) ([]claim, error) {
	text := "WITH chosen AS MATERIALIZED (SELECT u.lease_id FROM upstream_leases u JOIN (" + turns + ") r ON r.lease_id = u.lease_id " +
		"WHERE " + due + " ORDER BY r.turn, u.next_at, u.lease_id LIMIT ?" + s.engine.skip + ") " +
		"UPDATE upstream_leases SET fence = fence + 1, claimed_until = ? WHERE lease_id IN (SELECT lease_id FROM chosen) RETURNING lease_id, fence"
	return collect(ctx, s.engine.read(), text, []any{provider, now, now, provider, now, now, n, hold}, scanClaim)
}

// chooseAndMark chooses without a lock and claims what is still free. Nothing means
// that nothing was due: when others were faster it chooses again.
func (s *Store) chooseAndMark(ctx context.Context, provider string, now, hold int64, n int) ([]claim, error) {
	for {
		chosen, err := collect(ctx, s.engine.read(), "SELECT lease_id FROM ("+turns+") r ORDER BY turn, next_at, lease_id LIMIT ?", []any{provider, now, now, n},
			func(row scan) (id string, err error) { return id, row(&id) })
		if err != nil || len(chosen) == 0 {
			return nil, err
		}
		var claims []claim
		mark := func(ctx context.Context, sess *session, _ *unit) error {
			claims = nil
			for ids := range slices.Chunk(chosen, chunk) {
				got, err := collect(ctx, sess, "UPDATE upstream_leases SET fence = fence + 1, claimed_until = ? "+
					"WHERE lease_id IN ("+marks(chunk)+") AND next_at > 0 AND next_at <= ? AND claimed_until <= ? RETURNING lease_id, fence",
					slices.Concat([]any{hold}, padded(ids), []any{now, now}), scanClaim)
				if err != nil {
					return err
				}
				sess.writes += len(got)
				claims = append(claims, got...)
			}
			return nil
		}
		if err := s.com.do(ctx, &unit{work: mark}); err != nil || len(claims) > 0 {
			return claims, err
		}
	}
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

// inTurns puts claims in the order in which they were chosen.
func inTurns(cs []broker.Claimed) []broker.Claimed {
	oldest := func(a, b broker.Claimed) int {
		return cmp.Or(a.Upstream.NextAt.Compare(b.Upstream.NextAt), strings.Compare(a.ID, b.ID))
	}
	slices.SortFunc(cs, oldest)
	turn, seen := make(map[string]int, len(cs)), map[string]int{}
	for _, c := range cs {
		turn[c.ID] = seen[c.TaskID]
		seen[c.TaskID]++
	}
	slices.SortStableFunc(cs, func(a, b broker.Claimed) int { return turn[a.ID] - turn[b.ID] })
	return cs
}

// Owing implements broker.Lane.
func (s *Store) Owing(ctx context.Context, now time.Time) ([]broker.Owing, error) {
	if now.IsZero() {
		return nil, errors.New("owing: it needs a time")
	}
	const (
		intent   = "l.state = 'intent' AND u.next_at <= ?"
		revoking = "(l.state = 'revoking' OR l.state = 'live' AND u.next_at <= ? AND l.expires_at <= ?)"
		text     = "SELECT provider, sum(intent), sum(revoking), coalesce(min(CASE WHEN intent + revoking > 0 THEN since END), 0), " +
			"coalesce(min(CASE WHEN intent + revoking > 0 THEN next_at END), 0), count(*) FROM (SELECT u.provider, u.next_at, " +
			"CASE WHEN " + intent + " THEN 1 ELSE 0 END AS intent, CASE WHEN " + revoking + " THEN 1 ELSE 0 END AS revoking, " +
			"CASE l.state WHEN 'intent' THEN l.issued_at WHEN 'live' THEN l.expires_at ELSE l.revoked_at END AS since " +
			"FROM upstream_leases u JOIN leases l ON l.id = u.lease_id WHERE u.next_at > 0) o GROUP BY provider ORDER BY provider"
	)
	at := millis(now)
	out, err := collect(ctx, s.engine.read(), text, []any{at, at, at}, func(row scan) (broker.Owing, error) {
		var o broker.Owing
		var oldest, next int64
		err := row(&o.Provider, &o.Intents, &o.Revoking, &oldest, &next, &o.Held)
		o.Oldest, o.NextAt = fromMillis(oldest), fromMillis(next)
		return o, err
	})
	if err != nil {
		return nil, fmt.Errorf("owing: %w", s.engine.explain(err))
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
