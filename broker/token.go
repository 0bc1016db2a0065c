package broker

import (
	"context"
	"errors"
	"time"

	"ebb/attest/jose"
	"ebb/broker/audit"
	"ebb/broker/provider"
	"ebb/scopes"
	"ebb/scopes/policy"
)

// maxPublicKey is far above any public key or certificate request.
const maxPublicKey = 16 << 10

// certifiable looks at a public key before its provider does.
func certifiable(publicKey string) error {
	if len(publicKey) > maxPublicKey || !jose.Plain(publicKey) {
		return E(Invalid, "public_key must be at most 16 KiB of printable characters.", nil)
	}
	return nil
}

// want is one token request whose caller is known and whose target is resolved:
// what policy judges and what, if it says yes, is minted.
type want struct {
	asker
	scopes   scopes.Set
	name     string // provider
	provider Provider
	ttl      time.Duration
	bind     provider.Binding
	tool     string
	delivery string // policy.DeliveryToken or policy.DeliveryEgress
	details  bool

	publicKey string // see provider.Grant
}

// Token walks one token request from evidence to credential (package comment,
// steps 1 to 6).
func (b *Broker) Token(ctx context.Context, r TokenRequest) (Token, error) {
	t, err := b.token(ctx, r)
	outcome := "issued"
	if err != nil {
		outcome = string(AsError(err).Kind)
	}
	b.m.tokens.WithLabelValues(outcome).Inc()
	return t, err
}

func (b *Broker) token(ctx context.Context, r TokenRequest) (Token, error) {
	leave, err := b.enterCrowd(ctx, b.crowd.mints, r.Possession.From)
	if err != nil {
		return Token{}, err
	}
	defer leave()
	a, err := b.ask(ctx, toMint, r.Subject, r.Possession)
	if err != nil {
		return Token{}, err
	}
	if a.live.State == TaskPaused {
		return Token{}, pausedError()
	}
	w, err := b.target(a, r)
	if err != nil {
		return Token{}, b.deny(ctx, a, r.Scopes, err)
	}
	if b.upstreams[w.name] != nil {
		leave() // third parties have places of their own, and one that hangs holds up nothing else
	}
	d, err := b.judge(&w)
	if err != nil {
		return Token{}, unavailable(err)
	}
	if err := b.deliverable(w); err != nil && d.Effect != policy.Deny {
		return Token{}, b.denyJudged(ctx, w, d, err)
	}
	switch d.Effect {
	case policy.Allow:
		return b.mint(ctx, w, decided{ttl: d.TTL, scopes: d.Scopes, rules: d.Rules, promise: w.promise(), couldStay: b.couldStay(w.provider, w.scopes, w.delivery)})
	case policy.Ask:
		return b.escalate(ctx, w, d, r)
	default:
		return Token{}, b.denyJudged(ctx, w, d, &Error{
			Kind: Denied, Public: "Policy does not allow this. Ask for less, or ask the owner of the task.",
			Advice: &Advice{Decision: "denied", Code: ByPolicy, WouldAllow: d.WouldAllow, DoNotRetrySame: true},
		})
	}
}

// target resolves scopes and resources to one provider and checks everything
// that no policy and no person can allow (I5).
func (b *Broker) target(a asker, r TokenRequest) (want, error) {
	w := want{asker: a, scopes: r.Scopes, bind: r.Possession.Binding(), tool: r.Tool, details: r.Details, ttl: r.TTL, publicKey: r.PublicKey}
	if r.Tool != "" && !kindForm.MatchString(r.Tool) {
		return w, E(Invalid, "tool must be 1 to 64 of a-z 0-9 . _ -.", nil)
	}
	if err := certifiable(r.PublicKey); err != nil {
		return w, err
	}
	names := r.Scopes.Providers()
	if len(names) != 1 {
		return w, E(InvalidScope, "Name scopes of exactly one provider: a token has one audience.", nil)
	}
	p, known := b.cfg.Providers[names[0]]
	if !known {
		return w, E(InvalidScope, "A scope names a provider that is not configured here.", nil)
	}
	w.name, w.provider = names[0], p
	for _, res := range r.Resources {
		if res != p.Resource {
			return w, E(InvalidTarget, "The resource is unknown or is not the one that these scopes are for.", nil)
		}
	}
	for _, aud := range r.Audiences {
		if aud != w.name && aud != p.Resource {
			return w, E(InvalidTarget, "The audience is unknown or is not the one that these scopes are for.", nil)
		}
	}
	if err := p.Driver.Check(r.Scopes); err != nil {
		if errors.Is(err, provider.ErrUnsupported) {
			return w, E(InvalidScope, "The provider cannot express a scope exactly. Ask for one it documents.", err)
		}
		return w, unavailable(err)
	}
	if r.Delivery != "" && r.Delivery != policy.DeliveryToken && r.Delivery != policy.DeliveryEgress {
		return w, E(Invalid, "delivery must be token or egress.", nil)
	}
	w.delivery = b.delivery(w, r.Delivery)
	if err := b.deliverable(w); err != nil {
		return w, err
	}
	if !a.live.Ceiling.Covers(r.Scopes) {
		return w, &Error{Kind: InvalidScope, Public: "The scope exceeds the ceiling of the task.",
			Advice: &Advice{Decision: "denied", Code: TooBroad, WouldAllow: a.live.Ceiling.Narrow(r.Scopes), DoNotRetrySame: true}}
	}
	if a.parent != nil {
		if !a.parent.scopes.Covers(r.Scopes) {
			return w, E(InvalidScope, "The scope exceeds that of the token to be narrowed.", nil)
		}
		if a.parent.aud != p.Resource {
			return w, E(InvalidTarget, "A token can only be narrowed for its own resource.", nil)
		}
	}
	if (w.bind == provider.Binding{}) {
		return w, E(InvalidProof, "Prove your key: send a DPoP proof or a client certificate.", nil)
	}
	if w.ttl <= 0 {
		w.ttl = b.cfg.Limits.DefaultTTL
	}
	w.ttl = min(w.ttl, b.maxTTL(p))
	return w, nil
}

