package provider_test

import (
	"testing"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// TestByAction: only the action names that ebb's own policy treats as reading have the effect
// "does not write". For every other action, and for a pattern, the effect is unknown.
func TestByAction(t *testing.T) {
	for text, writes := range map[string]provider.Answer{
		"x:a:read": provider.No, "x:a:list": provider.No, "x:a:get": provider.No, "x:a/**:read": provider.No,
		"x:a:*": provider.Unknown, "x:a:reads": provider.Unknown, "x:a:readwrite": provider.Unknown, "x:a:write": provider.Unknown, "x:read:drop": provider.Unknown,
	} {
		s := scopes.MustParseSet(text).Scopes()[0]
		if e := provider.ByAction(s); e.Writes != writes || (e.Reversible == provider.Yes) != (writes == provider.No) {
			t.Errorf("%s: %+v", text, e)
		}
	}
}
