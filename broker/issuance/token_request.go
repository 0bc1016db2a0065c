package issuance

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/internal/thirdparty"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// TokenIssuer answers token requests. It selects the provider, evaluates the policy, computes
// the limits of the credential (I4, I5) and makes its lease durable before it answers (I1).
type TokenIssuer struct {
	approvalStore broker.ApprovalStore
	egress        bool
	store         broker.Store
	liveStore     broker.LiveStore
	limits        broker.Limits
	logger        *slog.Logger
	policy        *policy.Live
	providers     map[string]broker.Provider
	crowd         *kernel.Crowd
	m             *kernel.Metrics
	revoked       *kernel.RevokedSet
	upstreams     map[string]*thirdparty.Upstream

	approvals approvals
	callers   callers
	clock     *kernel.Timekeeper
	evidence  evidence
	fatigue   fatigue
	log       *kernel.Recorder
	tasks     *TaskOpener
	upstream  *ThirdParties
}

// Token handles one token request, from evidence to credential (steps of the package
// documentation).
func (i *TokenIssuer) Token(ctx context.Context, r broker.TokenRequest) (broker.Token, error) {
	t, err := i.token(ctx, r)
	outcome := "issued"
	if err != nil {
		outcome = string(broker.AsError(err).Kind)
	}
	i.m.Tokens.WithLabelValues(outcome).Inc()
	return t, err
}

func (i *TokenIssuer) token(ctx context.Context, r broker.TokenRequest) (broker.Token, error) {
	leave, err := i.evidence.EnterCrowd(ctx, i.crowd.Mints, r.Possession.From)
	if err != nil {
		return broker.Token{}, err
	}
	defer leave()
	a, err := i.callers.Ask(ctx, kernel.ToMint, r.Subject, r.Possession)
	if err != nil {
		return broker.Token{}, err
	}
	if a.Live.State == broker.TaskPaused {
		return broker.Token{}, kernel.PausedError()
	}
	w, err := i.target(ctx, a, r)
	if err != nil {
		return broker.Token{}, i.deny(ctx, a, r.Scopes, err)
	}
	if i.upstreams[w.Name] != nil {
		leave() // third parties have slots of their own, so that a provider that hangs blocks no other request
	}
	d, err := i.Judge(&w)
	if err != nil {
		return broker.Token{}, broker.StoreError(err)
	}
	if err := i.Deliverable(w, d.MaxAmount); err != nil && d.Effect != policy.Deny {
		return broker.Token{}, i.DenyJudged(ctx, w, d, err)
	}
	switch {
	case d.Effect == policy.Allow && w.Content.NeedsPeople():
		return broker.Token{}, i.DenyJudged(ctx, w, d, broker.E(broker.Denied, "Only people can approve one SQL text, and the policy "+broker.Named(d.Rules)+" grants "+broker.Quoted(w.Scopes.String())+" without asking people.", nil).
			Then("ask the operator for a policy with @ask for requests whose context.content.kind is "+w.Content.Kind))
	case d.Effect == policy.Allow:
		return i.Mint(ctx, w, kernel.Decision{TTL: d.TTL, Scopes: d.Scopes, Rules: d.Rules, Promise: w.Promise(), CouldStay: i.CouldStay(w.Provider, w.Scopes, w.Delivery), Content: w.Content, MaxAmount: d.MaxAmount})
	case d.Effect == policy.Ask:
		return i.approvals.Escalate(ctx, w, d, r)
	default:
		return broker.Token{}, i.DenyJudged(ctx, w, d, byPolicy(w, d))
	}
}

