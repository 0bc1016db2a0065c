package broker

import (
	"context"
	"fmt"
	"time"

	"ebb/broker/audit"
	"ebb/broker/provider"
	"ebb/scopes"
)

// TrialSpec is how a provider is tried out.
type TrialSpec struct {
	Scopes scopes.Set `json:"scope,omitzero"`        // what is minted and taken back; empty = only the set-up is looked at
	TTL    Seconds    `json:"ttl_seconds,omitempty"` // of what is minted, 10 s to 1 h; 0 = 1 min
}

// Trial is what came of trying a provider out.
type Trial struct {
	Provider string      `json:"provider"`
	Kind     string      `json:"kind"`
	OK       bool        `json:"ok"`                 // no step says otherwise
	TaskID   string      `json:"task_id,omitempty"`  // of the trial, when something was minted
	LeaseID  string      `json:"lease_id,omitempty"` //
	Steps    []TrialStep `json:"steps"`
}

// TrialStep is one thing that was looked at.
type TrialStep struct {
	Step   string `json:"step"`   // setup, check, mint, alive, revoke
	OK     bool   `json:"ok"`     // false: nothing works until it is mended, unless Notice
	Notice bool   `json:"notice"` // it works, and should be otherwise
	What   string `json:"what"`   // one sentence without secrets
	Remedy string `json:"remedy,omitempty"`
	Millis int64  `json:"took_ms"`
}

const (
	// trialTTL is the lifetime that a trial asks for when nobody says otherwise.
	trialTTL = time.Minute
	trialTag = "provider-trial"
	// TrialTime bounds a trial: the set-up, a mint, a probe, and the end of a task.
	TrialTime = mintTime + MintTime + callTime + DefaultWait + 30*time.Second
)

// TryProvider looks at the set-up of a third-party provider and, when spec names a
// scope, mints a credential of exactly that, uses it up against the provider's own
// probe, revokes it and probes again, through the same intent, lane and record as
// any other. The credential is thrown away unseen. One trial of a provider runs at
// a time on each replica.
func (b *Broker) TryProvider(ctx context.Context, who Principal, name string, spec TrialSpec) (Trial, error) {
	if err := allow(who, certain, RoleOperator); err != nil {
		return Trial{}, err
	}
	u, err := b.tried(name, spec)
	if err != nil {
		return Trial{}, err
	}
	if !u.tried.CompareAndSwap(false, true) {
		return Trial{}, &Error{Kind: TooMany, Public: "This provider is being tried out already. Wait for the end of that.", RetryAfter: 10 * time.Second}
	}
	defer u.tried.Store(false)
	ttl := trialTTL
	if spec.TTL > 0 {
		ttl = spec.TTL.Duration()
	}
	tr := &trial{b: b, u: u, ttl: min(ttl, b.maxTTL(u.Provider)), out: Trial{Provider: name, Kind: u.Kind, OK: true, Steps: []TrialStep{}}}
	tr.setup(ctx)
	switch {
	case ctx.Err() != nil: // nobody waits for the rest
		return Trial{}, unavailable(ctx.Err())
	case spec.Scopes.Empty() || !tr.check(spec.Scopes):
		return tr.out, nil
	}
	err = tr.run(ctx, who, spec.Scopes)
	return tr.out, err
}

// tried finds the provider of a trial, before anybody calls it.
func (b *Broker) tried(name string, spec TrialSpec) (*upstream, error) {
	u := b.upstreams[name]
	if u != nil && !u.traits.ThirdParty { // what it mints is ebb's own
		u = nil
	}
	p, own := b.cfg.Providers[name]
	if own && u == nil && p.Driver.Traits().InjectOnly {
		if !spec.Scopes.Empty() {
			return nil, E(Invalid, "What this provider has is never handed out, so that there is nothing to mint and take back: name no scope, and only its set-up is looked at.", nil)
		}
		return &upstream{Provider: p, name: name}, nil // nothing but its set-up is looked at
	}
	if own && u == nil {
		return nil, E(NotFound, "This provider issues the broker's own tokens: there is no third party to try out.", nil)
	}
	if u == nil {
		return nil, E(NotFound, "There is no provider of that name.", nil)
	}
	if names := spec.Scopes.Providers(); len(names) > 1 || len(names) == 1 && names[0] != name {
		return nil, E(InvalidScope, "The scope must be of the provider that is tried.", nil)
	}
	if spec.TTL != 0 && (spec.TTL < 10 || spec.TTL > 3600) {
		return nil, E(Invalid, "ttl_seconds must be 10 to 3600.", nil)
	}
	return u, nil
}

