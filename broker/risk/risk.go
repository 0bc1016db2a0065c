package risk

import (
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// Level is the severity of a request.
type Level string

// Levels.
const (
	Low    Level = "low"
	Medium Level = "medium"
	High   Level = "high"
)

var order = []Level{Low, Medium, High}

// Rank returns the position of l among the levels, from 1; 0 for an unknown level.
func (l Level) Rank() int { return slices.Index(order, l) + 1 }

// atLeast reports whether l is as severe as m or more severe.
func (l Level) atLeast(m Level) bool { return slices.Index(order, l) >= slices.Index(order, m) }

// shownReasons is the number of reasons that an approver sees. The strongest come first.
const shownReasons = 3

// Reason is one rule that applies to a request.
type Reason struct {
	ID    string `json:"id"` // of the rule
	Level Level  `json:"level"`
	Text  string `json:"text"` // one sentence of at most 12 words
}

// Result is a level with all reasons for it, the strongest first.
type Result struct {
	Level   Level    `json:"level"`
	Reasons []Reason `json:"reasons"`
}

// Top returns the first shownReasons reasons.
func (r Result) Top() []Reason { return r.Reasons[:min(len(r.Reasons), shownReasons)] }

// Effect is the combined effect of the scopes of a request.
type Effect struct {
	Described  bool            `json:"described"`  // the provider's kind implements Describer
	Understood bool            `json:"understood"` // and knows all of these
	Writes     provider.Answer `json:"writes"`
	Reversible provider.Answer `json:"reversible"`
	Sentences  []string        `json:"sentences"` // sentences about which effects can be undone, each once
}

// EffectOf returns the combined effect of the scopes in set: the worst answer of each kind, by the
// operator's configuration (words) or else by the driver d. undoable holds the scopes whose
// effects can be undone.
func EffectOf(d provider.Driver, words provider.Words, set scopes.Set) (e Effect, undoable scopes.Set) {
	e = Effect{Understood: true, Writes: provider.No, Reversible: provider.Yes, Sentences: []string{}}
	describer, can := d.(provider.Describer)
	if e.Described = can; !can {
		return Effect{Writes: provider.Unknown, Reversible: provider.Unknown, Sentences: []string{}}, scopes.Set{}
	}
	var good []scopes.Scope
	for _, s := range set.Scopes() {
		one, err := describer.Describe(s)
		if err != nil {
			e.Understood = false
			one = provider.Effect{Writes: provider.Unknown, Reversible: provider.Unknown}
		} else {
			one = words.On(s, one)
		}
		e.Writes = worse(e.Writes, one.Writes, provider.Yes)
		e.Reversible = worse(e.Reversible, one.Reversible, provider.No)
		if one.Sentence != "" && !slices.Contains(e.Sentences, one.Sentence) {
			e.Sentences = append(e.Sentences, one.Sentence)
		}
		if one.Reversible == provider.Yes {
			good = append(good, s)
		}
	}
	undoable, err := scopes.NewSet(good...)
	if err != nil {
		undoable = scopes.Set{}
	}
	return e, undoable
}

// worse returns the more severe of two answers; bad is the most severe answer of this kind. An
// empty answer counts as unknown.
func worse(a, b, bad provider.Answer) provider.Answer {
	for _, x := range []provider.Answer{a, b} {
		if x == bad {
			return bad
		}
	}
	for _, x := range []provider.Answer{a, b} {
		if x != provider.Yes && x != provider.No {
			return provider.Unknown
		}
	}
	return a
}

// Facts is the input of the rules.
type Facts struct {
	Effect      Effect
	Pattern     bool           // a scope stands for many resources or actions
	Class       provider.Class // how the credential can be revoked
	Bound       time.Duration  // class eventual
	TTL         time.Duration  // of the credential
	First       bool           // no person has approved these actions for this owner and kind of task before
	Taint       []string       // untrusted sources the task has read
	Evidence    string         // class of the sandbox's evidence
	EvidenceAge time.Duration  // time since the attestation
	Delegated   bool           // by another sandbox
	Violations  int            // of the task
	Denials     int            // of requests of the task before this one
	Production  bool           // a label of the task says so
}

func (f Facts) writes() bool { return f.Effect.Writes != provider.No }

func (f Facts) final() bool { return f.writes() && f.Effect.Reversible != provider.Yes }

func (f Facts) tainted() bool { return len(f.Taint) > 0 }

// Judge applies every rule to f.
func Judge(f Facts) Result {
	out := Result{Level: Low, Reasons: []Reason{}}
	var said []string
	for _, r := range rules {
		if slices.Contains(said, r.id) || !r.when(f) {
			continue
		}
		said = append(said, r.over...)
		out.Reasons = append(out.Reasons, Reason{r.id, r.level, r.say(f)})
		if r.level.atLeast(out.Level) {
			out.Level = r.level
		}
	}
	return out
}

// production holds the values of the task label "environment" that mean production.
var production = []string{"production", "prod"}

// Production reports whether the labels, which the runner set, mark a task as working on
// production. It does not guess from names of resources.
func Production(labels map[string]string) bool {
	return slices.Contains(production, labels["environment"])
}
