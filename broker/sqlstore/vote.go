package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// Vote implements broker.ApprovalStore. An approval needs the digest; a denial does not. Entries
// of kind request.approved and request.denied are written only if the vote made that
// decision; every other entry is written with the vote. An approval that leaves an empty
// scope returns a *broker.Error and is not stored.
func (rs *requestStore) Vote(ctx context.Context, v broker.Vote, grantUntil time.Time, entries ...audit.Entry) (broker.Request, error) {
	b, err := prepare(v, grantUntil, entries)
	if err == nil {
		err = rs.com.do(ctx, &unit{work: b.run})
	}
	if err != nil {
		return broker.Request{}, fmt.Errorf("vote: %w", err)
	}
	return b.out, nil
}

func prepare(v broker.Vote, until time.Time, entries []audit.Entry) (*ballot, error) {
	drafts, err := draft(entries)
	if err != nil {
		return nil, err
	}
	if v.By == "" || v.At.IsZero() || v.Approve && until.IsZero() {
		return nil, errors.New("a voter and a time are required, and for an approval the end of the grant")
	}
	if err := storable(append([]string{v.RequestID, v.By, v.Digest, string(v.Code), v.Note, v.Snapshot, v.Proof}, v.Also...)...); err != nil {
		return nil, err
	}
	v.At = v.At.UTC().Truncate(time.Millisecond)
	return &ballot{v: v, until: until, entries: drafts}, nil
}

type ballot struct {
	v       broker.Vote
	until   time.Time
	entries []audit.Entry

	out broker.Request
}

// run reads, decides in Go, and writes only if no other vote was written in between: the
// number of votes is the version of the row. A concurrent vote of another replica makes
// the update wait for it and then match no row.
func (b *ballot) run(ctx context.Context, s *session, u *unit) error {
	for try := range 8 {
		r, err := oneRequest(ctx, s, b.v.RequestID)
		if err != nil {
			return err
		}
		err = b.admit(r)
		if try == 0 && errors.Is(err, broker.ErrExists) {
			continue // the request and its votes are read by two statements: a vote may have been written in between
		}
		if err != nil {
			return err
		}
		before := len(r.Votes)
		// A second vote of the same person, now under break-glass, replaces the first
		// one.
		instead := ""
		if i := slices.IndexFunc(r.Votes, b.v.SamePerson); i >= 0 {
			instead = r.Votes[i].By
			r.Votes = slices.Delete(slices.Clone(r.Votes), i, i+1)
		}
		r, err = verdict(r, append(slices.Clip(r.Votes), b.v))
		if err != nil {
			return err
		}
		if r.State == broker.RequestApproved {
			r.GrantUntil = b.until.UTC().Truncate(time.Millisecond)
			if end := r.DecidedAt.Add(r.GrantedTTL.Duration()); end.Before(r.GrantUntil) {
				r.GrantUntil = end
			}
		}
		n, err := s.exec(ctx, "UPDATE requests SET voted = voted + 1, state = ?, decided_at = ?, granted = ?, granted_ttl = ?, grant_until = ?, code = ?, note = ? "+
			"WHERE id = ? AND state = 'pending' AND voted = ?",
			string(r.State), millis(r.DecidedAt), r.Granted.String(), int64(r.GrantedTTL), millis(r.GrantUntil), string(r.Code), r.Note, r.ID, before)
		if err != nil {
			return err
		}
		if n == 1 {
			if b.v.BreakGlass != "" {
				if err := useBreakGlass(ctx, s, b.v); err != nil {
					return err
				}
			}
			if instead != "" {
				if err := replaceVote(ctx, s, r.ID, instead); err != nil {
					return err
				}
			}
			b.out, u.entries = r, b.outcome(r.State)
			return b.insert(ctx, s, before+1)
		}
	}
	return errors.New("the request got another vote during each of 8 attempts: try again")
}

