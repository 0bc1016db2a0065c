package api

import (
	"github.com/ebb-broker/ebb/broker/identity"
	"github.com/ebb-broker/ebb/web/wire"
)

func wireAttestor(s identity.AttestorState) wire.Attestor {
	return wire.Attestor{
		Name: s.Name, Challenges: s.Challenges, Watches: s.Watches, People: s.People,
		OnSandboxExit: wire.Action(s.OnSandboxExit), Reattest: seconds(s.Reattest), OnMissedAttestation: wire.Action(s.OnMissedAttestation),
	}
}

func brokerEvidenceQuery(q wire.EvidenceQuery) identity.EvidenceQuery {
	return identity.EvidenceQuery(q)
}

func wireEvidenceExplanation(e identity.EvidenceExplanation) wire.EvidenceExplanation {
	return wire.EvidenceExplanation{
		Attestor: e.Attestor, Verdict: wire.EvidenceVerdict(e.Verdict), Reason: e.Reason, Why: e.Why,
		Steps:    each(e.Steps, func(s identity.EvidenceStep) wire.EvidenceStep { return wire.EvidenceStep(s) }),
		Identity: ref(e.Identity, func(i identity.EvidenceOf) wire.EvidenceIdentity { return wire.EvidenceIdentity(i) }),
		Task:     ref(e.Task, wireEvidenceTask),
	}
}

func wireEvidenceTask(t identity.EvidenceForTask) wire.EvidenceTask {
	return wire.EvidenceTask{
		ID: t.ID, Accepted: t.Accepted, Why: t.Why,
		Selectors: each(t.Selectors, func(s identity.EvidenceSelector) wire.EvidenceSelector { return wire.EvidenceSelector(s) }),
	}
}
