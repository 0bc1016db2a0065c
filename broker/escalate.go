package broker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"ebb/broker/audit"
	"ebb/broker/provider"
	"ebb/scopes"
	"ebb/scopes/policy"
)

// escalate answers a decision that needs people: by a grant they gave before,
// by what they said no to before, or by a new request.
func (b *Broker) escalate(ctx context.Context, w want, d policy.Decision, r TokenRequest) (Token, error) {
	now := b.now()
	if g, err := b.liveGrant(ctx, w, d, now); err != nil {
		return Token{}, err
	} else if g != nil {
		return b.mint(ctx, w, b.underGrant(*g, w, d))
	}
	if err := b.coolDown(ctx, w, d, now); err != nil {
		return Token{}, b.denyJudged(ctx, w, d, err)
	}
	if !r.Deferred {
		b.noteSeldom(ctx, b.taskEntry(audit.TokenAsk, w.sandbox.ID, w.live.ID, map[string]any{"scope": w.scopes, "rules": d.Rules, "policy": d.Version, "groups": d.Ask.Groups}))
		return Token{}, &Error{Kind: AskRequired, Public: "A person must approve this. Ask again with completion_mode=deferred and wait for the answer.",
			Advice: &Advice{Decision: "ask", Code: ByPolicy, WouldAllow: d.WouldAllow}}
	}
	if err := b.patience(ctx, w, now); err != nil {
		return Token{}, err
	}
	req, err := b.compose(ctx, w, d, r, now)
	if err != nil {
		return Token{}, unavailable(err)
	}
	room := Room{Open: w.live.Caps.OpenRequests, Owner: b.cfg.Limits.OwnerRequests, Since: now.Add(-ownerHour)}
	out, made, err := b.cfg.Desk.Create(ctx, req, room, b.requestEntry(audit.RequestCreated, w.sandbox.ID, req, map[string]any{
		"scope": req.Scopes, "ttl": req.TTL, "digest": req.Digest, "groups": req.Groups, "quorum": req.Quorum, "rules": d.Rules,
		"reason_sha256": req.Reason.Hash(), "facts": req.Facts,
	}))
	switch {
	case errors.Is(err, ErrCap), errors.Is(err, ErrOwnerCap):
		return Token{}, b.full(ctx, w, req, err)
	case errors.Is(err, ErrTaskClosed):
		return Token{}, E(InvalidGrant, "The task was completed meanwhile. Nobody is asked.", err)
	case err != nil:
		return Token{}, unavailable(err)
	}
	if made {
		b.m.requests.WithLabelValues("created").Inc()
		b.asked(ctx, w.live.root())
	} else {
		b.m.requests.WithLabelValues("repeated").Inc()
		if out.Asked == 2 { // how often it was in the end, the request says
			b.note(ctx, b.requestEntry(audit.RequestRepeated, w.sandbox.ID, out, nil))
		}
	}
	return Token{}, b.pending(out, b.cfg.Limits.PollInterval)
}

// pending is the answer to a client that has to wait.
func (b *Broker) pending(r Request, interval time.Duration) *Error {
	left := max(r.ExpiresAt.Sub(b.now()), time.Second)
	return &Error{Kind: Pending, Public: "A person is deciding. Poll with the deferral code.", RetryAfter: interval,
		Pending: &PendingInfo{RequestID: r.ID, DeferralCode: b.codeOf(r.ID, r.Binding), ExpiresIn: left, Interval: interval}}
}

func (b *Broker) compose(ctx context.Context, w want, d policy.Decision, r TokenRequest, now time.Time) (Request, error) {
	ttl := Seconds(min(w.ttl, d.TTL) / time.Second)
	req := Request{
		ID: newID(requestPrefix), TaskID: w.live.ID, Sandbox: w.sandbox.ID, Owner: w.live.Owner, Runner: w.live.Runner,
		Dedupe:   hashOf(w.live.ID, w.scopes.String(), w.provider.Resource, w.bind.JKT, w.bind.X5T, strings.Join(w.lineage, " "), w.tool, w.delivery),
		Provider: w.name, Scopes: w.scopes, Resource: w.provider.Resource, TTL: ttl, Binding: w.bind, Tool: w.tool,
		Details: w.details, EvidenceEnd: w.notAfter, Parents: w.lineage, Reason: r.Reason, Asked: 1,
		CreatedAt: now, ExpiresAt: earliest(now.Add(b.cfg.Limits.RequestTTL), w.live.Deadline), State: RequestPending,
	}
	then, err := b.asAsked(ctx, w, ttl, now)
	if err != nil {
		return req, err
	}
	how := b.weigh(w, ttl, then).Result
	req.Approval, req.Rank = b.wanted(d, how), how.Level.Rank()
	req.Facts, req.Digest, err = seal(b.factsOf(req, w, d, then))
	return req, err
}

func earliest(a time.Time, more ...time.Time) time.Time {
	for _, t := range more {
		if !t.IsZero() && t.Before(a) {
			a = t
		}
	}
	return a
}

