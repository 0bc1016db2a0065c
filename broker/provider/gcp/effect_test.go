package gcp_test

import (
	"errors"
	"testing"
	"time"

	"ebb/broker/provider"
	"ebb/scopes"
)

// The role says what a bucket's action does, not the operator's word for it.
func TestDescribeGoesByRoles(t *testing.T) {
	d := driver(t, configFor(t, newGoogle(t)), time.Now)
	for text, want := range map[string][2]provider.Answer{
		"gcp:lake/**:read":   {provider.No, provider.Yes},
		"gcp:lake/**:browse": {provider.No, provider.Yes},
		"gcp:lake/a:write":   {provider.Yes, provider.Yes},
		"gcp:ocean/a:read":   {provider.Yes, provider.Unknown},
		"gcp:dwh/eu:query":   {provider.Unknown, provider.Unknown},
	} {
		e, err := d.Describe(scopes.MustParseSet(text).Scopes()[0])
		if err != nil || e.Writes != want[0] || e.Reversible != want[1] {
			t.Errorf("%s: %+v, %v", text, e, err)
		}
	}
	for _, text := range []string{"gcp:lake/a:drop", "gcp:river/a:read", "gcp:lake/a:*"} {
		if e, err := d.Describe(scopes.MustParseSet(text).Scopes()[0]); !errors.Is(err, provider.ErrUnsupported) {
			t.Errorf("%s: %+v, %v", text, e, err)
		}
	}
}
