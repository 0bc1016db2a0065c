package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// figureVotes selects votes on requests that no longer wait. A vote on a pending request
// is left out: otherwise approvers and auditors could read the first of two votes from
// the sums.
const figureVotes = "SELECT v.voter, v.voter_groups, v.approve, v.voted_at, r.created_at, r.ask FROM votes v JOIN requests r ON r.id = v.request_id " +
	"WHERE v.voted_at >= ? AND v.voted_at < ? AND (r.state <> 'pending' OR r.expires_at <= ?) ORDER BY v.voted_at DESC, v.request_id DESC, v.place DESC"

// decisions returns the votes of a window on requests that no longer wait, newest first.
// Medians are computed in Go, because the votes are few.
func (fs *figureStore) decisions(ctx context.Context, from, to, now int64) ([]broker.Decision, error) {
	groups, asks := read[[]string]{}, read[policy.Approval]{}
	return collect(ctx, fs.engine.read(), figureVotes, []any{from, to, now}, func(row scan) (broker.Decision, error) {
		var d broker.Decision
		var of, ask string
		var approve, at, made int64
		if err := row(&d.By, &of, &approve, &at, &made, &ask); err != nil {
			return d, err
		}
		d.Approve, d.At, d.Took = approve != 0, fromMillis(at), max(time.Duration(at-made)*time.Millisecond, 0)
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
