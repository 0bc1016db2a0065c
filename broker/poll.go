package broker

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"ebb/broker/audit"
	"ebb/broker/provider"
	"ebb/scopes/policy"
)

// PollRequest redeems a deferral code. The caller must hold the key of the first
// request; Subject is checked too when the client authenticates.
type PollRequest struct {
	Code       string
	Subject    Subject
	Possession Possession
	PublicKey  string // as in TokenRequest: not part of what is approved, the approved key vouches for it
}

// Poll redeems a deferral code.
func (b *Broker) Poll(ctx context.Context, r PollRequest) (Token, error) {
	t, err := b.poll(ctx, r)
	outcome := "issued"
	if err != nil {
		outcome = string(AsError(err).Kind)
	}
	b.m.tokens.WithLabelValues(outcome).Inc()
	return t, err
}

func (b *Broker) poll(ctx context.Context, q PollRequest) (Token, error) {
	s, p := q.Subject, q.Possession
	id, key, genuine := b.requestOfCode(q.Code)
	// Another key or another client learns nothing and disturbs nothing: the
	// request survives for its owner (CIBA Core section 11).
	if !genuine || key != keyName(p.Binding()) || p.Binding() == (provider.Binding{}) {
		return Token{}, badCode(nil)
	}
	if err := certifiable(q.PublicKey); err != nil {
		return Token{}, err
	}
	known := s.Evidence != nil || s.Assertion != "" || s.AccessToken != ""
	if !known {
		if err := b.claimProof(ctx, p); err != nil {
			return Token{}, err
		}
	}
	// Before anything is read: who polls all the time costs the desk nothing.
	now := b.now()
	interval, ok, err := b.cfg.Ledger.Pace(ctx, "poll:"+id, now, b.cfg.Limits.PollInterval, 5*time.Second, now.Add(b.cfg.Limits.RequestTTL+time.Hour))
	if err != nil {
		return Token{}, unavailable(err)
	}
	if !ok {
		return Token{}, &Error{Kind: SlowDown, Public: "Polled too fast. The interval has grown by 5 seconds.", RetryAfter: interval,
			Pending: &PendingInfo{RequestID: id, Interval: interval}}
	}
	r, err := b.requestByID(ctx, id)
	if err != nil {
		if AsError(err).Kind == Unavailable {
			return Token{}, err
		}
		return Token{}, badCode(err)
	}
	if p.Binding() != r.Binding {
		return Token{}, badCode(nil)
	}
	if known {
		if s.Evidence != nil {
			s.TaskID = r.TaskID // which it does not name, and a poll repeats nothing
		}
		a, err := b.ask(ctx, toMint, s, p)
		if err != nil {
			return Token{}, err
		}
		if a.sandbox.ID != r.Sandbox {
			return Token{}, badCode(nil)
		}
	}
	return b.settle(ctx, r, interval, q.PublicKey)
}

func badCode(cause error) *Error {
	return E(InvalidGrant, "The code is unknown, was used, or belongs to another client or key.", cause)
}

// settle answers a poll by the state of its request.
func (b *Broker) settle(ctx context.Context, r Request, interval time.Duration, publicKey string) (Token, error) {
	now := b.now()
	if r.State == RequestPending && !now.Before(r.ExpiresAt) {
		var err error
		if r, err = b.expire(ctx, r); err != nil {
			return Token{}, err
		}
	}
	switch r.State {
	case RequestPending:
		return Token{}, b.pending(r, interval)
	case RequestApproved:
		return b.redeem(ctx, r, publicKey)
	case RequestDenied, RequestExpired:
		if err := b.claim1(ctx, []Claim{{Key: "end:" + r.ID, Value: "1", Until: r.ExpiresAt.Add(time.Hour)}}, InvalidGrant, "The code was answered before."); err != nil {
			return Token{}, err
		}
		if r.State == RequestExpired {
			return Token{}, &Error{Kind: ExpiredRequest, Public: "Nobody decided in time, which is a no. Ask for less or ask the owner.",
				Advice: &Advice{Decision: "denied", Code: NoAnswer, RetryAfter: int64(b.cfg.Limits.CoolDown / time.Second)}}
		}
		left := max(r.DecidedAt.Add(b.cfg.Limits.CoolDown).Sub(now), 0)
		var f FactSheet
		_ = json.Unmarshal(r.Facts, &f) // advice is best effort; the denial stands
		return Token{}, &Error{Kind: Denied, Public: "A person denied this.", RetryAfter: left, Advice: b.advice(r, f.WouldAllow, left)}
	default:
		return Token{}, badCode(nil)
	}
}

