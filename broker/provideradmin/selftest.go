package provideradmin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/broker/internal/thirdparty"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
	"github.com/ebb-broker/ebb/scopes"
)

// SelfTestSpec configures a provider self-test.
type SelfTestSpec struct {
	Scopes scopes.Set     // scopes of the minted credential; empty = only the set-up is checked
	TTL    broker.Seconds // lifetime of the minted credential, 10 s to 1 h; 0 = 1 min
}

// SelfTest is the result of a provider self-test.
type SelfTest struct {
	Provider string
	Kind     string
	OK       bool   // every step succeeded
	TaskID   string // task of the test, if a credential was minted
	LeaseID  string //
	Steps    []SelfTestStep
}

// SelfTestStep is one check of the test.
type SelfTestStep struct {
	Step   string // setup, check, mint, alive, revoke
	OK     bool   // false: the provider does not work until this is fixed
	Notice bool   // the step succeeded with a recommendation
	What   string // result in one sentence without secrets
	Remedy string
	Millis int64
}

const (
	// selfTestTTL is the default lifetime of the test's credential.
	selfTestTTL = time.Minute
	// selfTestTag is the task kind, attestor and policy rule of a self-test in the audit log.
	selfTestTag = "provider-self-test"
	// SelfTestTime bounds a test: the set-up, a mint, a probe, and the end of a task.
	SelfTestTime = broker.MintCall + broker.MintTime + broker.CallTime + broker.DefaultWait + 30*time.Second
)

// SelfTestProvider runs a provider self-test. It checks the set-up of a third-party provider. If
// spec names a scope, it also mints a credential with exactly that scope, probes it, revokes it
// and probes again, with the same intent, revocation queue and audit entries as any other mint.
// The credential is discarded without being shown. One test of a provider runs at a time on
// each replica.
func (a *Providers) SelfTestProvider(ctx context.Context, who broker.Principal, name string, spec SelfTestSpec) (SelfTest, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleOperator); err != nil {
		return SelfTest{}, err
	}
	u, err := a.selfTestTarget(name, spec)
	if err != nil {
		return SelfTest{}, err
	}
	if !u.SelfTesting.CompareAndSwap(false, true) {
		return SelfTest{}, &broker.Error{Kind: broker.TooMany, Public: "A self-test of this provider is running already. Wait until it ends.", RetryAfter: 10 * time.Second}
	}
	defer u.SelfTesting.Store(false)
	ttl := selfTestTTL
	if spec.TTL > 0 {
		ttl = spec.TTL.Duration()
	}
	st := &selfTest{b: a, u: u, ttl: min(ttl, a.issuer.MaxTTL(u.Provider)), out: SelfTest{Provider: name, Kind: u.Kind, OK: true, Steps: []SelfTestStep{}}}
	st.setup(ctx)
	switch {
	case ctx.Err() != nil: // the caller has gone
		return SelfTest{}, broker.StoreError(ctx.Err())
	case spec.Scopes.Empty() || !st.check(spec.Scopes):
		return st.out, nil
	}
	err = st.run(ctx, who, spec.Scopes)
	return st.out, err
}

// selfTestTarget returns the provider of a self-test, without a call to it.
func (a *Providers) selfTestTarget(name string, spec SelfTestSpec) (*thirdparty.Upstream, error) {
	u := a.upstreams[name]
	if u != nil && !u.Traits.ThirdParty { // it issues ebb's own tokens
		u = nil
	}
	p, own := a.providers[name]
	if own && u == nil && p.Driver.Traits().InjectOnly {
		if !spec.Scopes.Empty() {
			return nil, broker.E(broker.Invalid, "This provider's credentials are never issued to a sandbox, so that there is nothing to mint and revoke. Name no scope: then only its set-up is checked.", nil)
		}
		return &thirdparty.Upstream{Provider: p, Name: name}, nil // only its set-up is checked
	}
	if own && u == nil {
		return nil, broker.E(broker.NotFound, "The provider "+broker.Quoted(name)+" issues the broker's own tokens: there is no third party to test.", nil)
	}
	if u == nil {
		return nil, broker.E(broker.NotFound, "There is no provider "+broker.Quoted(name)+". Configured: "+broker.Named(slices.Collect(maps.Keys(a.providers)))+".", nil).
			Then("check the name with 'ebb providers list'")
	}
	if names := spec.Scopes.Providers(); len(names) > 1 || len(names) == 1 && names[0] != name {
		return nil, broker.E(broker.InvalidScope, "The scope must belong to the tested provider "+broker.Quoted(name)+"; it names "+broker.Named(names)+".", nil)
	}
	if spec.TTL != 0 && (spec.TTL < 10 || spec.TTL > 3600) {
		return nil, broker.E(broker.Invalid, "ttl_seconds must be 10 to 3600.", nil)
	}
	return u, nil
}

