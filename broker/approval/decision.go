package approval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ebb-broker/ebb/attest"
	"github.com/ebb-broker/ebb/attest/jose"
	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// Verdicts accepts people's decisions, each bound to the digest of the facts that the person
// saw (I7).
type Verdicts struct {
	attestors     map[string]attest.Attestor
	approvalStore broker.ApprovalStore
	store         broker.Store
	liveStore     broker.LiveStore
	limits        broker.Limits
	logger        *slog.Logger
	presenceFrom  risk.Level
	providers     map[string]broker.Provider
	live          *kernel.LiveState
	m             *kernel.Metrics
	silent        *kernel.AttestorOutages

	approvals   *Approvals
	clock       *kernel.Timekeeper
	emergencies *Emergencies
	fatigue     *FatigueGuard
	issuer      issuer
	listings    listings
	revoker     revoker
	tasks       tasks
}

var denyCodes = []broker.DenyCode{broker.TooBroad, broker.WrongResource, broker.NotNeeded, broker.UseExisting, broker.AskOwner, broker.ByPolicy, broker.Suspicious}

// Decide records one approver's verdict. A task's owner and runner never decide its requests,
// and a sandbox is no principal at all (I7).
func (ve *Verdicts) Decide(ctx context.Context, who broker.Principal, id string, v broker.Verdict) (broker.Request, error) {
	return ve.decide(ctx, who, id, v, nil)
}

// certainty returns how current the person's roles must be for a verdict. A denial only ends a
// request.
func certainty(v broker.Verdict) broker.Standing {
	if v.Approve {
		return broker.Certain
	}
	return broker.Doubtful
}

// decide implements Decide and DecideBatch. Together with an error, it returns the request only if the
// answer was recorded and a later step failed. with lists the requests of a batch decision, in order.
func (ve *Verdicts) decide(ctx context.Context, who broker.Principal, id string, v broker.Verdict, with []string) (broker.Request, error) {
	roles := []broker.Role{broker.RoleApprover}
	if v.BreakGlass != "" {
		roles = who.Roles
	}
	if err := broker.Allow(who, certainty(v), roles...); err != nil {
		return broker.Request{}, err
	}
	r, err := ve.approvals.requestByID(ctx, id)
	if err != nil {
		return broker.Request{}, err
	}
	var glass broker.BreakGlass
	if v.BreakGlass != "" {
		glass, err = ve.emergencies.glassOf(ctx, who, r, v)
	} else {
		err = broker.MayDecide(who, r)
	}
	if err != nil {
		return broker.Request{}, err
	}
	vote, err := ve.checkVerdict(r, who, v)
	if err != nil {
		return broker.Request{}, err
	}
	if v.Approve {
		if err := ve.stillTrue(ctx, r); err != nil {
			return broker.Request{}, err
		}
		if f, err := r.Sheet(); err != nil || !f.Understood() {
			return broker.Request{}, broker.E(broker.NotUnderstood, "ebb does not understand what this scope allows. It can be denied, not approved; ask the operator of the provider.", err)
		}
		if err := ve.demand(r, v); err != nil {
			return broker.Request{}, err
		}
	}
	cast := ve.ballot(who, r, vote, v, with)
	if glass.ID != "" {
		cast = ve.emergencies.under(glass, who, r, cast)
	}
	out, err := ve.approvalStore.Vote(ctx, cast.Vote, cast.until, cast.entries...)
	switch {
	case errors.Is(err, broker.ErrNotFound) && glass.ID != "":
		return broker.Request{}, broker.E(broker.Forbidden, "This break-glass period is over, or its limit of approvals is reached.", err)
	case errors.Is(err, broker.ErrDone) && v.Code == broker.Suspicious:
		return ve.suspectAgain(ctx, who, id, err)
	case errors.Is(err, broker.ErrDone):
		return broker.Request{}, ve.settled(ctx, id, err)
	case err != nil:
		return broker.Request{}, voteError(err)
	}
	out.Match = broker.MatchCode(out.ID)
	return out, ve.afterVote(ctx, out)
}

// ballot holds the arguments of ApprovalStore.Vote.
type ballot struct {
	broker.Vote
	until   time.Time // the end of the grant
	entries []audit.Entry
}

