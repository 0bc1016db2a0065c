package requests

import (
	"slices"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/web/console/internal/session"
	"github.com/ebb-broker/ebb/web/console/internal/shell"
)

// The approver is told whether the credential leaves ebb, with a warning if it
// need not.
//
//ebb:invariant I7 Approvers and the policy are informed when a credential is issued to the sandbox although it could have stayed in ebb
func TestLinesOfDelivery(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		facts broker.FactSheet
		label string
		warn  bool
	}{
		"stays":                 {broker.FactSheet{Delivery: "egress"}, "stays in ebb", false},
		"leaves":                {broker.FactSheet{Delivery: "token"}, "the sandbox gets the credential itself", false},
		"leaves, though":        {broker.FactSheet{Delivery: "token", CouldStay: true}, "although ebb could keep it", true},
		"of an older version":   {broker.FactSheet{}, "", false},
		"no word that it knows": {broker.FactSheet{Delivery: "carrier"}, "", false},
	} {
		ls := linesOf(shell.View{Who: &session.Visit{}}, broker.Request{}, c.facts)
		i := slices.IndexFunc(ls, func(l shell.Line) bool { return l.Label == "Delivery" })
		if (i >= 0) != (c.label != "") || i >= 0 && (!strings.Contains(ls[i].Text, c.label) || ls[i].Warn != c.warn) {
			t.Errorf("%s: %+v", name, ls)
		}
	}
}