// selfTest collects the steps of one provider self-test.
type selfTest struct {
	b   *Providers
	u   *thirdparty.Upstream
	ttl time.Duration
	out SelfTest
}

// run mints in a task of its own, which ends in every case.
func (st *selfTest) run(ctx context.Context, who broker.Principal, set scopes.Set) error {
	b, now := st.b, st.b.clock.Now()
	t := broker.Task{
		ID: broker.NewID(broker.TaskPrefix), Name: "self-test of provider " + st.u.Name, Kind: selfTestTag, Owner: who.ID, Runner: who.ID, Ceiling: set,
		Caps: b.limits.DefaultCaps, OpenedAt: now, Deadline: now.Add(st.ttl + SelfTestTime), State: broker.TaskOpen,
	}
	live := broker.Live{Task: t, Due: t.Due(now)}
	err := b.store.Append(ctx, broker.Record{OpenTask: &t, Entries: []audit.Entry{
		b.log.TaskEntry(audit.TaskOpened, who.ID, t.ID, map[string]any{"name": t.Name, "kind": t.Kind, "owner": t.Owner, "ceiling": t.Ceiling, "deadline": t.Deadline}),
	}})
	if err == nil {
		err = b.liveStore.PutTask(ctx, live, b.tasks.Keep(t))
	}
	if err != nil {
		b.tasks.Abandon(t)
		return broker.StoreError(err)
	}
	st.out.TaskID = t.ID
	minted := st.mint(ctx, live, set)
	start := time.Now()
	wait := broker.DefaultWait
	if st.u.Traits.Revocability.Class == provider.ClassTTLOnly {
		wait = 0 // only its expiry ends the credential
	}
	c, err := b.revoker.CompleteTask(context.WithoutCancel(ctx), who, t.ID, wait)
	if err != nil {
		return err // the end is pending, and the queue continues
	}
	st.ended(ctx, start, c, minted)
	return nil
}

// mint reports whether a credential was minted, which must be revoked.
func (st *selfTest) mint(ctx context.Context, live broker.Live, set scopes.Set) bool {
	b, start := st.b, time.Now()
	key, err := st.key()
	if err != nil {
		b.logger.ErrorContext(ctx, "the self-test has no key to certify", "provider", st.u.Name, "error", err)
		st.step("mint", start, false, "The driver could not make a key to certify.", "See the broker's log for the cause.")
		return false
	}
	w := kernel.MintRequest{
		Caller: kernel.Caller{Live: live, Sandbox: broker.Sandbox{ID: broker.SandboxID(live.ID), Attestor: selfTestTag, Class: "none"}, Bind: provider.Binding{JKT: broker.HashOf(live.ID)[:43]}},
		Scopes: set, Name: st.u.Name, Provider: st.u.Provider, TTL: st.ttl, PublicKey: key,
	}
	out, lease, err := b.upstream.MintUpstream(ctx, w, kernel.Decision{Scopes: set, TTL: st.ttl, Rules: []string{selfTestTag}, Promise: w.Promise()})
	if err != nil {
		e := broker.AsError(err)
		b.logger.WarnContext(ctx, "the mint of a self-test failed", "provider", st.u.Name, "task_id", live.ID, "error", err)
		st.step("mint", start, false, "No credential was minted: "+e.Public, "See the broker's log for the cause, under the task's id.")
		return false
	}
	st.out.LeaseID = out.LeaseID
	st.step("mint", start, true, fmt.Sprintf("A credential was minted; class %s.", out.Class), "")
	st.alive(ctx, lease)
	return true
}

// key returns a key that the driver can certify, "" if the driver certifies no keys.
func (st *selfTest) key() (string, error) {
	c, does := st.u.Driver.(provider.Certifier)
	if !does {
		return "", nil
	}
	return thirdparty.Safely(c.SampleKey)
}

func (st *selfTest) step(name string, start time.Time, ok bool, what, remedy string) {
	st.out.OK = st.out.OK && ok
	st.out.Steps = append(st.out.Steps, SelfTestStep{Step: name, OK: ok, What: what, Remedy: remedy, Millis: time.Since(start).Milliseconds()})
}

// notice adds a step that succeeded with a recommendation.
func (st *selfTest) notice(name string, start time.Time, what, remedy string) {
	st.step(name, start, true, what, remedy)
	st.out.Steps[len(st.out.Steps)-1].Notice = true
}

