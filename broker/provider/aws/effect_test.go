package aws

import (
	"errors"
	"testing"

	"ebb/broker/provider"
	"ebb/scopes"
)

func TestDescribe(t *testing.T) {
	d := driver(t, withStatements(config()))
	for text, want := range map[string][2]provider.Answer{
		"s3:data/in/a.csv:read":   {provider.No, provider.Yes},
		"s3:data/in/a.csv:write":  {provider.Yes, provider.Unknown},
		"s3:data/in/a.csv:delete": {provider.Yes, provider.Unknown},
		"s3:tables/orders:query":  {provider.Unknown, provider.Unknown},
		"s3:params/app/x:param":   {provider.Unknown, provider.Unknown},
	} {
		e, err := d.Describe(scopes.MustParseSet(text).Scopes()[0])
		if err != nil || e.Writes != want[0] || e.Reversible != want[1] {
			t.Errorf("%s: %+v, %v", text, e, err)
		}
	}
	for _, text := range []string{"s3:data/a:frob", "s3:data/*:read", "s3:tables/orders:read-all", "s3:data/a:*"} {
		if e, err := d.Describe(scopes.MustParseSet(text).Scopes()[0]); !errors.Is(err, provider.ErrUnsupported) {
			t.Errorf("%s: %+v, %v", text, e, err)
		}
	}
}
