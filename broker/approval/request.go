package approval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/internal/thirdparty"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/amount"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// Approvals creates requests that wait for people, answers the caller's polls and issues the
// approved tokens.
type Approvals struct {
	approvalStore broker.ApprovalStore
	store         broker.Store
	liveStore     broker.LiveStore
	limits        broker.Limits
	providers     map[string]broker.Provider
	codeKey       []byte
	m             *kernel.Metrics

	admission   *kernel.Admitter
	callers     callers
	clock       *kernel.Timekeeper
	emergencies *Emergencies
	fatigue     *FatigueGuard
	issuer      issuer
	log         *kernel.Recorder
	revoker     revoker

	marks marks
}

// Escalate handles a decision that needs people: by an earlier approval, by an earlier denial,
// or by a new request.
func (ap *Approvals) Escalate(ctx context.Context, w kernel.MintRequest, d policy.Decision, r broker.TokenRequest) (broker.Token, error) {
	now := ap.clock.Now()
	if g, err := ap.liveGrant(ctx, w, d, now); err != nil {
		return broker.Token{}, err
	} else if g != nil {
		return ap.issuer.Mint(ctx, w, ap.underGrant(*g, w, d))
	}
	if err := ap.coolDown(ctx, w, d, now); err != nil {
		return broker.Token{}, ap.issuer.DenyJudged(ctx, w, d, err)
	}
	if !r.Deferred {
		ap.log.NoteSeldom(ctx, ap.log.TaskEntry(audit.TokenAsk, w.Sandbox.ID, w.Live.ID, map[string]any{"scope": w.Scopes, "rules": d.Rules, "policy": d.Version, "groups": d.Ask.Groups}))
		return broker.Token{}, &broker.Error{Kind: broker.AskRequired, Public: "A person must approve this, and the call did not offer to wait for that (completion_mode=deferred).",
			Advice: &broker.Advice{Decision: "ask", Code: broker.ByPolicy, WouldAllow: d.WouldAllow},
			Next:   []string{"repeat the command with --wait: members of " + broker.Named(d.Ask.Groups) + " can approve"}}
	}
	if err := ap.patience(ctx, w, now); err != nil {
		return broker.Token{}, err
	}
	req, err := ap.compose(ctx, w, d, r, now)
	if err != nil {
		return broker.Token{}, broker.StoreError(err)
	}
	room := broker.Room{Open: w.Live.Caps.OpenRequests, Owner: ap.limits.OwnerRequests, Since: now.Add(-ownerHour)}
	out, made, err := ap.approvalStore.Create(ctx, req, room, ap.revoker.RequestEntry(audit.RequestCreated, w.Sandbox.ID, req, map[string]any{
		"scope": req.Scopes, "ttl": req.TTL, "digest": req.Digest, "groups": req.Groups, "quorum": req.Quorum, "rules": d.Rules,
		"reason_sha256": req.Reason.Hash(), "facts": req.Facts, "match": broker.MatchCode(req.ID),
	}))
	switch {
	case errors.Is(err, broker.ErrCap), errors.Is(err, broker.ErrOwnerCap):
		return broker.Token{}, ap.fatigue.full(ctx, w, req, err)
	case errors.Is(err, broker.ErrTaskClosed):
		return broker.Token{}, broker.E(broker.InvalidGrant, "The task ended while this was decided. No person was asked.", err)
	case err != nil:
		return broker.Token{}, broker.StoreError(err)
	}
	if made {
		ap.m.Requests.WithLabelValues("created").Inc()
		ap.fatigue.asked(ctx, w.Live.Root())
	} else {
		ap.m.Requests.WithLabelValues("repeated").Inc()
		if out.Asked == 2 { // recorded once; the request itself has the final count
			ap.log.Note(ctx, ap.revoker.RequestEntry(audit.RequestRepeated, w.Sandbox.ID, out, nil))
		}
	}
	return broker.Token{}, ap.pending(out, ap.limits.PollInterval)
}

// pending returns the answer to a client that has to wait.
func (ap *Approvals) pending(r broker.Request, interval time.Duration) *broker.Error {
	left := max(r.ExpiresAt.Sub(ap.clock.Now()), time.Second)
	return &broker.Error{Kind: broker.Pending, Public: "A person is deciding. Poll with the deferral code.", RetryAfter: interval,
		Pending: &broker.PendingInfo{RequestID: r.ID, DeferralCode: ap.codeOf(r.ID, r.Binding), ExpiresIn: left, Interval: interval, Groups: r.Approval.Groups}}
}

