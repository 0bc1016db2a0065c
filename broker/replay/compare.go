package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/ebb-broker/ebb/scopes/policy"
)

// maxExamples is the highest number of decisions that a Move lists.
const maxExamples = 50

// Tally counts answers.
type Tally struct {
	Granted int `json:"granted"` // by policy alone
	Asked   int `json:"asked"`
	Denied  int `json:"denied"` // what a set cannot judge is denied, too
}

func (t *Tally) add(e policy.Effect) {
	switch e {
	case policy.Allow:
		t.Granted++
	case policy.Ask:
		t.Asked++
	default:
		t.Denied++
	}
}

// Pair is a past decision with the answers of both sets.
type Pair struct {
	Decision
	Live    policy.Decision `json:"live"`
	Draft   policy.Decision `json:"draft"`
	Diff    []string        `json:"diff"`
	Refused bool            `json:"refused"` // a person said no to it then
	fault   bool            // the draft could not judge it
}

// Move is a group of decisions whose effect changed in the same way, or whose effect stayed and
// whose details changed.
type Move struct {
	From, To policy.Effect
	Wider    bool
	N        int
	Refused  int    // of these a person said no to then
	Examples []Pair // what a person refused first, then the newest
}

// Comparison is the result of a draft beside the result of the set in force.
type Comparison struct {
	Looked  int // decisions that both sets judged
	Live    Tally
	Draft   Tally
	Faults  int    // decisions that the draft cannot judge; they count as denied
	Wider   int    // decisions of which the draft grants more
	Changed int    // decisions that are different in anything
	Moves   []Move // wider first, of these what people refused, then what is granted
	From    time.Time
	To      time.Time // of the oldest and the newest that was looked at
}

// Compared decides past requests again by both sets, the newest first. Before each decision it
// calls more with the number of finished decisions, and stops if more returns false.
func Compared(live, draft *policy.Set, past Past, more func(done int) bool) Comparison {
	var c Comparison
	moves := map[way]*Move{}
	for i := len(past.Decisions) - 1; i >= 0 && more(c.Looked); i-- {
		p := pair(live, draft, past.Decisions[i])
		p.Refused = past.Refused[p.Request]
		if c.Looked++; c.To.IsZero() {
			c.To = p.At
		}
		c.From = p.At
		c.Live.add(p.Live.Effect)
		c.Draft.add(p.Draft.Effect)
		if p.fault {
			c.Faults++
		}
		if len(p.Diff) == 0 {
			continue
		}
		c.Changed++
		wider := policy.Wider(p.Live, p.Draft)
		if wider {
			c.Wider++
		}
		w := way{p.Live.Effect, p.Draft.Effect, wider}
		if moves[w] == nil {
			moves[w] = &Move{From: w.from, To: w.to, Wider: wider}
		}
		moves[w].add(p)
	}
	for _, m := range moves {
		c.Moves = append(c.Moves, *m)
	}
	slices.SortFunc(c.Moves, func(a, b Move) int {
		if a.Wider != b.Wider {
			if a.Wider {
				return -1
			}
			return 1
		}
		return cmp.Or(b.Refused-a.Refused, int(b.To)-int(a.To), b.N-a.N, int(a.From)-int(b.From))
	})
	return c
}

// way is the pair of effects of a Move.
type way struct {
	from, to policy.Effect
	wider    bool
}

// add counts p and keeps it as an example while there is room. An example that was refused in the
// past makes way for one that was not.
func (m *Move) add(p Pair) {
	m.N++
	at := len(m.Examples)
	if p.Refused {
		at = min(m.Refused, len(m.Examples))
		m.Refused++
	}
	if at < maxExamples {
		m.Examples = slices.Insert(m.Examples, at, p)
		m.Examples = m.Examples[:min(len(m.Examples), maxExamples)]
	}
}

func pair(live, draft *policy.Set, d Decision) Pair {
	p := Pair{Decision: d}
	// The zero decision denies, so a query that cannot be evaluated counts as denied.
	p.Live, _ = live.Decide(d.Recorded.Query)
	var err error
	if p.Draft, err = draft.Decide(d.Recorded.Query); err != nil {
		p.fault = true
	}
	p.Diff = policy.Differences(p.Live, p.Draft)
	return p
}

// Change is a decision that the draft would have made differently.
type Change struct {
	Decision
	Now   policy.Decision `json:"now"`
	Wider bool            `json:"wider"` // the draft grants more: look at these first
	Diff  []string        `json:"diff"`  // a sentence per difference
}

// Against returns the decisions that the draft would make differently.
func Against(draft *policy.Set, decisions []Decision) []Change {
	recorded := make([]policy.Recorded, len(decisions))
	for i, d := range decisions {
		recorded[i] = d.Recorded
	}
	var out []Change
	for _, c := range policy.Replay(draft, recorded) {
		diff := c.Diff
		if c.Error == "" && c.Was.Effect == policy.Deny && c.Now.Effect == policy.Deny {
			// The entry of a denial does not hold the part that would have been allowed.
			c.Was.WouldAllow = c.Now.WouldAllow
			diff = policy.Differences(c.Was, c.Now)
		}
		if len(diff) > 0 {
			out = append(out, Change{Decision: decisions[c.Index], Now: c.Now, Wider: c.Wider, Diff: diff})
		}
	}
	return out
}
