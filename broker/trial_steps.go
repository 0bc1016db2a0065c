package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ebb/broker/provider"
	"ebb/scopes"
)

func (tr *trial) step(name string, start time.Time, ok bool, what, remedy string) {
	tr.out.OK = tr.out.OK && ok
	tr.out.Steps = append(tr.out.Steps, TrialStep{Step: name, OK: ok, What: what, Remedy: remedy, Millis: time.Since(start).Milliseconds()})
}

// notice is a step that is well and has something to say.
func (tr *trial) notice(name string, start time.Time, what, remedy string) {
	tr.step(name, start, true, what, remedy)
	tr.out.Steps[len(tr.out.Steps)-1].Notice = true
}

// setup asks the driver what is wrong at the provider.
func (tr *trial) setup(ctx context.Context) {
	start := time.Now()
	c, can := tr.u.Driver.(provider.Checker)
	if !can {
		tr.notice("setup", start, "This kind of provider cannot look at its set-up.", "Name a scope to try it with.")
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
	if ctx.Err() != nil {
		tr.step("setup", start, false, "The provider did not answer in time.", "Is it up, and can the broker reach it? The broker's log may say more.")
	}
	for _, f := range found {
		if f.Fatal {
			tr.step("setup", start, false, f.What, f.Remedy)
		} else {
			tr.notice("setup", start, f.What, f.Remedy)
		}
	}
	if len(found) == 0 && ctx.Err() == nil {
		tr.step("setup", start, true, "Nothing is wrong with the set-up.", "")
	}
}

// check asks the driver whether it can express the scope.
func (tr *trial) check(set scopes.Set) bool {
	start := time.Now()
	_, err := safely(func() (struct{}, error) { return struct{}{}, tr.u.Driver.Check(set) })
	switch {
	case err == nil:
		tr.step("check", start, true, "The scope can be expressed exactly.", "")
	case errors.Is(err, provider.ErrUnsupported):
		tr.step("check", start, false, "The provider cannot express the scope exactly.", "Name one that its documentation has.")
	default:
		tr.b.cfg.Logger.Error("a scope could not be checked", "provider", tr.u.name, "error", err)
		tr.step("check", start, false, "The driver failed while it looked at the scope.", "The broker's log has the cause.")
	}
	return err == nil
}

// alive shows that the probe can tell life from death: one that always says "dead"
// would prove nothing later.
func (tr *trial) alive(ctx context.Context, l Lease) {
	p, can := tr.u.Driver.(provider.Prober)
	if !can {
		return
	}
	b, start := tr.b, time.Now()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var handle provider.Secret
	var err error
	if l.Upstream.Handle != "" {
		handle, err = b.cfg.Sealer.Open(l.ID, l.Upstream.Handle)
	}
	var alive bool
	if err == nil {
		alive, err = safely(func() (bool, error) { return p.Probe(ctx, b.targetOf(l, handle)) })
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		tr.step("alive", start, true, "Nobody can tell yet whether the credential works.", "")
	case err != nil:
		b.cfg.Logger.WarnContext(ctx, "a trial could not be probed", "provider", tr.u.name, "lease_id", tr.out.LeaseID, "error", err)
		tr.step("alive", start, false, "The provider could not be asked whether the credential works.", "The broker's log has the cause under the credential's id.")
	case !alive:
		tr.step("alive", start, false, "The probe says that a new credential does not work: it proves nothing.", "Check what the broker may see at the provider.")
	default:
		tr.step("alive", start, true, "The credential works at the provider.", "")
	}
}

// ended says what became of the credential. Without one that came of the mint,
// something may exist all the same.
func (tr *trial) ended(ctx context.Context, start time.Time, c Completion, minted bool) {
	for _, l := range c.Credentials {
		if up := l.Upstream; up != nil && (minted || up.Proof != ProofNever) {
			tr.out.LeaseID = l.ID
			what := "The credential"
			if !minted {
				what = "What the mint may have left"
			}
			tr.revoked(start, l, what)
			return
		}
	}
	if minted {
		tr.step("revoke", start, false, "The credential is not on the record of its task.", "The broker's log has the cause under the task's id.")
		tr.b.cfg.Logger.ErrorContext(ctx, "the credential of a trial is missing from the answer to its end", "lease_id", tr.out.LeaseID)
	}
}

func (tr *trial) revoked(start time.Time, l Lease, what string) {
	up := l.Upstream
	follow := "ebb leases show " + l.ID + " follows it"
	switch {
	case !up.DeadAt.IsZero():
		tr.step("revoke", start, true, fmt.Sprintf("%s is dead at the provider: %s.", what, up.Proof), "")
	case !up.AcceptedAt.IsZero():
		tr.notice("revoke", start, fmt.Sprintf("The provider has taken the revocation; it holds everywhere after %s at most.", up.Bound.Duration()), follow+".")
	case l.Class == provider.ClassTTLOnly:
		tr.notice("revoke", start, fmt.Sprintf("%s cannot be revoked: it dies by itself at %s.", what, up.DiesAt.UTC().Format(time.RFC3339)), follow+".")
	case up.LastError != "":
		tr.step("revoke", start, false, what+" is not revoked yet: "+up.LastError, follow+"; the broker goes on trying.")
	default:
		tr.step("revoke", start, false, what+" is not revoked yet: the lane has not come to it.", follow+".")
	}
}
