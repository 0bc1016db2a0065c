package broker

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gowebpki/jcs"

	"ebb/broker/audit"
	"ebb/broker/provider"
	"ebb/scopes"
	"ebb/scopes/policy"
)

// codePrefix marks deferral codes. A code is the request's id and an HMAC of it:
// nothing needs to be stored to recognise it, and a repeated first request gets
// the same one.
const codePrefix = "ebb_dfr_"

func (b *Broker) codeOf(requestID string) provider.Secret {
	m := hmac.New(sha256.New, b.codeKey)
	m.Write([]byte(requestID))
	return provider.NewSecret(codePrefix + strings.TrimPrefix(requestID, requestPrefix) + "_" + base64.RawURLEncoding.EncodeToString(m.Sum(nil)))
}

// requestOfCode is the inverse of codeOf; is reports whether code is genuine.
func (b *Broker) requestOfCode(code string) (id string, is bool) {
	rest, ok := strings.CutPrefix(code, codePrefix)
	if !ok {
		return "", false
	}
	hexID, _, ok := strings.Cut(rest, "_")
	id = requestPrefix + hexID
	if !ok || !validID(requestPrefix, id) {
		return "", false
	}
	return id, b.codeOf(id).Equal(provider.NewSecret(code))
}

// facts is what an approver decides on, computed by the broker alone: the
// agent's words are not among them (I9).
type facts struct {
	Request    string            `json:"request_id"`
	Scope      scopes.Set        `json:"scope"`
	Resource   string            `json:"resource"`
	Provider   string            `json:"provider"`
	Class      provider.Class    `json:"revocability"`
	TTL        Seconds           `json:"ttl_seconds"`
	Binding    provider.Binding  `json:"cnf"`
	Tool       string            `json:"tool"`
	TaskID     string            `json:"task_id"`
	TaskName   string            `json:"task_name"`
	TaskKind   string            `json:"task_kind"`
	Owner      string            `json:"owner"`
	Runner     string            `json:"runner"`
	Labels     map[string]string `json:"labels"`
	Deadline   time.Time         `json:"deadline"`
	Sandbox    Sandbox           `json:"sandbox"`
	WouldAllow scopes.Set        `json:"would_allow"`
	Rules      []string          `json:"rules"`
	Why        []string          `json:"why"`
	Ask        policy.Approval   `json:"ask"`
	Policy     string            `json:"policy_version"`
	Violations int               `json:"violations"`
	Taint      []string          `json:"taint"`
	ExpiresAt  time.Time         `json:"expires_at"`
}

// seal makes facts canonical (RFC 8785) and names them by their SHA-256.
func seal(f facts) (Facts, string, error) {
	raw, err := json.Marshal(f)
	if err != nil {
		return nil, "", err
	}
	canonical, err := jcs.Transform(raw)
	if err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256(canonical)
	return canonical, hex.EncodeToString(sum[:]), nil
}

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
		return Token{}, b.deny(ctx, w.asker, w.scopes, &d, err)
	}
	if !r.Deferred {
		return Token{}, &Error{Kind: AskRequired, Public: "A person must approve this. Ask again with completion_mode=deferred and wait for the answer.",
			Advice: &Advice{Decision: "ask", Code: ByPolicy, WouldAllow: d.WouldAllow}}
	}
	if err := b.patience(ctx, w, now); err != nil {
		return Token{}, err
	}
	req, err := b.compose(w, d, r, now)
	if err != nil {
		return Token{}, unavailable(err)
	}
	out, made, err := b.cfg.Desk.Create(ctx, req, w.live.Caps.OpenRequests, b.requestEntry(audit.RequestCreated, w.sandbox.ID, req, map[string]any{
		"scope": req.Scopes, "ttl": req.TTL, "digest": req.Digest, "groups": req.Groups, "quorum": req.Quorum, "rules": d.Rules,
		"reason_sha256": req.Reason.Hash(), "facts": req.Facts,
	}))
	switch {
	case errors.Is(err, ErrCap):
		return Token{}, &Error{Kind: TooMany, Public: "This task has as many requests waiting as it may. Wait for an answer.", Cause: err, RetryAfter: time.Minute}
	case errors.Is(err, ErrTaskClosed):
		return Token{}, E(InvalidGrant, "The task was completed meanwhile. Nobody is asked.", err)
	case err != nil:
		return Token{}, unavailable(err)
	}
	if made {
		b.m.requests.WithLabelValues("created").Inc()
	} else {
		b.m.requests.WithLabelValues("repeated").Inc()
	}
	return Token{}, b.pending(out, b.cfg.Limits.PollInterval)
}

