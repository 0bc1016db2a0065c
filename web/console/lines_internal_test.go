package console

import (
	"slices"
	"testing"

	"ebb/broker"
)

// Who decides is told whether the credential leaves ebb, loudly where it need not.
func TestLinesOfDelivery(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		facts broker.FactSheet
		label string
		warn  bool
	}{
		"stays":                 {broker.FactSheet{Delivery: "egress"}, "Stays", false},
		"leaves":                {broker.FactSheet{Delivery: "token"}, "Leaves", false},
		"leaves, though":        {broker.FactSheet{Delivery: "token", CouldStay: true}, "Leaves", true},
		"of an older version":   {broker.FactSheet{}, "", false},
		"no word that it knows": {broker.FactSheet{Delivery: "carrier"}, "", false},
	} {
		ls := linesOf(view{Who: &visit{}}, broker.Request{}, c.facts)
		i := slices.IndexFunc(ls, func(l line) bool { return l.Label == "Stays" || l.Label == "Leaves" })
		if (i >= 0) != (c.label != "") || i >= 0 && (ls[i].Label != c.label || ls[i].Warn != c.warn) {
			t.Errorf("%s: %+v", name, ls)
		}
	}
}