// setup asks the driver to check the set-up at the provider.
func (st *selfTest) setup(ctx context.Context) {
	start := time.Now()
	c, can := st.u.Driver.(provider.Checker)
	if !can {
		st.notice("setup", start, "This kind of provider cannot check its set-up.", "Name a scope to test a mint.")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, broker.MintCall)
	defer cancel()
	found, err := thirdparty.Safely(func() ([]provider.Finding, error) { return c.CheckSetup(ctx), nil })
	if err != nil {
		st.step("setup", start, false, "The driver failed during the check.", "See the broker's log for the cause.")
		st.b.logger.ErrorContext(ctx, "the set-up of a provider could not be checked", "provider", st.u.Name, "error", err)
		return
	}
	if ctx.Err() != nil {
		st.step("setup", start, false, "The provider did not answer in time.", "Check that it runs and that the broker can reach it. See also the broker's log.")
	}
	for _, f := range found {
		if f.Fatal {
			st.step("setup", start, false, f.What, f.Remedy)
		} else {
			st.notice("setup", start, f.What, f.Remedy)
		}
	}
	if len(found) == 0 && ctx.Err() == nil {
		st.step("setup", start, true, "The set-up has no errors.", "")
	}
}

// check asks the driver whether it can express the scope.
func (st *selfTest) check(set scopes.Set) bool {
	start := time.Now()
	_, err := thirdparty.Safely(func() (struct{}, error) { return struct{}{}, st.u.Driver.Check(set) })
	judge, judges := st.u.Driver.(provider.ContentJudge)
	switch {
	case err == nil && judges && judge.Judged(set):
		st.step("check", start, true, "Only egress enforces the scope, in each request. The provider's own credential allows more, and never leaves ebb.", "")
	case err == nil:
		st.step("check", start, true, "The scope can be expressed exactly.", "")
	case errors.Is(err, provider.ErrUnsupported):
		st.step("check", start, false, "The provider cannot express the scope exactly.", "Name a scope from its documentation.")
	default:
		st.b.logger.Error("a scope could not be checked", "provider", st.u.Name, "error", err)
		st.step("check", start, false, "The driver failed while it checked the scope.", "See the broker's log for the cause.")
	}
	return err == nil
}

// alive checks that the probe reports a new credential as accepted. A probe that always reports
// "refused" would prove nothing after the revocation.
func (st *selfTest) alive(ctx context.Context, l broker.Lease) {
	p, can := st.u.Driver.(provider.Prober)
	if !can {
		return
	}
	b, start := st.b, time.Now()
	ctx, cancel := context.WithTimeout(ctx, broker.CallTime)
	defer cancel()
	var handle secret.Secret
	var err error
	if l.Upstream.Handle != "" {
		handle, err = b.sealer.Open(l.ID, l.Upstream.Handle)
	}
	var alive bool
	if err == nil {
		alive, err = thirdparty.Safely(func() (bool, error) { return p.Probe(ctx, b.upstream.RevocationTarget(l, handle)) })
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		st.step("alive", start, true, "The provider cannot tell yet whether the credential works.", "")
	case err != nil:
		b.logger.WarnContext(ctx, "the credential of a self-test could not be probed", "provider", st.u.Name, "lease_id", st.out.LeaseID, "error", err)
		st.step("alive", start, false, "The probe of the credential failed.", "See the broker's log for the cause, under the credential's id.")
	case !alive:
		st.step("alive", start, false, "The probe reports that a new credential does not work, so that it cannot prove a revocation.", "Check the broker's permissions at the provider.")
	default:
		st.step("alive", start, true, "The credential works at the provider.", "")
	}
}

// ended adds the outcome of the credential. After a failed mint a credential may exist all the
// same.
func (st *selfTest) ended(ctx context.Context, start time.Time, c broker.Completion, minted bool) {
	for _, l := range c.Credentials {
		if up := l.Upstream; up != nil && (minted || up.Proof != broker.ProofNever) {
			st.out.LeaseID = l.ID
			what := "The credential"
			if !minted {
				what = "The credential that the mint may have left"
			}
			st.revoked(start, l, what)
			return
		}
	}
	if minted {
		st.step("revoke", start, false, "The credential is missing from its task.", "See the broker's log for the cause, under the task's id.")
		st.b.logger.ErrorContext(ctx, "the credential of a self-test is missing from the response to the task's end", "lease_id", st.out.LeaseID)
	}
}

func (st *selfTest) revoked(start time.Time, l broker.Lease, what string) {
	up := l.Upstream
	follow := "ebb leases show " + l.ID + " shows its progress"
	switch {
	case !up.DeadAt.IsZero():
		st.step("revoke", start, true, fmt.Sprintf("%s is refused now; proof: %s.", what, up.Proof), "")
	case !up.AcceptedAt.IsZero():
		st.notice("revoke", start, fmt.Sprintf("The provider has accepted the revocation; it takes effect within %s.", up.Bound.Duration()), follow+".")
	case l.Class == provider.ClassTTLOnly:
		st.notice("revoke", start, fmt.Sprintf("%s cannot be revoked: it expires at %s.", what, up.DiesAt.UTC().Format(time.RFC3339)), follow+".")
	case up.LastError != "":
		st.step("revoke", start, false, what+" is not revoked yet: "+up.LastError, follow+"; the broker keeps trying.")
	default:
		st.step("revoke", start, false, what+" is not revoked yet: the revocation queue has not attempted it.", follow+".")
	}
}