func (ap *Approvals) compose(ctx context.Context, w kernel.MintRequest, d policy.Decision, r broker.TokenRequest, now time.Time) (broker.Request, error) {
	ttl := broker.Seconds(min(w.TTL, d.TTL) / time.Second)
	req := broker.Request{
		ID: broker.NewID(broker.RequestPrefix), TaskID: w.Live.ID, Sandbox: w.Sandbox.ID, Owner: w.Live.Owner, Runner: w.Live.Runner,
		Dedupe:   broker.HashOf(w.Live.ID, w.Scopes.String(), w.Provider.Resource, w.Bind.JKT, w.Bind.X5T, strings.Join(w.Lineage, " "), w.Tool, w.Delivery, broker.ContentSum(w.Content)),
		Provider: w.Name, Scopes: w.Scopes, Resource: w.Provider.Resource, TTL: ttl, Binding: w.Bind, Tool: w.Tool,
		Details: w.Details, EvidenceEnd: w.NotAfter, Parents: w.Lineage, Reason: r.Reason, Asked: 1,
		CreatedAt: now, ExpiresAt: broker.Earliest(now.Add(ap.limits.RequestTTL), w.Live.Deadline), State: broker.RequestPending,
	}
	then, err := ap.asAsked(ctx, w, ttl, now)
	if err != nil {
		return req, err
	}
	how := ap.assess(w, ttl, then).Result
	req.Approval, req.Rank = ap.wanted(d, how), how.Level.Rank()
	req.Facts, req.Digest, err = broker.Seal(ap.factsOf(req, w, d, then))
	return req, err
}

// liveGrant returns an approval of this task that covers the request, so that people are not
// asked twice for the same. It must be for the same tool, because the approver saw which tool
// it was for. An approval for a narrowed token ends with its parent, so that it serves only
// requests that end with it too. The people who approved must be those whom the policy demands
// now: that may have changed with the policy or with the task's taint (I7).
func (ap *Approvals) liveGrant(ctx context.Context, w kernel.MintRequest, d policy.Decision, now time.Time) (*broker.Request, error) {
	rs, err := ap.approvalStore.Requests(ctx, broker.RequestFilter{TaskID: w.Live.ID, GrantLive: now, Page: broker.Page{Desc: true, Limit: 100}})
	if err != nil {
		return nil, broker.StoreError(err)
	}
	for _, r := range rs {
		same := r.Binding == w.Bind && r.Resource == w.Provider.Resource && r.Tool == w.Tool
		// An approval for one content covers no other content, and no request without one. An approval
		// without a content covers no content that people must see.
		only := broker.ContentSum(limitedTo(r))
		if (only != "" || w.Content.NeedsPeople()) && only != broker.ContentSum(w.Content) {
			continue
		}
		if only != "" {
			used, err := ap.store.Spent(ctx, w.Live.Root(), broker.OneUse(r.ID, only))
			if err != nil {
				return nil, broker.StoreError(err)
			}
			if len(used) > 0 {
				continue
			}
		}
		// An approval for egress does not cover delivery as a token; the reverse is allowed.
		same = same && (delivered(r) == w.Delivery || w.Delivery == policy.DeliveryEgress)
		if !same || !begins(w.Lineage, r.Parents) || !r.Granted.Covers(w.Scopes) || !thirdparty.Keeps(w.Promise(), seen(r)) {
			continue
		}
		if ok, err := ap.agreed(ctx, r, w, d); ok || err != nil {
			return &r, err
		}
	}
	return nil, nil
}

// begins reports whether a lineage, oldest first, equals head or continues it.
func begins(lineage, head []string) bool {
	return len(head) <= len(lineage) && slices.Equal(lineage[:len(head)], head)
}

// seen returns the revocability that the people who decided r were shown.
func seen(r broker.Request) provider.Revocability {
	var f broker.FactSheet
	if err := json.Unmarshal(r.Facts, &f); err != nil {
		return provider.Revocability{Class: provider.ClassInstant} // no weaker class was shown to approvers
	}
	return provider.Revocability{Class: f.Class, Bound: f.Bound.Duration()}
}

// delivered returns the delivery that the people who decided r were shown.
func delivered(r broker.Request) string {
	var f broker.FactSheet
	if err := json.Unmarshal(r.Facts, &f); err != nil {
		return policy.DeliveryEgress // no wider delivery was shown to approvers
	}
	return cmp.Or(f.Delivery, policy.DeliveryToken)
}

// limitedTo returns the content that the people who decide r are shown; nil = none. For unreadable
// facts it returns a content that no request has.
func limitedTo(r broker.Request) *content.Facts {
	var f broker.FactSheet
	if err := json.Unmarshal(r.Facts, &f); err != nil {
		return &content.Facts{Kind: "unreadable"}
	}
	return f.Content
}