// trial collects the steps.
type trial struct {
	b   *Broker
	u   *upstream
	ttl time.Duration
	out Trial
}

// run mints in a task of its own, which ends whatever happens.
func (tr *trial) run(ctx context.Context, who Principal, set scopes.Set) error {
	b, now := tr.b, tr.b.now()
	t := Task{
		ID: newID(taskPrefix), Name: "trial of provider " + tr.u.name, Kind: trialTag, Owner: who.ID, Runner: who.ID, Ceiling: set,
		Caps: b.cfg.Limits.DefaultCaps, OpenedAt: now, Deadline: now.Add(tr.ttl + TrialTime), State: TaskOpen,
	}
	live := Live{Task: t, Due: t.due(now)}
	err := b.cfg.Journal.Append(ctx, Record{OpenTask: &t, Entries: []audit.Entry{
		b.taskEntry(audit.TaskOpened, who.ID, t.ID, map[string]any{"name": t.Name, "kind": t.Kind, "owner": t.Owner, "ceiling": t.Ceiling, "deadline": t.Deadline}),
	}})
	if err == nil {
		err = b.cfg.Ledger.PutTask(ctx, live, b.keep(t))
	}
	if err != nil {
		b.abandon(t)
		return unavailable(err)
	}
	tr.out.TaskID = t.ID
	minted := tr.mint(ctx, live, set)
	start := time.Now()
	wait := DefaultWait
	if tr.u.traits.Revocability.Class == provider.ClassTTLOnly {
		wait = 0 // nothing will come of waiting
	}
	c, err := b.CompleteTask(context.WithoutCancel(ctx), who, t.ID, wait)
	if err != nil {
		return err // the end is owed, and the lane goes on
	}
	tr.ended(ctx, start, c, minted)
	return nil
}

// mint reports whether something was minted that has to end.
func (tr *trial) mint(ctx context.Context, live Live, set scopes.Set) bool {
	b, start := tr.b, time.Now()
	key, err := tr.key()
	if err != nil {
		b.cfg.Logger.ErrorContext(ctx, "a trial has no key to certify", "provider", tr.u.name, "error", err)
		tr.step("mint", start, false, "The driver made no key that could be certified.", "The broker's log has the cause.")
		return false
	}
	w := want{
		asker:  asker{live: live, sandbox: Sandbox{ID: sandboxOf(live.ID), Attestor: trialTag, Class: "none"}},
		scopes: set, name: tr.u.name, provider: tr.u.Provider, ttl: tr.ttl, bind: provider.Binding{JKT: hashOf(live.ID)[:43]}, publicKey: key,
	}
	out, lease, err := b.mintUpstream(ctx, w, decided{scopes: set, ttl: tr.ttl, rules: []string{trialTag}, promise: w.promise()})
	if err != nil {
		e := AsError(err)
		b.cfg.Logger.WarnContext(ctx, "a trial did not mint", "provider", tr.u.name, "task_id", live.ID, "error", err)
		tr.step("mint", start, false, "No credential came of it: "+e.Public, "The broker's log has the cause under the task's id.")
		return false
	}
	tr.out.LeaseID = out.LeaseID
	tr.step("mint", start, true, fmt.Sprintf("A credential was minted; class %s.", out.Class), "")
	tr.alive(ctx, lease)
	return true
}

// key is one that the driver can certify, if it certifies keys.
func (tr *trial) key() (string, error) {
	c, does := tr.u.Driver.(provider.Certifier)
	if !does {
		return "", nil
	}
	return safely(c.SampleKey)
}
