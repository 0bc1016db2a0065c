package broker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// MaxSeen bounds what is kept of what an approver was shown, in bytes.
const MaxSeen = 64 << 10

// SeenHash names what an approver was shown: the hex SHA-256 that the record of the
// vote holds.
func SeenHash(seen string) string {
	sum := sha256.Sum256([]byte(seen))
	return hex.EncodeToString(sum[:])
}

// Seen is a request with what one who decided it was shown, in that one's vote: for
// auditors and operators, and for the voter.
func (b *Broker) Seen(ctx context.Context, who Principal, id, voter string) (Request, Vote, error) {
	if _, err := b.Request(ctx, who, id); err != nil {
		return Request{}, Vote{}, err
	}
	none := E(NotFound, "Nobody of that name has decided this request, or you may not see what they saw.", nil)
	if who.ID != voter && !who.Has(RoleAuditor, RoleOperator) {
		return Request{}, Vote{}, none
	}
	rs, err := b.cfg.Desk.Requests(ctx, RequestFilter{IDs: []string{id}, Seen: true})
	if err != nil {
		return Request{}, Vote{}, unavailable(err)
	}
	if len(rs) == 0 {
		return Request{}, Vote{}, none
	}
	r := rs[0]
	r.Match = MatchCode(r.ID)
	i := slices.IndexFunc(r.Votes, func(v Vote) bool { return v.By == voter })
	// An auditor who is to decide too does not see the other answer before giving theirs.
	shown := shownVotes(who, r)
	if i < 0 || !slices.ContainsFunc(shown, func(v Vote) bool { return v.By == voter }) {
		return Request{}, Vote{}, none
	}
	return r, r.Votes[i], nil
}