// target resolves scopes and resources to one provider, and makes all checks that neither a
// policy nor a person can override (I5).
func (i *TokenIssuer) target(ctx context.Context, a kernel.Caller, r broker.TokenRequest) (kernel.MintRequest, error) {
	w := kernel.MintRequest{Caller: a, Scopes: r.Scopes, Tool: r.Tool, Details: r.Details, TTL: r.TTL, PublicKey: r.PublicKey}
	if r.Tool != "" && !kindForm.MatchString(r.Tool) {
		return w, broker.E(broker.Invalid, "tool must be 1 to 64 of a-z 0-9 . _ -.", nil)
	}
	if err := kernel.Certifiable(r.PublicKey); err != nil {
		return w, err
	}
	names := r.Scopes.Providers()
	if len(names) != 1 {
		return w, broker.E(broker.InvalidScope, "Name scopes of exactly one provider, because a token has one audience; the request names "+broker.Named(names)+".", nil).
			Then("send one request for each provider")
	}
	p, known := i.providers[names[0]]
	if !known {
		own := slices.DeleteFunc(a.Live.Ceiling.Providers(), func(n string) bool { _, known := i.providers[n]; return !known })
		return w, broker.E(broker.InvalidScope, "The provider "+broker.Quoted(names[0])+" of the scope is not configured. Providers of this task: "+broker.Named(own)+".", nil).
			Then("name a provider of the task's ceiling in the scope, as PROVIDER:RESOURCE:ACTION", "operators list all providers with 'ebb providers list'")
	}
	w.Name, w.Provider = names[0], p
	for _, res := range r.Resources {
		if res != p.Resource {
			return w, broker.E(broker.InvalidTarget, "The resource "+broker.Quoted(res)+" is unknown or is not the one that these scopes are for.", nil).
				Then("leave --resource out: the scope determines the resource")
		}
	}
	for _, aud := range r.Audiences {
		if aud != w.Name && aud != p.Resource {
			return w, broker.E(broker.InvalidTarget, "The audience "+broker.Quoted(aud)+" is unknown or is not the one that these scopes are for.", nil)
		}
	}
	if err := p.Driver.Check(r.Scopes); err != nil {
		if errors.Is(err, provider.ErrUnsupported) {
			return w, broker.E(broker.InvalidScope, "The provider cannot express a scope exactly. Ask for one it documents.", err)
		}
		return w, broker.StoreError(err)
	}
	if r.Delivery != "" && r.Delivery != policy.DeliveryToken && r.Delivery != policy.DeliveryEgress {
		return w, broker.E(broker.Invalid, "delivery must be token or egress.", nil)
	}
	w.Delivery = i.Delivery(w, r.Delivery)
	if err := i.Deliverable(w, nil); err != nil {
		return w, err
	}
	if !a.Live.Ceiling.Covers(r.Scopes) {
		return w, a.Live.OverCeiling(r.Scopes)
	}
	if r.Content != "" {
		var err error
		if w.Content, err = i.refusedContent(ctx, w, r.Content); err != nil {
			return w, err
		}
	}
	if a.Parent != nil {
		if !a.Parent.Scopes.Covers(r.Scopes) {
			return w, broker.E(broker.InvalidScope, "The scope exceeds that of the token to be narrowed.", nil)
		}
		if a.Parent.Aud != p.Resource {
			return w, broker.E(broker.InvalidTarget, "A token can only be narrowed for its own resource.", nil)
		}
	}
	if (w.Bind == provider.Binding{}) {
		return w, broker.E(broker.InvalidProof, "Prove your key: send a DPoP proof or a client certificate.", nil)
	}
	if w.TTL <= 0 {
		w.TTL = i.limits.DefaultTTL
	}
	w.TTL = min(w.TTL, i.MaxTTL(p))
	return w, nil
}

// byPolicy is the refusal of a request that the policy denies. It names the policies that decided, so that
// the owner of the task and the author of the policy can find them.
func byPolicy(w kernel.MintRequest, d policy.Decision) *broker.Error {
	why := "no policy permits " + broker.Bounded(d.Denied)
	if len(d.Rules) > 0 {
		why = "denied by policy " + broker.Named(d.Rules)
	}
	e := broker.E(broker.Denied, "The policy does not allow this: "+why+".", nil).
		Then("see how each policy decides: ebb policy explain --server --kind "+w.Live.Kind+" --scope '"+broker.Bounded(d.Denied)+"'", "request less, or ask the owner of the task")
	e.Advice = &broker.Advice{Decision: "denied", Code: broker.ByPolicy, WouldAllow: d.WouldAllow, DoNotRetrySame: true}
	return e
}