// replaceVote moves a replaced vote to votes_replaced, with the shown evidence and the
// signature.
func replaceVote(ctx context.Context, s *session, request, voter string) error {
	_, err := s.exec(ctx, "INSERT INTO votes_replaced ("+voteColumns+") SELECT "+voteColumns+" FROM votes WHERE request_id = ? AND voter = ?", request, voter)
	if err == nil {
		_, err = s.exec(ctx, "DELETE FROM votes WHERE request_id = ? AND voter = ?", request, voter)
	}
	return err
}

func (b *ballot) admit(r broker.Request) error {
	switch {
	case r.State != broker.RequestPending || !r.ExpiresAt.After(b.v.At):
		return fmt.Errorf("request %s: %w", r.ID, broker.ErrDone)
	case b.v.Digest != r.Digest && (b.v.Approve || b.v.Digest != ""):
		return fmt.Errorf("request %s: %w", r.ID, broker.ErrStale)
	case slices.ContainsFunc(r.Votes, func(o broker.Vote) bool { return b.v.SamePerson(o) && (b.v.BreakGlass == "" || !o.Approve) }):
		return fmt.Errorf("request %s: %w", r.ID, broker.ErrExists)
	}
	return nil
}

const voteColumns = "request_id, voter, voter_groups, place, approve, digest, scope, ttl, code, note, voted_at, seen, proof, also, break_glass, shown_at"

func (b *ballot) insert(ctx context.Context, s *session, place int) error {
	v := b.v
	groups, err := json.Marshal(v.Groups)
	if err != nil {
		return err
	}
	also, err := json.Marshal(v.Also)
	if err != nil {
		return err
	}
	_, err = s.exec(ctx, "INSERT INTO votes ("+voteColumns+") VALUES ("+marks(16)+")",
		v.RequestID, v.By, string(groups), place, flag(v.Approve), v.Digest, v.Scopes.String(), int64(v.TTL), string(v.Code), v.Note, millis(v.At), v.Snapshot, v.Proof, string(also), v.BreakGlass, millis(v.ShownAt))
	return err
}

// outcome drops the entries about a decision that was not made.
func (b *ballot) outcome(s broker.RequestState) []audit.Entry {
	return slices.DeleteFunc(slices.Clone(b.entries), func(e audit.Entry) bool {
		return e.Kind == audit.RequestApproved && s != broker.RequestApproved || e.Kind == audit.RequestDenied && s != broker.RequestDenied
	})
}

// verdict returns the request after the votes so far, including the last one. It has no
// side effects; the caller holds the request.
func verdict(r broker.Request, votes []broker.Vote) (broker.Request, error) {
	last := votes[len(votes)-1]
	r.Votes = votes
	if !last.Approve {
		r.State, r.DecidedAt, r.Code, r.Note = broker.RequestDenied, last.At, last.Code, last.Note
		return r, nil
	}
	granted, ttl := r.Scopes, r.TTL
	var yes []policy.Approver
	for _, v := range votes {
		if !v.Approve {
			continue // unreachable: a denial settles the request
		}
		yes = append(yes, policy.Approver{Name: v.By, Groups: v.Groups})
		if !v.Scopes.Empty() {
			granted = granted.Narrow(v.Scopes)
		}
		if v.TTL > 0 && v.TTL < ttl {
			ttl = v.TTL
		}
	}
	// An approval of an empty scope would answer yes and mint nothing. It is refused with
	// the vote that causes it, so that the voter can vote differently.
	if granted.Empty() {
		return r, broker.E(broker.InvalidScope, "The scope that you approve has no part in common with the requested scope and the earlier approvals. Approve the requested scope or a part of it, or deny.", nil)
	}
	if last.BreakGlass != "" || r.Satisfied(yes) {
		r.State, r.DecidedAt, r.Granted, r.GrantedTTL, r.Note = broker.RequestApproved, last.At, granted, ttl, last.Note
	}
	return r, nil
}