// pending is the answer to a client that has to wait.
func (b *Broker) pending(r Request, interval time.Duration) *Error {
	left := max(r.ExpiresAt.Sub(b.now()), time.Second)
	return &Error{Kind: Pending, Public: "A person is deciding. Poll with the deferral code.", RetryAfter: interval,
		Pending: &PendingInfo{RequestID: r.ID, DeferralCode: b.codeOf(r.ID), ExpiresIn: left, Interval: interval}}
}

func (b *Broker) compose(w want, d policy.Decision, r TokenRequest, now time.Time) (Request, error) {
	ttl := Seconds(min(w.ttl, d.TTL) / time.Second)
	req := Request{
		ID: newID(requestPrefix), TaskID: w.live.ID, Sandbox: w.sandbox.ID, Owner: w.live.Owner, Runner: w.live.Runner,
		Dedupe:   hashOf(w.live.ID, w.scopes.String(), w.provider.Resource, w.bind.JKT, w.bind.X5T),
		Provider: w.name, Scopes: w.scopes, Resource: w.provider.Resource, TTL: ttl, Binding: w.bind, Tool: w.tool,
		Details: w.details, EvidenceEnd: w.notAfter, Approval: *d.Ask, Reason: r.Reason, Asked: 1,
		CreatedAt: now, ExpiresAt: earliest(now.Add(b.cfg.Limits.RequestTTL), w.live.Deadline), State: RequestPending,
	}
	var err error
	req.Facts, req.Digest, err = seal(b.factsOf(req, w.live, w.sandbox, d))
	return req, err
}

