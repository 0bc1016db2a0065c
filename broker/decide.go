package broker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"ebb/attest/jose"
	"ebb/broker/audit"
	"ebb/scopes/policy"
)

var denyCodes = []DenyCode{TooBroad, WrongResource, NotNeeded, UseExisting, AskOwner, ByPolicy, Suspicious}

// Decide gives one approver's verdict. Nobody decides for themselves: not the
// owner of the task, not its runner, and a sandbox is no principal at all (I7).
func (b *Broker) Decide(ctx context.Context, who Principal, id string, v Verdict) (Request, error) {
	roles := []Role{RoleApprover}
	if v.BreakGlass != "" {
		roles = who.Roles
	}
	need := doubtful // a no ends something
	if v.Approve {
		need = certain
	}
	if err := allow(who, need, roles...); err != nil {
		return Request{}, err
	}
	r, err := b.requestByID(ctx, id)
	if err != nil {
		return Request{}, err
	}
	var glass BreakGlass
	if v.BreakGlass != "" {
		glass, err = b.glassOf(ctx, who, r, v)
	} else {
		err = MayDecide(who, r)
	}
	if err != nil {
		return Request{}, err
	}
	vote, err := b.checkVerdict(r, who, v)
	if err != nil {
		return Request{}, err
	}
	if v.Approve {
		if err := b.stillTrue(ctx, r); err != nil {
			return Request{}, err
		}
		if f, err := r.Sheet(); err != nil || !f.Understood() {
			return Request{}, E(NotUnderstood, "ebb does not understand what this scope allows. It can be denied, not approved; ask the operator of the provider.", err)
		}
		if err := b.demand(r, v); err != nil {
			return Request{}, err
		}
	}
	ballot := b.ballot(who, r, vote, v, nil)
	if glass.ID != "" {
		ballot = b.under(glass, who, r, ballot)
	}
	out, err := b.cfg.Desk.Vote(ctx, ballot.Vote, ballot.Until, ballot.Entries...)
	switch {
	case errors.Is(err, ErrNotFound) && glass.ID != "":
		return Request{}, E(Forbidden, "This break-glass is over, or as much was approved under it as may be.", err)
	case errors.Is(err, ErrDone) && v.Code == Suspicious:
		return b.suspectAgain(ctx, who, id, err)
	case err != nil:
		return Request{}, voteError(err)
	}
	out.Match = MatchCode(out.ID)
	return out, b.afterVote(ctx, out)
}

// ballot is a vote with what is kept of it on the record. with: the requests, in their
// order, that one answer was given to together.
func (b *Broker) ballot(who Principal, r Request, vote Vote, v Verdict, with []string) Ballot {
	data := map[string]any{"approve": vote.Approve, "digest": vote.Digest, "scope": vote.Scopes, "ttl": vote.TTL, "code": vote.Code, "note": vote.Note}
	if vote.Seen != "" {
		data["seen_sha256"] = SeenHash(vote.Seen)
	}
	if vote.Proof != "" {
		data["proof_sha256"], data["choice"], data["passkey"] = SeenHash(vote.Proof), v.Choice, v.Passkey
	}
	if len(with) > 0 {
		data["together"] = with
	}
	if v.BreakGlass != "" {
		data["break_glass"] = v.BreakGlass
	}
	// The desk keeps of the two outcomes the one that the vote leads to, if any.
	return Ballot{Vote: vote, Until: b.now().Add(b.cfg.Limits.GrantTTL), Entries: []audit.Entry{
		b.requestEntry(audit.RequestVoted, who.ID, r, data),
		b.requestEntry(audit.RequestApproved, who.ID, r, nil), b.requestEntry(audit.RequestDenied, who.ID, r, map[string]any{"code": vote.Code}),
	}}
}

// voteError says why a vote does not count.
func voteError(err error) error {
	switch {
	case errors.Is(err, ErrDone):
		return E(Conflict, "The request is decided, expired or withdrawn already.", err)
	case errors.Is(err, ErrStale):
		return E(Conflict, "The facts have changed since you looked. Look again.", err)
	case isError(err): // nothing is left of what was approved
		return AsError(err)
	case errors.Is(err, ErrExists):
		return E(Conflict, "You have given your answer already.", err)
	}
	return unavailable(err)
}

