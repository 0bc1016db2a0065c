package provider

import (
	"slices"

	"github.com/ebb-broker/ebb/scopes"
)

// Answer is yes, no or unknown. Unknown counts as the worse of the other two.
type Answer string

// Answers.
const (
	Yes     Answer = "yes"
	No      Answer = "no"
	Unknown Answer = "unknown"
)

// Effect is what the holder of a scope can do with it.
type Effect struct {
	Writes     Answer // can it change anything; unknown counts as yes
	Reversible Answer // can what it changes be undone; unknown counts as no
	Sentence   string // says what can be undone: at most 12 words of our own, no names
}

// Describer is implemented by drivers that can say what their scopes allow. People
// cannot approve what no driver describes: every kind of all implements it.
type Describer interface {
	// Describe returns the effect of one scope that Check has accepted. The error wraps
	// ErrUnsupported if the driver does not know the effect.
	Describe(scopes.Scope) (Effect, error)
}

// Reading is the effect of what changes nothing.
func Reading() Effect { return Effect{No, Yes, "It changes nothing; what was read stays read."} }

// reads are the actions that mean reading wherever an operator has not said otherwise;
// ebb's built-in policy knows the same.
var reads = map[string]bool{"read": true, "list": true, "get": true}

// ByAction returns the effect of a scope whose action the operator named: read, list and get only
// read; the effect of any other action is unknown.
func ByAction(s scopes.Scope) Effect {
	if reads[s.Action()] {
		return Reading()
	}
	return Effect{Unknown, Unknown, "ebb does not know whether this can be undone."}
}

// Words are what an operator says of actions, by their names.
type Words struct {
	Reversible   []string // they change what can be undone; counts where the kind does not know
	Irreversible []string // they change what cannot be undone, whatever the kind says
}

// On is e, the effect of s in the kind's own view, with what the operator says of it.
// Only what the kind does not know can become better by that.
func (w Words) On(s scopes.Scope, e Effect) Effect {
	switch {
	case slices.Contains(w.Irreversible, s.Action()):
		return Effect{Yes, No, "This ebb's operator says that it cannot be undone."}
	case e.Reversible == Unknown && slices.Contains(w.Reversible, s.Action()):
		return Effect{Yes, Yes, "This ebb's operator says that it can be undone."}
	}
	return e
}