// ballot returns a vote with its audit entries. with lists the requests of a batch decision, in
// their order.
func (ve *Verdicts) ballot(who broker.Principal, r broker.Request, vote broker.Vote, v broker.Verdict, with []string) ballot {
	data := map[string]any{"approve": vote.Approve, "digest": vote.Digest, "scope": vote.Scopes, "ttl": vote.TTL, "code": vote.Code, "note": vote.Note, "match": broker.MatchCode(r.ID)}
	if vote.Snapshot != "" {
		data["seen_sha256"] = broker.TextHash(vote.Snapshot)
	}
	if vote.Proof != "" {
		data["proof_sha256"], data["choice"], data["passkey"] = broker.TextHash(vote.Proof), v.Choice, v.Passkey
	}
	if vote.Approve {
		data["proofs"] = v.Proofs(r)
	}
	if len(with) > 0 {
		data["together"] = with
	}
	if v.BreakGlass != "" {
		data["break_glass"] = v.BreakGlass
	}
	// Of the two outcomes the approval store keeps the one that the vote leads to, if any.
	return ballot{vote, ve.clock.Now().Add(ve.limits.GrantTTL), []audit.Entry{
		ve.revoker.RequestEntry(audit.RequestVoted, who.ID, r, data),
		ve.revoker.RequestEntry(audit.RequestApproved, who.ID, r, nil), ve.revoker.RequestEntry(audit.RequestDenied, who.ID, r, map[string]any{"code": vote.Code}),
	}}
}

// settled returns the refusal of a vote on a request that no longer waits. It names the voters.
func (ve *Verdicts) settled(ctx context.Context, id string, cause error) error {
	r, err := ve.approvals.requestByID(ctx, id)
	if err != nil {
		return err
	}
	text := "The request expired before anybody decided it."
	switch r.State {
	case broker.RequestApproved, broker.RequestIssued:
		text = "The request was already approved by " + voters(r, true) + "."
	case broker.RequestDenied:
		text = "The request was already denied by " + voters(r, false) + "."
	case broker.RequestWithdrawn:
		text = "The request was withdrawn: its agent gave up, its task has ended, or its facts changed."
	}
	return broker.E(broker.Conflict, text, cause)
}

// voters returns the people who approved a request, or those who denied it.
func voters(r broker.Request, approved bool) string {
	var people []string
	for _, v := range r.Votes {
		if v.Approve == approved {
			people = append(people, v.By)
		}
	}
	return broker.Named(people)
}

// voteError translates why a vote does not count.
func voteError(err error) error {
	switch {
	case errors.Is(err, broker.ErrStale):
		return broker.E(broker.Conflict, "The facts have changed since they were shown to you. Read the request again, then decide.", err)
	case broker.IsError(err): // for example, the approved scopes have no intersection
		return broker.AsError(err)
	case errors.Is(err, broker.ErrExists):
		return broker.E(broker.Conflict, "You have voted on this request already.", err)
	}
	return broker.StoreError(err)
}

