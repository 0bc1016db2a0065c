package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ebb/broker/audit"
	"ebb/broker/provider"
	"ebb/scopes"
)

// Trial is what came of trying a provider out.
type Trial struct {
	Provider string      `json:"provider"`
	Kind     string      `json:"kind"`
	OK       bool        `json:"ok"`
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
	// trialTTL is the lifetime that a trial asks for.
	trialTTL = time.Minute
	trialTag = "provider-trial"
)

// TryProvider looks at the set-up of a third-party provider and, when set is not
// empty, mints a credential of exactly that, uses it up against the provider's own
// probe, revokes it and probes again, through the same intent, lane and record as
// any other. The credential is thrown away unseen.
func (b *Broker) TryProvider(ctx context.Context, who Principal, name string, set scopes.Set) (Trial, error) {
	if err := allow(who, false, RoleOperator); err != nil {
		return Trial{}, err
	}
	u, known := b.upstreams[name]
	if !known {
		return Trial{}, E(NotFound, "There is no third-party provider of that name.", nil)
	}
	tr := &trial{b: b, u: u, out: Trial{Provider: name, Kind: u.Kind, OK: true, Steps: []TrialStep{}}}
	tr.setup(ctx)
	if set.Empty() {
		return tr.out, nil
	}
	if names := set.Providers(); len(names) != 1 || names[0] != name {
		return Trial{}, E(InvalidScope, "The scope must be of the provider that is tried.", nil)
	}
	start := time.Now()
	if err := u.Driver.Check(set); err != nil {
		tr.step("check", start, false, "The provider cannot express the scope exactly.", "Name one that its documentation has.")
		return tr.out, nil
	}
	tr.step("check", start, true, "The scope can be expressed exactly.", "")
	return tr.out, tr.run(ctx, who, set)
}

// trial collects the steps.
type trial struct {
	b   *Broker
	u   *upstream
	out Trial
}

func (tr *trial) step(name string, start time.Time, ok bool, what, remedy string) {
	tr.out.OK = tr.out.OK && ok
	tr.out.Steps = append(tr.out.Steps, TrialStep{Step: name, OK: ok, What: what, Remedy: remedy, Millis: time.Since(start).Milliseconds()})
}

// setup asks the driver what is wrong at the provider.
func (tr *trial) setup(ctx context.Context) {
	start := time.Now()
	c, can := tr.u.Driver.(provider.Checker)
	if !can {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, mintTime)
	defer cancel()
	found, err := safely(func() ([]provider.Finding, error) { return c.CheckSetup(ctx), nil })
	if err != nil {
		tr.step("setup", start, false, "The driver failed while it looked.", "The broker's log has the cause.")
		tr.b.cfg.Logger.ErrorContext(ctx, "a set-up could not be checked", "provider", tr.u.name, "error", err)
		return
	}
	for _, f := range found {
		tr.step("setup", start, !f.Fatal, f.What, f.Remedy)
		tr.out.Steps[len(tr.out.Steps)-1].Notice = !f.Fatal
	}
	if len(found) == 0 {
		tr.step("setup", start, true, "Nothing is wrong with the set-up.", "")
	}
}

// run mints in a task of its own, which ends whatever happens.
func (tr *trial) run(ctx context.Context, who Principal, set scopes.Set) error {
	b, now := tr.b, tr.b.now()
	t := Task{
		ID: newID(taskPrefix), Name: "trial of provider " + tr.u.name, Kind: trialTag, Owner: who.ID, Runner: who.ID, Ceiling: set,
		Caps: b.cfg.Limits.DefaultCaps, OpenedAt: now, Deadline: now.Add(2 * trialTTL), State: TaskOpen,
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
	c, err := b.CompleteTaskWithin(ctx, who, t.ID, DefaultWait)
	if err != nil {
		return err // the end is owed, and the lane goes on
	}
	if minted {
		tr.ended(ctx, start, c)
	}
	return nil
}

// mint reports whether something was minted that has to end.
func (tr *trial) mint(ctx context.Context, live Live, set scopes.Set) bool {
	b, start := tr.b, time.Now()
	w := want{
		asker:  asker{live: live, sandbox: Sandbox{ID: sandboxOf(live.ID), Attestor: trialTag, Class: "none"}},
		scopes: set, name: tr.u.name, provider: tr.u.Provider, ttl: trialTTL, bind: provider.Binding{JKT: hashOf(live.ID)[:43]},
	}
	out, err := b.mintUpstream(ctx, w, decided{scopes: set, ttl: trialTTL, rules: []string{trialTag}})
	if err != nil {
		e := AsError(err)
		b.cfg.Logger.WarnContext(ctx, "a trial did not mint", "provider", tr.u.name, "task_id", live.ID, "error", err)
		tr.step("mint", start, false, "Nothing was minted: "+e.Public, "The broker's log has the cause under the task's id.")
		return false
	}
	tr.out.LeaseID = out.LeaseID
	tr.step("mint", start, true, fmt.Sprintf("A credential was minted; class %s.", out.Class), "")
	tr.alive(ctx)
	return true
}

// alive shows that the probe can tell life from death: one that always says "dead"
// would prove nothing later.
func (tr *trial) alive(ctx context.Context) {
	p, can := tr.u.Driver.(provider.Prober)
	if !can {
		return
	}
	b, start := tr.b, time.Now()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	ls, err := b.cfg.Journal.Leases(ctx, LeaseFilter{IDs: []string{tr.out.LeaseID}, Now: b.now()})
	var alive bool
	if err == nil && len(ls) == 1 && ls[0].Upstream != nil {
		var handle provider.Secret
		if ls[0].Upstream.Handle != "" {
			handle, err = b.cfg.Sealer.Open(ls[0].ID, ls[0].Upstream.Handle)
		}
		if err == nil {
			alive, err = safely(func() (bool, error) { return p.Probe(ctx, b.targetOf(ls[0], handle)) })
		}
	} else {
		err = errors.Join(err, ErrNotFound)
	}
	switch {
	case err != nil:
		b.cfg.Logger.WarnContext(ctx, "a trial could not be probed", "provider", tr.u.name, "lease_id", tr.out.LeaseID, "error", err)
		tr.step("alive", start, false, "The provider could not be asked whether the credential works.", "The broker's log has the cause under the credential's id.")
	case !alive:
		tr.step("alive", start, false, "The probe says that a new credential does not work: it proves nothing.", "Check what the broker may see at the provider.")
	default:
		tr.step("alive", start, true, "The credential works at the provider.", "")
	}
}

// ended says what became of the credential.
func (tr *trial) ended(ctx context.Context, start time.Time, c Completion) {
	for _, l := range c.Credentials {
		if l.ID != tr.out.LeaseID || l.Upstream == nil {
			continue
		}
		up := l.Upstream
		switch {
		case !up.DeadAt.IsZero():
			tr.step("revoke", start, true, fmt.Sprintf("The credential is dead at the provider: %s.", up.Proof), "")
		case up.LastError != "":
			tr.step("revoke", start, false, "The credential is not revoked yet: "+up.LastError, "ebb leases show "+l.ID+" follows it; the broker goes on trying.")
		default: // a class that takes its time
			tr.step("revoke", start, true, fmt.Sprintf("The revocation is under way; class %s.", l.Class), "ebb leases show "+l.ID+" follows it.")
		}
		return
	}
	tr.step("revoke", start, false, "The credential is not on the record of its task.", "The broker's log has the cause under the task's id.")
	tr.b.cfg.Logger.ErrorContext(ctx, "the credential of a trial is missing from the answer to its end", "lease_id", tr.out.LeaseID)
}
