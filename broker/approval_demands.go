package broker

import (
	"strings"

	"ebb/broker/risk"
)

// Proofs that an approval may lack, as Error.Missing and the member missing of a problem
// document name them.
const (
	MissingTarget   = "target"   // the typed name of the target
	MissingPresence = "presence" // a person who has just proved who they are at the console
)

// Level returns the risk of the request. A request without a readable level has the highest.
func (r Request) Level() risk.Level {
	f, err := r.Sheet()
	if err != nil {
		return risk.High
	}
	return f.Level()
}

// Level returns the risk among the facts, the highest where they name none.
func (f FactSheet) Level() risk.Level {
	if f.Risk == nil || f.Risk.Level.Rank() == 0 {
		return risk.High
	}
	return f.Risk.Level
}

// Target returns the name that a person types to approve the request at high risk.
func (r Request) Target() string { return risk.TitleOf(r.Scopes, r.Provider).Target }

// MissingProofs returns the proofs that v lacks to approve r. The risk is that of the request as
// asked, also for a narrower approval. Break-glass demands what high risk demands.
func (b *Broker) MissingProofs(r Request, v Verdict) []string {
	level := r.Level()
	if v.BreakGlass != "" {
		level = risk.High
	}
	var out []string
	if level == risk.High && v.Target != r.Target() {
		out = append(out, MissingTarget)
	}
	from := b.cfg.PresenceFrom
	if from.Rank() == 0 {
		from = risk.High
	}
	if level.Rank() >= from.Rank() && !v.Present {
		out = append(out, MissingPresence)
	}
	return out
}

// demand refuses an approval that lacks a proof which the risk of r demands.
func (b *Broker) demand(r Request, v Verdict) error {
	missing := b.MissingProofs(r, v)
	if len(missing) == 0 {
		return nil
	}
	e := E(StepUpRequired, "Request "+r.ID+" is of "+string(r.Level())+" risk, and this approval lacks: "+strings.Join(missing, ", ")+". Approve it on the request's page of the console; `ebb console` opens the console.", nil)
	if v.Present {
		e.Public = "target must be the name of the request's target, exactly as its page shows it."
	}
	e.Missing = missing
	return e
}