func (ve *Verdicts) checkVerdict(r broker.Request, who broker.Principal, v broker.Verdict) (broker.Vote, error) {
	vote := broker.Vote{RequestID: r.ID, By: who.ID, Groups: who.Say(r.Scopes), Approve: v.Approve, Digest: v.Digest, Code: v.Code, Note: v.Note, At: ve.clock.Now(), Snapshot: v.Snapshot, ShownAt: v.ShownAt, Proof: v.Proof}
	vote.Also = who.Also
	if len(v.Snapshot) > MaxSnapshot || len(v.Proof) > MaxSnapshot {
		return vote, broker.E(broker.Invalid, "The evidence snapshot or the proof is longer than 64 KiB.", nil)
	}
	if utf8.RuneCountInString(v.Note) > 500 || !jose.Plain(v.Note) {
		return vote, broker.E(broker.Invalid, "note must be at most 500 printable characters.", nil)
	}
	if err := CheckDigest(v.Digest); v.Digest != "" && err != nil {
		return vote, err
	}
	if !v.Approve {
		if !slices.Contains(denyCodes, v.Code) {
			return vote, broker.E(broker.Invalid, "A denial needs a code: too_broad, wrong_resource, not_needed, use_existing_grant, ask_owner, policy or suspicious.", nil)
		}
		// A denial is safe for any facts: without a digest it applies to the current ones.
		if v.Digest == "" {
			vote.Digest = r.Digest
		}
		return vote, nil
	}
	switch {
	case v.Code != "":
		return vote, broker.E(broker.Invalid, "code is for denials only. Leave it out of an approval.", nil)
	case v.Digest == "":
		return vote, broker.E(broker.Invalid, "digest is required to approve: send the digest of the facts that you saw, as 'ebb requests show' prints it.", nil)
	case v.Digest != r.Digest:
		return vote, broker.E(broker.Conflict, "The facts have changed since they were shown to you. Read the request again, then decide.", broker.ErrStale)
	case !r.Scopes.Covers(v.Scopes):
		return vote, broker.E(broker.Invalid, "An approval may narrow the scope, never widen it.", nil)
	case v.TTL < 0 || v.TTL > r.TTL:
		return vote, broker.E(broker.Invalid, "An approval may shorten ttl_seconds, never lengthen it.", nil)
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

// CheckDigest refuses a text that cannot be a digest of facts, such as a shortened one: a hex
// SHA-256 has 64 lower-case characters.
func CheckDigest(digest string) error {
	if b, err := hex.DecodeString(digest); err == nil && len(b) == sha256.Size && strings.ToLower(digest) == digest {
		return nil
	}
	return broker.E(broker.Invalid, fmt.Sprintf("digest must be the full 64 lower-case hex characters shown by 'ebb requests show'; got %d characters.", utf8.RuneCountInString(digest)), nil)
}

// stillTrue computes the facts again. If they differ from the facts that the approver saw, the
// request is withdrawn, so that the agent can ask again with current facts.
func (ve *Verdicts) stillTrue(ctx context.Context, r broker.Request) error {
	if r.State != broker.RequestPending {
		return ve.settled(ctx, r.ID, broker.ErrDone)
	}
	effect, again, err := ve.again(ctx, r)
	if err != nil {
		return err
	}
	if effect == policy.Ask && again.Digest == r.Digest {
		return nil
	}
	if _, err := ve.revoker.Withdraw(ctx, r, kernel.Self, "facts_changed"); err != nil {
		return err
	}
	return broker.E(broker.Conflict, "The facts have changed since the request was made. It was withdrawn; the agent may ask again.", broker.ErrStale)
}

// afterVote counts the outcome of the request and, on a suspicious one, ends the task.
func (ve *Verdicts) afterVote(ctx context.Context, r broker.Request) error {
	switch r.State {
	case broker.RequestApproved:
		ve.m.Requests.WithLabelValues("approved").Inc()
	case broker.RequestDenied:
		ve.m.Requests.WithLabelValues("denied").Inc()
		if err := ve.fatigue.Denied(ctx, r.TaskID, true); err != nil && !errors.Is(err, broker.ErrTaskClosed) {
			ve.logger.WarnContext(ctx, "counting a denial failed", "task_id", r.TaskID, "error", err)
		}
		if r.Code == broker.Suspicious {
			if _, err := ve.revoker.Close(ctx, ve.tasks.RootOf(ctx, r.TaskID), kernel.Suspicion(r, ve.clock.Sure())); err != nil {
				e := *broker.AsError(err)
				e.Public = "The denial is recorded. " + e.Public
				return &e
			}
		}
	}
	return nil
}

// suspectAgain ends the task of a request that waits no more: an agent must not evade the
// verdict by withdrawing its request, nor may a broken connection lose it. A request that
// others have approved stays a conflict.
func (ve *Verdicts) suspectAgain(ctx context.Context, who broker.Principal, id string, lost error) (broker.Request, error) {
	r, err := ve.approvals.requestByID(ctx, id)
	if err != nil {
		return broker.Request{}, err
	}
	// By Now, because ending a task is the safe side.
	over := r.State == broker.RequestWithdrawn || r.State == broker.RequestExpired || r.State == broker.RequestPending && !ve.clock.Now().Before(r.ExpiresAt)
	if !over && r.Code != broker.Suspicious {
		return broker.Request{}, ve.settled(ctx, id, lost)
	}
	m := kernel.Suspicion(r, ve.clock.Sure())
	m.By = who.ID
	if _, err = ve.revoker.Close(ctx, ve.tasks.RootOf(ctx, r.TaskID), m); err != nil {
		return broker.Request{}, err
	}
	return r, nil
}
