package policyset

import (
	"slices"
	"strings"

	"github.com/ebb-broker/ebb/scopes/policy"
)

// Direction says whether a change of one policy grants more or less than before.
type Direction string

// Directions. A change whose direction cannot be computed counts as wider, because a reviewer
// looks at the wider changes first.
const (
	Wider    Direction = "wider"
	Narrower Direction = "narrower"
)

// Change is one policy that a draft adds, changes or leaves out.
type Change struct {
	ID        string
	Before    *policy.Outline // nil = the draft adds it
	After     *policy.Outline // nil = the draft leaves it out
	Direction Direction
	Says      string // what it means, a sentence
	Loud      bool   // look at this before anything else
}

// Compare returns one Change for each policy that the draft adds, changes or leaves out. The
// changes that need the most attention come first.
func Compare(live, draft *policy.Set) []Change {
	before, after := outlines(live), outlines(draft)
	var out []Change
	for id, b := range before {
		if a, kept := after[id]; !kept {
			out = append(out, gone(b))
		} else if a.Text != b.Text {
			out = append(out, changed(b, a))
		}
	}
	for id, a := range after {
		if _, known := before[id]; !known {
			out = append(out, added(a))
		}
	}
	slices.SortFunc(out, func(x, y Change) int {
		if x.Loud != y.Loud {
			return order(x.Loud)
		}
		if x.Direction != y.Direction {
			return order(x.Direction == Wider)
		}
		return strings.Compare(x.ID, y.ID)
	})
	return out
}

func order(first bool) int {
	if first {
		return -1
	}
	return 1
}

func outlines(s *policy.Set) map[string]policy.Outline {
	out := map[string]policy.Outline{}
	for _, o := range s.Outline() {
		out[o.ID] = o
	}
	return out
}

func gone(b policy.Outline) Change {
	c := Change{ID: b.ID, Before: &b, Direction: Narrower, Says: "This permit is removed."}
	if b.Effect == policy.EffectForbid {
		c.Direction, c.Loud, c.Says = Wider, true, "This forbid is removed: other policies may permit the requests that it denied."
	}
	return c
}

func added(a policy.Outline) Change {
	c := Change{ID: a.ID, After: &a, Direction: Wider, Says: "A new permit, without approval."}
	switch {
	case a.Effect == policy.EffectForbid:
		c.Direction, c.Says = Narrower, "A new forbid."
	case a.Effect == policy.EffectAsk:
		c.Says = "A new permit that needs approval."
	case a.Open:
		c.Loud, c.Says = true, everything
	}
	return c
}

const everything = "It permits EVERYTHING to EVERY sandbox, without approval."

func changed(b, a policy.Outline) Change {
	c := Change{ID: b.ID, Before: &b, After: &a, Direction: Wider, Says: "Its conditions change: compare both texts."}
	switch {
	case a.Effect == policy.EffectPermit && a.Open && !(b.Effect == policy.EffectPermit && b.Open):
		c.Loud, c.Says = true, everything
	case b.Effect == policy.EffectForbid && a.Effect != policy.EffectForbid:
		c.Loud, c.Says = true, "It was a forbid and would be a permit."
	case b.Effect == policy.EffectForbid:
		c.Loud, c.Says = true, "This forbid changes and may deny fewer requests."
	case a.Effect == policy.EffectForbid:
		c.Direction, c.Says = Narrower, "It was a permit and would be a forbid."
	case b.Effect == policy.EffectAsk && a.Effect == policy.EffectPermit:
		c.Loud, c.Says = true, "Approval would no longer be needed."
	case b.Body != a.Body:
	case b.Effect == policy.EffectPermit && a.Effect == policy.EffectAsk:
		c.Direction, c.Says = Narrower, "Approval would be needed."
	default:
		c.annotated(b, a)
	}
	return c
}

// annotated describes the effect of a change in which only annotations differ.
func (c *Change) annotated(b, a policy.Outline) {
	c.Direction = Narrower
	var wider, narrower []string
	say := func(is bool, text string, to *[]string) {
		if is {
			*to = append(*to, text)
		}
	}
	say(a.Quorum < b.Quorum, "fewer people must approve", &wider)
	say(a.Quorum > b.Quorum, "more people must approve", &narrower)
	say(!slices.Equal(a.Ask, b.Ask), "other groups approve", &wider)
	say(b.MaxTTL > 0 && (a.MaxTTL == 0 || a.MaxTTL > b.MaxTTL), "credentials may live longer", &wider)
	say(a.MaxTTL > 0 && (b.MaxTTL == 0 || a.MaxTTL < b.MaxTTL), "credentials expire earlier", &narrower)
	if b.MaxAmount.String() != a.MaxAmount.String() {
		within := b.MaxAmount.And(a.MaxAmount).String() == a.MaxAmount.String()
		say(!within, "tasks may spend more, or other units", &wider)
		say(within, "tasks may spend less", &narrower)
	}
	say(b.Egress && !a.Egress, "the sandbox gets the credential itself", &wider)
	say(a.Egress && !b.Egress, "the credential stays in ebb", &narrower)
	if len(wider) > 0 {
		c.Direction, c.Loud = Wider, true
	}
	if c.Says = strings.Join(append(wider, narrower...), ", "); c.Says == "" {
		c.Says = "only its explanation changes"
	}
	c.Says = strings.ToUpper(c.Says[:1]) + c.Says[1:] + "."
}