// factsOf computes the facts of a request from the task as it is and the policy
// as it decides. Made again when somebody approves: a difference is a 409 (I7).
func (b *Broker) factsOf(r Request, t Live, s Sandbox, d policy.Decision) facts {
	return facts{
		Request: r.ID, Scope: r.Scopes, Resource: r.Resource, Provider: r.Provider, Class: b.cfg.Providers[r.Provider].Driver.Class(),
		TTL: r.TTL, Binding: r.Binding, Tool: r.Tool, TaskID: t.ID, TaskName: t.Name, TaskKind: t.Kind, Owner: t.Owner,
		Runner: t.Runner, Labels: t.Labels, Deadline: t.Deadline, Sandbox: s, WouldAllow: d.WouldAllow, Rules: d.Rules,
		Why: d.Why, Ask: r.Approval, Policy: d.Version, Violations: t.Violations,
		Taint: t.Taint, ExpiresAt: r.ExpiresAt,
	}
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
// asked twice for the same. The people who gave it must be those that policy
// wants now: it may want others since the task has read something, or since it
// was changed (I7).
func (b *Broker) liveGrant(ctx context.Context, w want, d policy.Decision, now time.Time) (*Request, error) {
	rs, err := b.cfg.Desk.Requests(ctx, RequestFilter{TaskID: w.live.ID, GrantLive: now, Page: Page{Desc: true, Limit: 100}})
	if err != nil {
		return nil, unavailable(err)
	}
	for _, r := range rs {
		if r.Sandbox == w.sandbox.ID && r.Binding == w.bind && r.Resource == w.provider.Resource && r.Granted.Covers(w.scopes) && agreed(r, d) {
			return &r, nil
		}
	}
	return nil, nil
}

// agreed reports whether the people who said yes to r are those that a decision
// asks for.
func agreed(r Request, d policy.Decision) bool {
	var yes []policy.Approver
	for _, v := range r.Votes {
		if v.Approve {
			yes = append(yes, policy.Approver{Name: v.By, Groups: v.Groups})
		}
	}
	return d.Effect == policy.Allow || d.Ask.Satisfied(yes)
}

// patience refuses a task that takes its requests back to make others: people
// would see nothing but its noise.
func (b *Broker) patience(ctx context.Context, w want, now time.Time) error {
	limit := max(1, min(5*w.live.Caps.OpenRequests, 100))
	rs, err := b.cfg.Desk.Requests(ctx, RequestFilter{
		TaskID: w.live.ID, State: RequestWithdrawn, Since: now.Add(-b.cfg.Limits.CoolDown), Page: Page{Desc: true, Limit: limit},
	})
	if err != nil {
		return unavailable(err)
	}
	if len(rs) < limit {
		return nil
	}
	return &Error{Kind: TooMany, Public: "This task has taken back as many requests as it may. Wait, then ask for what is needed.",
		RetryAfter: max(rs[limit-1].DecidedAt.Add(b.cfg.Limits.CoolDown).Sub(now), time.Second)}
}

// underGrant is what may be minted under an approval: never more than asked now,
// never more than was approved, never past its end.
func (b *Broker) underGrant(g Request, w want, d policy.Decision) decided {
	return decided{
		scopes: g.Granted.Narrow(w.scopes), ttl: min(d.TTL, g.GrantedTTL.Duration()), rules: d.Rules, deliver: d.Deliver,
		until: g.GrantUntil, requestID: g.ID,
	}
}

// coolDown refuses what was denied a short time ago, or more than that, however
// the agent words it now; and its parts too, unless the denial was about its size
// or one of its resources: not needed in one piece is not needed in several.
func (b *Broker) coolDown(ctx context.Context, w want, d policy.Decision, now time.Time) error {
	rs, err := b.cfg.Desk.Requests(ctx, RequestFilter{
		TaskID: w.live.ID, State: RequestDenied, Since: now.Add(-b.cfg.Limits.CoolDown), Page: Page{Desc: true, Limit: 100},
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
		RetryAfter: int64((wait + time.Second - 1) / time.Second), DoNotRetrySame: true}
}

// Poll redeems a deferral code. The caller must hold the key of the first
// request; s is checked too when the client authenticates (standards 1.7).
func (b *Broker) Poll(ctx context.Context, code string, s Subject, p Possession) (Token, error) {
	t, err := b.poll(ctx, code, s, p)
	outcome := "issued"
	if err != nil {
		outcome = string(AsError(err).Kind)
	}
	b.m.tokens.WithLabelValues(outcome).Inc()
	return t, err
}

func (b *Broker) poll(ctx context.Context, code string, s Subject, p Possession) (Token, error) {
	id, genuine := b.requestOfCode(code)
	if !genuine {
		return Token{}, badCode(nil)
	}
	r, err := b.requestByID(ctx, id)
	if err != nil {
		if AsError(err).Kind == Unavailable {
			return Token{}, err
		}
		return Token{}, badCode(err)
	}
	// Another key or another client learns nothing and disturbs nothing: the
	// request survives for its owner (CIBA Core section 11).
	if p.Binding() != r.Binding || p.Binding() == (provider.Binding{}) {
		return Token{}, badCode(nil)
	}
	if s.Evidence != nil || s.Assertion != "" || s.AccessToken != "" {
		a, err := b.ask(ctx, mints, s, p)
		if err != nil {
			return Token{}, err
		}
		if a.sandbox.ID != r.Sandbox {
			return Token{}, badCode(nil)
		}
	} else if err := b.claimProof(ctx, p); err != nil {
		return Token{}, err
	}
	interval, ok, err := b.cfg.Ledger.Pace(ctx, "poll:"+r.ID, b.now(), b.cfg.Limits.PollInterval, 5*time.Second, r.ExpiresAt.Add(time.Hour))
	if err != nil {
		return Token{}, unavailable(err)
	}
	if !ok && r.State == RequestPending {
		e := b.pending(r, interval)
		e.Kind, e.Public = SlowDown, "Polled too fast. The interval has grown by 5 seconds."
		return Token{}, e
	}
	return b.settle(ctx, r, interval)
}

func badCode(cause error) *Error {
	return E(InvalidGrant, "The code is unknown, was used, or belongs to another client or key.", cause)
}

// settle answers a poll by the state of its request.
func (b *Broker) settle(ctx context.Context, r Request, interval time.Duration) (Token, error) {
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
		return b.redeem(ctx, r)
	case RequestDenied, RequestExpired:
		if err := b.claim1(ctx, []Claim{{Key: "end:" + r.ID, Value: "1", Until: r.ExpiresAt.Add(time.Hour)}}, InvalidGrant, "The code was answered before."); err != nil {
			return Token{}, err
		}
		if r.State == RequestExpired {
			return Token{}, &Error{Kind: ExpiredRequest, Public: "Nobody decided in time, which is a no. Ask for less or ask the owner.",
				Advice: &Advice{Decision: "denied", Code: NoAnswer, RetryAfter: int64(b.cfg.Limits.CoolDown / time.Second)}}
		}
		left := max(r.DecidedAt.Add(b.cfg.Limits.CoolDown).Sub(now), 0)
		var f facts
		_ = json.Unmarshal(r.Facts, &f) // advice is best effort; the denial stands
		return Token{}, &Error{Kind: Denied, Public: "A person denied this.", RetryAfter: left, Advice: b.advice(r, f.WouldAllow, left)}
	default:
		return Token{}, badCode(nil)
	}
}

// redeem mints the first token of an approved request. Policy, task and evidence
// are judged again: an approval allows, it does not force.
func (b *Broker) redeem(ctx context.Context, r Request) (Token, error) {
	live, err := b.admit(ctx, mints, r.TaskID, Possession{}, InvalidGrant)
	if err != nil {
		return Token{}, err
	}
	if live.State == TaskPaused {
		return Token{}, E(Denied, "The task is paused. Nothing mints until its runner resumes it.", ErrTaskPaused)
	}
	if live.Sandbox == nil || live.Sandbox.ID != r.Sandbox {
		return Token{}, badCode(nil)
	}
	p, known := b.cfg.Providers[r.Provider]
	if !known {
		return Token{}, E(InvalidTarget, "The provider of this request is no longer configured.", nil)
	}
	w := want{
		asker:  asker{live: live, sandbox: *live.Sandbox, notAfter: r.EvidenceEnd},
		scopes: r.Scopes, name: r.Provider, provider: p, ttl: r.TTL.Duration(), bind: r.Binding, tool: r.Tool, details: r.Details,
	}
	d, err := b.judge(w)
	if err != nil {
		return Token{}, unavailable(err)
	}
	if d.Effect == policy.Deny {
		return Token{}, b.deny(ctx, w.asker, w.scopes, &d, E(Denied, "Policy has changed and no longer allows this.", nil))
	}
	if !agreed(r, d) {
		// The wrong people have said yes: the code is of no use any more, and the
		// agent may ask the right ones.
		if _, err := b.withdraw(ctx, r, self, "others_must_agree"); err != nil {
			return Token{}, err
		}
		return Token{}, b.deny(ctx, w.asker, w.scopes, &d, E(Denied, "Policy asks other people now than those who agreed. Ask again.", nil))
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

// groupsMeet reports whether an approver's groups have a say in a request.
func groupsMeet(r Request, groups []string) bool {
	return slices.ContainsFunc(r.Groups, func(g string) bool { return slices.Contains(groups, g) })
}
