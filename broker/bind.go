package broker

import (
	"context"
	"errors"

	"ebb/attest"
	"ebb/attest/jose"
	"ebb/broker/audit"
)

// is refuses every sandbox and every key but the bound one.
func (s Sandbox) is(id attest.Identity, p Possession) error {
	if s.JKT != p.Key.JKT || (id.TaskID == "" && (s.Attestor != id.Attestor || s.Subject != id.Subject)) {
		return attest.Reject(attest.ReasonKeyBinding, "the task belongs to another sandbox or another key", nil)
	}
	return nil
}

// bind fixes the sandbox of a task at its first accepted evidence, durably, and
// afterwards refuses every other sandbox and every other key.
func (b *Broker) bind(ctx context.Context, live *Live, id attest.Identity, p Possession) (Sandbox, error) {
	if live.Sandbox == nil {
		s, err := b.newSandbox(live.ID, id, p)
		if err != nil {
			return Sandbox{}, err
		}
		err = b.cfg.Journal.Append(ctx, Record{
			BindSandbox: &SandboxOf{TaskID: live.ID, Sandbox: s},
			Entries: []audit.Entry{b.taskEntry(audit.SandboxEnrolled, s.ID, live.ID, map[string]any{
				"attestor": s.Attestor, "subject": s.Subject, "class": s.Class, "jkt": s.JKT, "selectors": s.Selectors,
				"evidence": used(id, s.JKT),
			})},
		})
		switch {
		case err == nil:
			live.Sandbox = &s
			b.arrived(live.ID, s.Attestor)
		case errors.Is(err, ErrDone): // another evidence was first, or the task has ended
			t, err := b.taskByID(ctx, live.ID)
			if err != nil {
				return Sandbox{}, err
			}
			if t.State == TaskClosed {
				return Sandbox{}, closedError()
			}
			live.Sandbox = t.Sandbox
		default:
			return Sandbox{}, taskError(err)
		}
		if live.Sandbox != nil { // also when an earlier attempt came no further than the journal
			_, err := b.cfg.Ledger.Touch(ctx, live.ID, Touch{Sandbox: live.Sandbox})
			if err != nil && !errors.Is(err, ErrClaimed) {
				return Sandbox{}, ledgerError(err)
			}
		}
	}
	if live.Sandbox == nil {
		return Sandbox{}, unavailable(errors.New("the journal knows of a sandbox and does not show it"))
	}
	return *live.Sandbox, live.Sandbox.is(id, p)
}

func (b *Broker) newSandbox(taskID string, id attest.Identity, p Possession) (Sandbox, error) {
	if p.Key.JKT == "" || p.Key.Public == nil {
		return Sandbox{}, E(InvalidProof, "Prove the sandbox's key first: send a DPoP proof or a client certificate.", nil)
	}
	k, err := jose.NewKey("", p.Key.Public)
	if err != nil {
		return Sandbox{}, E(InvalidProof, "This kind of key is not accepted.", err)
	}
	jwk, err := jose.MarshalPublicJWK(k)
	if err != nil {
		return Sandbox{}, E(InvalidProof, "This kind of key is not accepted.", err)
	}
	return Sandbox{
		ID: sandboxOf(taskID), Attestor: id.Attestor, Subject: id.Subject, Class: string(id.Class),
		JKT: p.Key.JKT, JWK: string(jwk), Selectors: id.Selectors, At: b.now(),
	}, nil
}