func (b *Broker) checkVerdict(r Request, who Principal, v Verdict) (Vote, error) {
	vote := Vote{RequestID: r.ID, By: who.ID, Groups: who.Say(r.Scopes), Approve: v.Approve, Digest: v.Digest, Code: v.Code, Note: v.Note, At: b.now(), Seen: v.Seen, Proof: v.Proof}
	vote.Also = who.Also
	if len(v.Seen) > MaxSeen || len(v.Proof) > MaxSeen {
		return vote, E(Invalid, "What was seen is longer than ebb keeps.", nil)
	}
	if utf8.RuneCountInString(v.Note) > 500 || !jose.Plain(v.Note) {
		return vote, E(Invalid, "note must be at most 500 printable characters.", nil)
	}
	if err := CheckDigest(v.Digest); v.Digest != "" && err != nil {
		return vote, err
	}
	if !v.Approve {
		if !slices.Contains(denyCodes, v.Code) {
			return vote, E(Invalid, "A denial needs a code: too_broad, wrong_resource, not_needed, use_existing_grant, ask_owner, policy or suspicious.", nil)
		}
		// A no is safe whatever was seen: without a digest it is for the facts as they are.
		if v.Digest == "" {
			vote.Digest = r.Digest
		}
		return vote, nil
	}
	switch {
	case v.Code != "":
		return vote, E(Invalid, "code belongs to a denial.", nil)
	case v.Digest == "":
		return vote, E(Invalid, "digest is required to approve: send the one of the facts you saw.", nil)
	case v.Digest != r.Digest:
		return vote, E(Conflict, "The facts have changed since you looked. Look again.", ErrStale)
	case !r.Scopes.Covers(v.Scopes):
		return vote, E(Invalid, "An approval may narrow the scope, never widen it.", nil)
	case v.TTL < 0 || v.TTL > r.TTL:
		return vote, E(Invalid, "An approval may shorten ttl_seconds, never lengthen it.", nil)
	}
	vote.Scopes, vote.TTL = v.Scopes, v.TTL
	if v.Scopes.Empty() {
		vote.Scopes = r.Scopes
	}
	if v.TTL == 0 {
		vote.TTL = r.TTL
	}
	return vote, nil
}

// CheckDigest refuses what cannot be a digest of facts, such as the beginning of one: hex SHA-256
// has 64 lower-case characters.
func CheckDigest(digest string) error {
	if b, err := hex.DecodeString(digest); err == nil && len(b) == sha256.Size && strings.ToLower(digest) == digest {
		return nil
	}
	return E(Invalid, fmt.Sprintf("digest must be the full 64 lower-case hex characters shown by 'ebb requests show'; got %d characters.", utf8.RuneCountInString(digest)), nil)
}

// stillTrue computes the facts again. When they differ from what the approver
// saw, the request is withdrawn, so that the agent asks anew on true facts.
func (b *Broker) stillTrue(ctx context.Context, r Request) error {
	if r.State != RequestPending {
		return E(Conflict, "The request is decided, expired or withdrawn already.", ErrDone)
	}
	effect, again, err := b.again(ctx, r)
	if err != nil {
		return err
	}
	if effect == policy.Ask && again.Digest == r.Digest {
		return nil
	}
	if _, err := b.withdraw(ctx, r, self, "facts_changed"); err != nil {
		return err
	}
	return E(Conflict, "The facts have changed since the request was made. It was withdrawn; the agent may ask again.", ErrStale)
}

// afterVote counts how the request ended and, on suspicion, stops the task.
func (b *Broker) afterVote(ctx context.Context, r Request) error {
	switch r.State {
	case RequestApproved:
		b.m.requests.WithLabelValues("approved").Inc()
	case RequestDenied:
		b.m.requests.WithLabelValues("denied").Inc()
		if err := b.denied(ctx, r.TaskID, true); err != nil && !errors.Is(err, ErrTaskClosed) {
			b.cfg.Logger.WarnContext(ctx, "a denial could not be counted", "task_id", r.TaskID, "error", err)
		}
		if r.Code == Suspicious {
			_, err := b.close(ctx, b.rootOf(ctx, r.TaskID), suspicion(r, b.now()))
			return err
		}
	}
	return nil
}

// suspicion is the end of a task whose request an approver found suspicious. The one
// that a delegate began with ends, and with it all of them: who asks and who made it
// ask cannot be told apart.
func suspicion(r Request, now time.Time) TaskMove {
	m := TaskMove{ID: r.TaskID, State: TaskClosed, Cause: CauseSuspicious, By: self, Reason: "request " + r.ID + " denied as suspicious", At: now}
	if n := len(r.Votes); n > 0 {
		m.By = r.Votes[n-1].By
	}
	return m
}

// suspectAgain ends the task of a request that waits no more: an agent must not
// dodge the verdict by taking its request back, nor a broken connection lose it.
// What others have said yes to stays a conflict.
func (b *Broker) suspectAgain(ctx context.Context, who Principal, id string, lost error) (Request, error) {
	r, err := b.requestByID(ctx, id)
	if err != nil {
		return Request{}, err
	}
	if r.State != RequestWithdrawn && r.State != RequestExpired && r.Code != Suspicious {
		return Request{}, E(Conflict, "The request is decided, expired or withdrawn already.", lost)
	}
	m := suspicion(r, b.now())
	m.By = who.ID
	_, err = b.close(ctx, b.rootOf(ctx, r.TaskID), m)
	return r, err
}
