package provider_test

import (
	"fmt"
	"testing"

	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes/amount"
)

// A policy sees sets of actions and objects, and the sum. Amounts without a sum are the largest amount.
func TestPolicyContent(t *testing.T) {
	t.Parallel()
	pays := func(amounts ...string) *content.Facts {
		f := &content.Facts{Kind: "json"}
		for i, a := range amounts {
			f.Operations = append(f.Operations, content.Operation{Action: "pay", Object: fmt.Sprint("p", i%2), Amount: a})
		}
		return f
	}
	for want, f := range map[string]*content.Facts{
		"{ [] []  0}": nil, "{json [pay] [p0] EUR 5}": pays("EUR 5"), "{json [pay] [p0 p1] EUR 8.5}": pays("EUR 5", "", "EUR 3.5"), "{json [pay] [p0]  0}": pays(""),
		"{json [pay] [p0 p1] " + amount.Amount{Unit: "mixed", Value: amount.Max}.String() + "}": pays("EUR 1", "USD 1"),
	} {
		if got := fmt.Sprint(provider.PolicyContent(f)); got != want {
			t.Errorf("%+v: %s; want %s", f, got, want)
		}
	}
	if got := provider.PolicyContent(pays("EUR 99999999999999", "EUR 1")); got.Amount.Value != amount.Max || got.Amount.Unit != "mixed" {
		t.Errorf("a sum that is too large: %+v", got)
	}
}