// liveGrant finds an approval of this task that covers the request: nobody is
// asked twice for the same. Another tool is not the same: the approver saw which
// one it was for; and what it was given for a narrowed token dies with that, so that
// it serves nothing that would not. The people who gave it must be those that policy
// wants now: it may want others since the task has read something, or since it
// was changed (I7).
func (b *Broker) liveGrant(ctx context.Context, w want, d policy.Decision, now time.Time) (*Request, error) {
	rs, err := b.cfg.Desk.Requests(ctx, RequestFilter{TaskID: w.live.ID, GrantLive: now, Page: Page{Desc: true, Limit: 100}})
	if err != nil {
		return nil, unavailable(err)
	}
	for _, r := range rs {
		same := r.Binding == w.bind && r.Resource == w.provider.Resource && r.Tool == w.tool
		// What was to stay here was approved as that; what was to be handed out may stay.
		same = same && (delivered(r) == w.delivery || w.delivery == policy.DeliveryEgress)
		if !same || !begins(w.lineage, r.Parents) || !r.Granted.Covers(w.scopes) || !keeps(w.promise(), seen(r)) {
			continue
		}
		if ok, err := b.agreed(ctx, r, w, d); ok || err != nil {
			return &r, err
		}
	}
	return nil, nil
}

// begins reports whether a lineage, oldest first, is that of head or goes on from it.
func begins(lineage, head []string) bool {
	return len(head) <= len(lineage) && slices.Equal(lineage[:len(head)], head)
}

// seen is how the people who decided r were told that its credential can be taken
// back.
func seen(r Request) provider.Revocability {
	var f FactSheet
	if err := json.Unmarshal(r.Facts, &f); err != nil {
		return provider.Revocability{Class: provider.ClassInstant} // nothing weaker was shown to anybody
	}
	return provider.Revocability{Class: f.Class, Bound: f.Bound.Duration()}
}

// delivered is how the people who decided r were told that its credential is delivered.
func delivered(r Request) string {
	var f FactSheet
	if err := json.Unmarshal(r.Facts, &f); err != nil {
		return policy.DeliveryEgress // nothing more was shown to anybody
	}
	return cmp.Or(f.Delivery, policy.DeliveryToken)
}

// agreed reports whether the people who said yes to r are those that a decision
// about w asks for: at the risk that there is now, but for what moves by itself.
func (b *Broker) agreed(ctx context.Context, r Request, w want, d policy.Decision) (bool, error) {
	if d.Effect == policy.Allow {
		return true, nil
	}
	if stands, err := b.glassStands(ctx, r); stands || err != nil {
		return stands, err
	}
	var then AsAsked // of facts that are not of this version nothing is known
	if f, err := r.Sheet(); err == nil && f.Then != nil {
		then = *f.Then
	}
	var yes []policy.Approver
	for _, v := range r.Votes {
		if v.Approve && v.BreakGlass == "" { // one given alone is nobody's but its period's
			yes = append(yes, policy.Approver{Name: v.By, Groups: v.Groups})
		}
	}
	ask := b.wanted(d, b.weigh(w, r.GrantedTTL, then).Result)
	return ask.Satisfied(yes), nil
}

// patience refuses a task that takes its requests back to make others: people
// would see nothing but its noise.
func (b *Broker) patience(ctx context.Context, w want, now time.Time) error {
	limit := max(1, min(5*w.live.Caps.OpenRequests, 100))
	rs, err := b.cfg.Desk.Requests(ctx, RequestFilter{
		Tree: w.live.root(), State: RequestWithdrawn, Since: now.Add(-b.cfg.Limits.CoolDown), Page: Page{Desc: true, Limit: limit},
	})
	if err != nil {
		return unavailable(err)
	}
	if len(rs) < limit {
		return nil
	}
	wait := max(rs[limit-1].DecidedAt.Add(b.cfg.Limits.CoolDown).Sub(now), time.Second)
	return &Error{Kind: TooMany, Public: "This task has taken back as many requests as it may. Wait, then ask for what is needed.",
		RetryAfter: wait, Advice: &Advice{Decision: "wait", Code: AskedEnough, RetryAfter: wholeSeconds(wait)}}
}

// underGrant is what may be minted under an approval: never more than asked now,
// never more than was approved, never past its end.
func (b *Broker) underGrant(g Request, w want, d policy.Decision) decided {
	return decided{
		scopes: g.Granted.Narrow(w.scopes), ttl: min(d.TTL, g.GrantedTTL.Duration()), rules: d.Rules,
		until: g.GrantUntil, requestID: g.ID, promise: seen(g),
	}
}

// coolDown refuses what was denied a short time ago, or more than that, however
// the agent words it now; and its parts too, unless the denial was about its size
// or one of its resources: not needed in one piece is not needed in several.
func (b *Broker) coolDown(ctx context.Context, w want, d policy.Decision, now time.Time) error {
	rs, err := b.cfg.Desk.Requests(ctx, RequestFilter{
		Tree: w.live.root(), State: RequestDenied, Since: now.Add(-b.cfg.Limits.CoolDown), Page: Page{Desc: true, Limit: 100},
	})
	if err != nil {
		return unavailable(err)
	}
	for _, r := range rs {
		left := r.DecidedAt.Add(b.cfg.Limits.CoolDown).Sub(now)
		part := r.Code != TooBroad && r.Code != WrongResource && r.Scopes.Covers(w.scopes)
		if left <= 0 || !part && !w.scopes.Covers(r.Scopes) {
			continue
		}
		return &Error{Kind: Denied, Public: "A person denied this a short time ago. Do not ask for the same again.", RetryAfter: left, Advice: b.advice(r, d.WouldAllow, left)}
	}
	return nil
}

func (b *Broker) advice(r Request, would scopes.Set, wait time.Duration) *Advice {
	return &Advice{Decision: "denied", Code: r.Code, Note: r.Note, WouldAllow: would,
		RetryAfter: wholeSeconds(wait), DoNotRetrySame: true}
}