// redeem mints the first token of an approved request. Policy, task and evidence
// are judged again: an approval allows, it does not force.
func (b *Broker) redeem(ctx context.Context, r Request, publicKey string) (Token, error) {
	live, err := b.admit(ctx, toMint, r.TaskID, Possession{}, InvalidGrant)
	if err != nil {
		return Token{}, err
	}
	if live.State == TaskPaused {
		return Token{}, pausedError()
	}
	if live.Sandbox == nil || live.Sandbox.ID != r.Sandbox {
		return Token{}, badCode(nil)
	}
	p, known := b.cfg.Providers[r.Provider]
	if !known {
		return Token{}, E(InvalidTarget, "The provider of this request is no longer configured.", nil)
	}
	w := want{
		asker:  asker{live: live, sandbox: *live.Sandbox, notAfter: r.EvidenceEnd, lineage: r.Parents},
		scopes: r.Scopes, name: r.Provider, provider: p, ttl: r.TTL.Duration(), bind: r.Binding, tool: r.Tool, details: r.Details,
		publicKey: publicKey, delivery: delivered(r),
	}
	d, err := b.judge(&w)
	if err != nil {
		return Token{}, unavailable(err)
	}
	if err := b.deliverable(w); err != nil && d.Effect != policy.Deny {
		return Token{}, b.denyJudged(ctx, w, d, err)
	}
	if d.Effect == policy.Deny {
		return Token{}, b.denyJudged(ctx, w, d, E(Denied, "Policy has changed and no longer allows this.", nil))
	}
	agreed, err := b.agreed(ctx, r, w, d)
	if err != nil {
		return Token{}, err
	}
	if !agreed {
		// The wrong people have said yes: the code is of no use any more, and the
		// agent may ask the right ones.
		if _, err := b.withdraw(ctx, r, self, "others_must_agree"); err != nil {
			return Token{}, err
		}
		return Token{}, b.denyJudged(ctx, w, d, E(Denied, "Policy asks other people now than those who agreed. Ask again.", nil))
	}
	dec := b.underGrant(r, w, d)
	dec.first = &r
	return b.mint(ctx, w, dec)
}

func (b *Broker) expire(ctx context.Context, r Request) (Request, error) {
	e := b.requestEntry(audit.RequestExpired, self, r, nil)
	out, err := b.cfg.Desk.Settle(ctx, r.ID, RequestPending, RequestExpired, b.now(), Record{Entries: []audit.Entry{e}})
	if errors.Is(err, ErrDone) { // decided in the same moment
		return b.requestByID(ctx, r.ID)
	}
	if err != nil {
		return r, unavailable(err)
	}
	b.m.requests.WithLabelValues("expired").Inc()
	return out, nil
}

func (b *Broker) requestByID(ctx context.Context, id string) (Request, error) {
	if !validID(requestPrefix, id) {
		return Request{}, E(NotFound, "There is no such request.", nil)
	}
	rs, err := b.cfg.Desk.Requests(ctx, RequestFilter{IDs: []string{id}})
	if err != nil {
		return Request{}, unavailable(err)
	}
	if len(rs) == 0 {
		return Request{}, E(NotFound, "There is no such request.", nil)
	}
	return rs[0], nil
}
