package broker

import (
	"context"

	"ebb/attest"
)

// Challenge makes what evidence of an attestor must answer. It is bound to the key
// that is proved here, and enrolling with the answer needs the same.
func (b *Broker) Challenge(ctx context.Context, taskID string, ev attest.Evidence, p Possession) (attest.Challenge, error) {
	if p.Key.JKT == "" {
		return attest.Challenge{}, E(InvalidProof, "A challenge needs a DPoP proof of the sandbox's key.", nil)
	}
	ev.Key = p.Key
	if err := b.claimProof(ctx, p); err != nil {
		return attest.Challenge{}, err
	}
	if ev.Attestor == "" {
		t, err := b.taskByID(ctx, taskID)
		if err != nil {
			if AsError(err).Kind == Unavailable {
				return attest.Challenge{}, err
			}
			return attest.Challenge{}, E(InvalidEvidence, "Name the attestor, or with task_id the task.", err)
		}
		ev.Attestor = t.Expect.Attestor
	}
	c, asks := b.cfg.Attestors[ev.Attestor].(attest.Challenger)
	if !asks || b.people[ev.Attestor] {
		return attest.Challenge{}, E(InvalidEvidence, "This attestor asks no challenge: enrol with its evidence.", nil)
	}
	out, err := c.Challenge(ctx, ev)
	if err != nil {
		return attest.Challenge{}, b.refuseEvidence(ctx, taskID, ev, InvalidEvidence, err)
	}
	return out, nil
}