func (b *Broker) maxTTL(p Provider) time.Duration {
	if p.MaxTTL > 0 {
		return min(p.MaxTTL, b.cfg.Limits.MaxTTL)
	}
	return b.cfg.Limits.MaxTTL
}

// query is what policy sees of a want. There is nothing in it that the agent
// wrote (I9); the tool name is a label that policies may only use to narrow.
func (b *Broker) query(w want) policy.Query {
	binding := "dpop"
	if w.bind.X5T != "" {
		binding = "mtls"
	}
	return policy.Query{
		Sandbox: policy.Sandbox{
			ID: w.sandbox.ID, Attestor: w.sandbox.Attestor, Evidence: w.sandbox.Class,
			Subject: w.sandbox.Subject, Selectors: w.sandbox.Selectors,
		},
		Task: policy.Task{
			ID: w.live.ID, Name: w.live.Name, Kind: w.live.Kind, Owner: w.live.Owner, Labels: w.live.Labels,
			Age:   max(b.now().Sub(w.live.OpenedAt).Truncate(time.Second), 0), // a replica's clock may be behind
			Depth: len(w.live.Ancestors),
		},
		Scopes: w.scopes, Tool: w.tool, TTL: w.ttl, Binding: binding, Delivery: w.delivery, CouldStay: b.couldStay(w.provider, w.scopes, w.delivery),
		Revocability: string(w.promise().Class), Bound: w.promise().Bound,
		Record: policy.Record{Denials: w.live.Denials, Violations: w.live.Violations},
		Taint:  w.live.Taint,
	}
}

// promise is how what is minted for w can be taken back, as its provider says before
// it is minted. What says nothing promises nothing.
func (w want) promise() provider.Revocability {
	return promised(w.provider)
}

func promised(p Provider) provider.Revocability {
	if r := p.Driver.Traits().Revocability; r.Class != "" {
		return r
	}
	return provider.Revocability{Class: provider.ClassTTLOnly}
}

// judge asks policy about w as it will be delivered: where policy insists on egress, it is
// asked about that, so that what people see and what is minted is what was judged.
func (b *Broker) judge(w *want) (policy.Decision, error) {
	set := b.cfg.Policy.Current()
	d, err := set.Decide(b.query(*w))
	if err != nil || d.Deliver != policy.DeliveryEgress || w.delivery == policy.DeliveryEgress {
		return d, err
	}
	w.delivery = policy.DeliveryEgress
	return set.Decide(b.query(*w))
}

// deny records and counts a refusal that never came to policy.
func (b *Broker) deny(ctx context.Context, a asker, asked scopes.Set, err error) error {
	return b.refuse(ctx, a, asked, err, nil)
}

// denyJudged records and counts the refusal of what policy was asked about, and with it
// what policy was asked, so that a draft can be asked the same.
func (b *Broker) denyJudged(ctx context.Context, w want, d policy.Decision, err error) error {
	r := w.promise()
	return b.refuse(ctx, w.asker, w.scopes, err, map[string]any{
		"rules": d.Rules, "policy": d.Version, "denied": d.Denied, "tool": w.tool,
		"delivery": w.delivery, "could_stay": b.couldStay(w.provider, w.scopes, w.delivery),
		"revocability": r.Class, "revocation_bound": Seconds(r.Bound / time.Second),
	})
}

func (b *Broker) refuse(ctx context.Context, a asker, asked scopes.Set, err error, data map[string]any) error {
	e := AsError(err)
	if e.Kind == Unavailable {
		return e
	}
	if data == nil {
		data = map[string]any{}
	}
	data["scope"], data["kind"], data["why"] = asked, e.Kind, e.Public
	b.note(ctx, b.taskEntry(audit.TokenDenied, a.sandbox.ID, a.live.ID, data))
	if terr := b.denied(ctx, a.live.ID, false); terr != nil {
		b.cfg.Logger.WarnContext(ctx, "a denial could not be counted", "task_id", a.live.ID, "error", terr)
	}
	return e
}
