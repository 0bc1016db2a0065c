package broker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"ebb/broker/audit"
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

// Kept is what was kept with those of these entries that are answers to requests, as an
// export of the record has it. What is hidden from who leaves no gap in it: Conflict.
func (b *Broker) Kept(ctx context.Context, who Principal, entries []audit.Entry) ([]audit.Kept, error) {
	if err := allow(who, certain, RoleAuditor, RoleOperator); err != nil {
		return nil, err
	}
	answers := map[audit.Kept]bool{} // with the hashes of the texts
	var out []audit.Kept
	var ids []string
	for _, e := range entries {
		switch e.Kind {
		case audit.RequestVoted:
			var data struct {
				Seen  string `json:"seen_sha256"`
				Proof string `json:"proof_sha256"`
			}
			if err := json.Unmarshal(e.Data, &data); err != nil {
				return nil, E(Internal, "An entry of the record cannot be read.", err)
			}
			if data.Seen != "" || data.Proof != "" {
				answers[audit.Kept{RequestID: e.RequestID, By: e.Actor, Seen: data.Seen, Proof: data.Proof}] = true
				ids = append(ids, e.RequestID)
			}
		case audit.BreakGlassBegun:
			g, err := b.begun(ctx, e)
			if err != nil {
				return nil, err
			}
			if g.Proof != "" {
				out = append(out, audit.Kept{RequestID: g.ID, By: g.Person, Proof: g.Proof})
			}
		}
	}
	slices.Sort(ids)
	for some := range slices.Chunk(slices.Compact(ids), keptAtOnce) {
		rs, err := b.cfg.Desk.Requests(ctx, RequestFilter{IDs: some, Seen: true, Page: Page{Limit: len(some)}})
		if err != nil {
			return nil, unavailable(err)
		}
		for _, r := range rs {
			kept, err := keptOf(who, r, answers)
			if err != nil {
				return nil, err
			}
			out = append(out, kept...)
		}
	}
	return out, nil
}

// keptOf is what was kept of those of these answers that were given to r, also of one that a
// later answer took the place of.
func keptOf(who Principal, r Request, answers map[audit.Kept]bool) (out []audit.Kept, err error) {
	shown := len(shownVotes(who, r)) == len(r.Votes)
	for _, v := range slices.Concat(r.Replaced, r.Votes) {
		k := audit.Kept{RequestID: r.ID, By: v.By, Seen: hashIf(v.Seen), Proof: hashIf(v.Proof)}
		switch {
		case !answers[k]:
		case !shown:
			return nil, errGap
		default:
			k.Seen, k.Proof = v.Seen, v.Proof
			out = append(out, k)
		}
	}
	return out, nil
}

func hashIf(s string) string {
	if s == "" {
		return ""
	}
	return SeenHash(s)
}

// begun is the period whose beginning an entry is about.
func (b *Broker) begun(ctx context.Context, e audit.Entry) (BreakGlass, error) {
	var data struct {
		ID string `json:"break_glass"`
	}
	if err := json.Unmarshal(e.Data, &data); err != nil {
		return BreakGlass{}, E(Internal, "An entry of the record cannot be read.", err)
	}
	return b.breakGlass(ctx, data.ID)
}

// keptAtOnce is how many requests are read at one time, each with up to MaxSeen twice for
// each of its votes.
const keptAtOnce = 50

// Signature is what the record says that an answer was signed with, held against what was
// kept of it. Nothing was signed: nil. Whoever calls it has got the vote of Seen.
func (b *Broker) Signature(ctx context.Context, v Vote) (*audit.Signature, error) {
	return b.signature(ctx, audit.Kept{RequestID: v.RequestID, By: v.By, Seen: v.Seen, Proof: v.Proof}, v.At, EntryFilter{Kind: audit.RequestVoted, Actor: v.By, RequestID: v.RequestID})
}

// BreakGlassSignature is the same of the beginning of a period.
func (b *Broker) BreakGlassSignature(ctx context.Context, g BreakGlass) (*audit.Signature, error) {
	return b.signature(ctx, audit.Kept{RequestID: g.ID, By: g.Person, Proof: g.Proof}, g.BegunAt, EntryFilter{Kind: audit.BreakGlassBegun, Actor: g.Person, From: g.BegunAt.Add(-time.Minute), To: g.BegunAt.Add(time.Minute)})
}

// BreakGlassRecorded holds a period against the record of its beginning: Conflict when that
// says something else, or nothing. It judges no proof.
func (b *Broker) BreakGlassRecorded(ctx context.Context, g BreakGlass) error {
	for e, err := range b.cfg.Journal.Entries(ctx, EntryFilter{Kind: audit.BreakGlassBegun, Actor: g.Person, From: g.BegunAt.Add(-time.Minute), To: g.BegunAt.Add(time.Minute)}) {
		if err != nil {
			return unavailable(err)
		}
		var said struct {
			ID       string    `json:"break_glass"`
			Digest   string    `json:"digest"`
			ProvedAt time.Time `json:"proved_at"`
			ACR      string    `json:"acr"`
		}
		if json.Unmarshal(e.Data, &said) == nil && said.ID == g.ID && said.Digest == g.Digest() && said.ProvedAt.Equal(g.AuthAt) && said.ACR == g.ACR {
			return nil
		}
	}
	return E(Conflict, "The record of its beginning does not say what is kept here.", nil)
}

func (b *Broker) signature(ctx context.Context, k audit.Kept, at time.Time, answer EntryFilter) (*audit.Signature, error) {
	var known audit.Answers
	for _, f := range []EntryFilter{{Kind: "passkey.", Actor: k.By, To: at.Add(time.Millisecond)}, answer} {
		for e, err := range b.cfg.Journal.Entries(ctx, f) {
			if err == nil {
				err = known.Read(e)
			}
			if err != nil {
				return nil, unavailable(err)
			}
		}
	}
	s, err := known.Judge(k)
	if err != nil {
		return nil, E(Conflict, "What was kept of this answer is not what the record says: "+err.Error()+".", err)
	}
	return s, nil
}