func (i *TokenIssuer) MaxTTL(p broker.Provider) time.Duration {
	if p.MaxTTL > 0 {
		return min(p.MaxTTL, i.limits.MaxTTL)
	}
	return i.limits.MaxTTL
}

// query returns the policy's view of a mint request. It holds no text that the agent wrote
// (I9), except the tool name, which policies can only use to narrow.
func (i *TokenIssuer) query(w kernel.MintRequest) policy.Query {
	binding := "dpop"
	if w.Bind.X5T != "" {
		binding = "mtls"
	}
	return policy.Query{
		Sandbox: policy.Sandbox{
			ID: w.Sandbox.ID, Attestor: w.Sandbox.Attestor, Evidence: w.Sandbox.Class,
			Subject: w.Sandbox.Subject, Selectors: w.Sandbox.Selectors,
		},
		Task: policy.Task{
			ID: w.Live.ID, Name: w.Live.Name, Kind: w.Live.Kind, Owner: w.Live.Owner, Labels: w.Live.Labels,
			Age:   max(i.clock.Now().Sub(w.Live.OpenedAt).Truncate(time.Second), 0), // a replica's clock may be behind
			Depth: len(w.Live.Ancestors),
		},
		Scopes: w.Scopes, Tool: w.Tool, TTL: w.TTL, Binding: binding, Delivery: w.Delivery, CouldStay: i.CouldStay(w.Provider, w.Scopes, w.Delivery),
		Revocability: string(w.Promise().Class), Bound: w.Promise().Bound,
		Record: policy.Record{Denials: w.Live.Denials, Violations: w.Live.Violations},
		Taint:  w.Live.Taint, Content: provider.PolicyContent(w.Content),
	}
}

// Judge evaluates the policy for w with its final delivery. If the policy demands egress, it is
// evaluated again for egress, so that the facts, the mint and the decision agree.
func (i *TokenIssuer) Judge(w *kernel.MintRequest) (policy.Decision, error) {
	set := i.policy.Current()
	d, err := set.Decide(i.query(*w))
	if err != nil || d.Deliver != policy.DeliveryEgress || w.Delivery == policy.DeliveryEgress {
		return d, err
	}
	w.Delivery = policy.DeliveryEgress
	return set.Decide(i.query(*w))
}

// deny records and counts a refusal that was made before the policy was evaluated.
func (i *TokenIssuer) deny(ctx context.Context, a kernel.Caller, asked scopes.Set, err error) error {
	return i.refuse(ctx, a, asked, err, nil)
}

// DenyJudged records and counts a refusal made after the policy was evaluated. The entry holds
// the query, so that a draft policy can be evaluated on it.
func (i *TokenIssuer) DenyJudged(ctx context.Context, w kernel.MintRequest, d policy.Decision, err error) error {
	r := w.Promise()
	data := map[string]any{
		"rules": d.Rules, "policy": d.Version, "denied": d.Denied, "tool": w.Tool,
		"delivery": w.Delivery, "could_stay": i.CouldStay(w.Provider, w.Scopes, w.Delivery),
		"revocability": r.Class, "revocation_bound": broker.Seconds(r.Bound / time.Second),
	}
	if w.Content != nil {
		data["content"] = provider.PolicyContent(w.Content)
	}
	return i.refuse(ctx, w.Caller, w.Scopes, err, data)
}

func (i *TokenIssuer) refuse(ctx context.Context, a kernel.Caller, asked scopes.Set, err error, data map[string]any) error {
	e := broker.AsError(err)
	if e.Kind == broker.Unavailable {
		return e
	}
	if data == nil {
		data = map[string]any{}
	}
	data["scope"], data["kind"], data["why"] = asked, e.Kind, e.Public
	i.log.Note(ctx, i.log.TaskEntry(audit.TokenDenied, a.Sandbox.ID, a.Live.ID, data))
	if terr := i.fatigue.Denied(ctx, a.Live.ID, false); terr != nil {
		i.logger.WarnContext(ctx, "counting a denial failed", "task_id", a.Live.ID, "error", terr)
	}
	return e
}
