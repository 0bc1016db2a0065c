package risk

import (
	"fmt"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
)

// rule is one line of the table. If its condition holds for the facts, its text is the reason.
type rule struct {
	id    string
	level Level
	when  func(Facts) bool
	say   func(Facts) string
	over  []string // ids of rules further down that would say less of the same
}

const (
	longTime   = 30 * time.Minute
	oldAttest  = time.Hour
	halfMinute = 30 * time.Second
)

// strong holds the classes of evidence that a party with a copy of the evidence cannot reuse.
var strong = []string{"hardware", "kernel", "signed", "ticket"}

func text(s string) func(Facts) string { return func(Facts) string { return s } }

func count(s string, n func(Facts) int) func(Facts) string {
	return func(f Facts) string { return fmt.Sprintf(s, n(f)) }
}

// unknown returns no for an effect that is known to be final, and open for an unknown one.
func unknown(no, open string) func(Facts) string {
	return func(f Facts) string {
		if f.Effect.Reversible == provider.No {
			return no
		}
		return open
	}
}

// rules is sorted by strength: the strongest reason first. docs/reference/risk.md has the same table.
var rules = []rule{
	{"not-described", High, func(f Facts) bool { return !f.Effect.Described }, text("The provider's kind does not say what its scopes allow."),
		[]string{"not-understood", "final-first", "final-pattern", "final-evidence", "final"}},
	{"not-understood", High, func(f Facts) bool { return !f.Effect.Understood }, text("ebb does not understand what this scope allows."),
		[]string{"final-first", "final-pattern", "final-evidence", "final"}},
	{"tainted-write", High, func(f Facts) bool { return f.writes() && f.tainted() }, func(f Facts) string { return read(f.Taint) },
		[]string{"tainted"}},
	{"violations", High, func(f Facts) bool { return f.Violations > 0 }, count("Violations by this task: %d.", func(f Facts) int { return f.Violations }), nil},
	{"production-write", High, func(f Facts) bool { return f.writes() && f.Production }, text("It can change things in a task labelled production."),
		[]string{"production"}},
	{"final-first", High, func(f Facts) bool { return f.final() && f.First }, unknown("First approval, and it cannot be undone.", "First approval; whether it can be undone is unknown."),
		[]string{"final-pattern", "final-evidence", "final", "first-write", "first"}},
	{"final-pattern", High, func(f Facts) bool { return f.final() && f.Pattern }, unknown("It covers many resources, and it cannot be undone.", "It covers many resources; whether it can be undone is unknown."),
		[]string{"final-evidence", "final", "pattern"}},
	{"final-evidence", High, func(f Facts) bool { return f.final() && weak(f) }, unknown("The evidence is weak, and it cannot be undone.", "The evidence is weak; whether it can be undone is unknown."),
		[]string{"final", "evidence"}},

	{"final", Medium, Facts.final, unknown("It cannot be undone.", "The provider does not say whether it can be undone."), nil},
	{"tainted", Medium, Facts.tainted, func(f Facts) string { return read(f.Taint) }, nil},
	{"evidence", Medium, weak, text("Any program with a copy of the sandbox's token could have sent this."), nil},
	{"ttl-only", Medium, func(f Facts) bool { return f.Class != provider.ClassInstant && f.Class != provider.ClassEventual },
		text("It cannot be revoked before it expires."), nil},
	{"pattern", Medium, func(f Facts) bool { return f.Pattern }, text("It covers several resources or actions."), nil},
	{"first-write", Medium, func(f Facts) bool { return f.writes() && f.First }, text("First approval for this owner and kind of task."),
		[]string{"first"}},
	{"denials", Medium, func(f Facts) bool { return f.Denials > 0 }, count("Denied in this task before: %d.", func(f Facts) int { return f.Denials }), nil},
	{"production", Medium, func(f Facts) bool { return f.Production }, text("The task is labelled production."), nil},
	{"delegated", Medium, func(f Facts) bool { return f.Delegated }, text("Another sandbox delegated this task."), nil},
	{"old-evidence", Medium, func(f Facts) bool { return f.EvidenceAge > oldAttest }, text("The sandbox was attested more than an hour before."), nil},
	{"long-write", Medium, func(f Facts) bool { return f.writes() && f.TTL > longTime }, text("It lasts more than half an hour."),
		[]string{"long"}},

	{"write", Low, func(f Facts) bool { return f.writes() && !f.final() }, text("It changes things, and that can be undone."), nil},
	{"late", Low, func(f Facts) bool { return f.Class == provider.ClassEventual && f.Bound > halfMinute },
		count("Revoking it can take %d seconds.", func(f Facts) int { return int(f.Bound / time.Second) }), nil},
	{"first", Low, func(f Facts) bool { return f.First }, text("First approval for this owner and kind of task."), nil},
	{"long", Low, func(f Facts) bool { return f.TTL > longTime }, text("It lasts more than half an hour."), nil},
}

func weak(f Facts) bool { return !slices.Contains(strong, f.Evidence) }

// read names one source of the taint; the facts list all.
func read(taint []string) string {
	s := "The task read " + taint[0]
	if n := len(taint) - 1; n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s + ", which others can write."
}
