package broker

import "sync/atomic"

// Reached says how far an end has got that could not be recorded everywhere yet.
type Reached struct {
	Process   string `json:"process"`    // this ebb: always ReachedDone
	LiveStore string `json:"live_store"` // what every replica asks
	Database  string `json:"database"`   // the audit log
	Restart   string `json:"restart"`    // a restart before the database has it: ReachedDone = the end is kept
}

// How far an end has got at one place.
const (
	ReachedDone    = "done"
	ReachedPending = "pending" // ebb goes on trying
	ReachedLost    = "lost"    // a restart forgets the end: nothing could be written
)

// progress is how far an end has got, while it goes on.
type progress struct{ ledger, journal atomic.Bool }

// reached is what somebody is told; kept is whether the end is in the file of pending ends.
func (p *progress) reached(kept bool) *Reached {
	state := func(done bool, otherwise string) string {
		if done {
			return ReachedDone
		}
		return otherwise
	}
	// A ledger in this process goes with it, and another one closes the task again.
	return &Reached{
		Process: ReachedDone, LiveStore: state(p.ledger.Load(), ReachedPending), Database: state(p.journal.Load(), ReachedPending),
		Restart: state(kept || p.journal.Load(), ReachedLost),
	}
}

func (r *Reached) sentence() string {
	s := "Live store: " + r.LiveStore + ". Database: " + r.Database + "."
	if r.Restart == ReachedLost {
		s += " A restart before the database has it can lose the end."
	}
	return s
}