// spendable returns the limits of amounts that the people who decided r were shown. For unreadable
// facts nothing may be spent.
func spendable(r broker.Request) amount.Limits {
	var f broker.FactSheet
	if err := json.Unmarshal(r.Facts, &f); err != nil {
		return amount.Limits{}
	}
	return f.MaxAmount
}

// agreed reports whether the people who approved r are those whom the decision about w demands.
// The risk is assessment with the current facts, except for those that change by themselves.
func (ap *Approvals) agreed(ctx context.Context, r broker.Request, w kernel.MintRequest, d policy.Decision) (bool, error) {
	if d.Effect == policy.Allow {
		return true, nil
	}
	if stands, err := ap.emergencies.glassStands(ctx, r); stands || err != nil {
		return stands, err
	}
	var then broker.AsAsked // stays empty for facts of an older version
	if f, err := r.Sheet(); err == nil && f.Then != nil {
		then = *f.Then
	}
	var yes []policy.Approver
	for _, v := range r.Votes {
		if v.Approve && v.BreakGlass == "" { // an approval under break-glass counts only while its period is open
			yes = append(yes, policy.Approver{Name: v.By, Groups: v.Groups})
		}
	}
	ask := ap.wanted(d, ap.assess(w, r.GrantedTTL, then).Result)
	return ask.Satisfied(yes), nil
}

// patience refuses further requests of a task that keeps withdrawing and replacing its
// requests, because they would fill people's queue.
func (ap *Approvals) patience(ctx context.Context, w kernel.MintRequest, now time.Time) error {
	limit := max(1, min(5*w.Live.Caps.OpenRequests, 100))
	rs, err := ap.approvalStore.Requests(ctx, broker.RequestFilter{
		Tree: w.Live.Root(), State: broker.RequestWithdrawn, Since: now.Add(-ap.limits.CoolDown), Page: broker.Page{Desc: true, Limit: limit},
	})
	if err != nil {
		return broker.StoreError(err)
	}
	if len(rs) < limit {
		return nil
	}
	wait := max(rs[limit-1].DecidedAt.Add(ap.limits.CoolDown).Sub(now), time.Second)
	return &broker.Error{Kind: broker.TooMany, Public: "This task has reached its limit of withdrawn requests. Wait, then ask only for the access that it needs.",
		RetryAfter: wait, Advice: &broker.Advice{Decision: "wait", Code: broker.AskedEnough, RetryAfter: kernel.WholeSeconds(wait)}}
}

// underGrant returns the decision for a mint under an approval: never more than the request or
// the approval, and never past the end of the approval.
func (ap *Approvals) underGrant(g broker.Request, w kernel.MintRequest, d policy.Decision) kernel.Decision {
	return kernel.Decision{
		Scopes: g.Granted.Narrow(w.Scopes), TTL: min(d.TTL, g.GrantedTTL.Duration()), Rules: d.Rules,
		Until: g.GrantUntil, RequestID: g.ID, Promise: seen(g),
		Content: cmp.Or(limitedTo(g), w.Content), MaxAmount: d.MaxAmount.And(spendable(g)),
	}
}

// coolDown refuses a request that covers a recently denied one, regardless of the agent's
// reason. It also refuses a part of the denied request, unless the denial was about its size or
// one of its resources: access that is not needed as a whole is not needed in parts.
func (ap *Approvals) coolDown(ctx context.Context, w kernel.MintRequest, d policy.Decision, now time.Time) error {
	rs, err := ap.approvalStore.Requests(ctx, broker.RequestFilter{
		Tree: w.Live.Root(), State: broker.RequestDenied, Since: now.Add(-ap.limits.CoolDown), Page: broker.Page{Desc: true, Limit: 100},
	})
	if err != nil {
		return broker.StoreError(err)
	}
	for _, r := range rs {
		left := r.DecidedAt.Add(ap.limits.CoolDown).Sub(now)
		part := r.Code != broker.TooBroad && r.Code != broker.WrongResource && r.Scopes.Covers(w.Scopes)
		if left <= 0 || !part && !w.Scopes.Covers(r.Scopes) {
			continue
		}
		return &broker.Error{Kind: broker.Denied, Public: "A person denied this a short time ago. Do not ask for the same again.", RetryAfter: left, Advice: ap.advice(r, d.WouldAllow, left)}
	}
	return nil
}

func (ap *Approvals) advice(r broker.Request, would scopes.Set, wait time.Duration) *broker.Advice {
	return &broker.Advice{Decision: "denied", Code: r.Code, Note: r.Note, WouldAllow: would,
		RetryAfter: kernel.WholeSeconds(wait), DoNotRetrySame: true}
}
