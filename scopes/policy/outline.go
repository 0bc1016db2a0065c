package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/scopes/amount"
)

// The effects of a policy in [Outline] and [Verdict].
const (
	EffectPermit = "permit"
	EffectAsk    = "ask" // a permit with @ask
	EffectForbid = "forbid"
)

// Outline describes one policy for reviewers.
type Outline struct {
	ID, Why   string
	File      string
	Line      int
	Effect    string // EffectPermit, EffectAsk or EffectForbid
	Ask       []string
	Quorum    int
	MaxTTL    time.Duration // 0 = unlimited
	MaxAmount amount.Limits // nil = unlimited
	Egress    bool
	Open      bool   // it has no clause: it applies to every request
	Body      string // canonical Cedar without annotations
	Text      string // canonical Cedar
}

// Outline lists the policies, sorted by id.
func (s *Set) Outline() []Outline {
	if s == nil {
		return nil
	}
	out := make([]Outline, 0, len(s.rules))
	for _, r := range s.rules {
		o := Outline{ID: r.id, Why: r.why, File: r.at.file, Line: r.at.line, Effect: r.effect(), Ask: slices.Clone(r.ask), Quorum: r.quorum, MaxTTL: r.maxTTL, MaxAmount: r.maxAmount, Egress: r.egress,
			Open: len(r.clauses) == 0, Text: string(r.policy.MarshalCedar())}
		o.Body = body(o.Text)
		out = append(out, o)
	}
	return out
}

func (r *rule) effect() string {
	switch {
	case r.forbid:
		return EffectForbid
	case r.ask != nil:
		return EffectAsk
	}
	return EffectPermit
}

// body returns canonical Cedar from its effect on, without the annotations, which come first, one
// on a line.
func body(text string) string {
	for rest := text; rest != ""; {
		line, after, _ := strings.Cut(rest, "\n")
		if !strings.HasPrefix(line, "@") {
			return rest
		}
		rest = after
	}
	return text
}
