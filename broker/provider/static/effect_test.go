package static_test

import (
	"errors"
	"testing"

	"ebb/broker/exact"
	"ebb/broker/provider"
	"ebb/scopes"
)

// The methods say what is done with a secret, not the operator's word for it.
func TestDescribeGoesByMethods(t *testing.T) {
	c := config()
	c.Grants["charges"]["read"] = exact.Rule{Methods: []string{"GET", "DELETE"}, Paths: []string{"/v1/charges/*"}}
	d := driver(t, c, vaultOf(t, "stripe", "sk"))
	for text, want := range map[string][2]provider.Answer{
		"stripe:charges:read":  {provider.Yes, provider.No},
		"stripe:charges:write": {provider.Yes, provider.Unknown},
		"stripe:all:use":       {provider.No, provider.Yes},
	} {
		e, err := d.Describe(scopes.MustParseSet(text).Scopes()[0])
		if err != nil || e.Writes != want[0] || e.Reversible != want[1] {
			t.Errorf("%s: %+v, %v", text, e, err)
		}
	}
	for _, text := range []string{"stripe:charges:drop", "stripe:other:read", "stripe:charges:*", "stripe:**:read"} {
		if e, err := d.Describe(scopes.MustParseSet(text).Scopes()[0]); !errors.Is(err, provider.ErrUnsupported) {
			t.Errorf("%s: %+v, %v", text, e, err)
		}
	}
}
