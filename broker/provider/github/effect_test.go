package github_test

import (
	"errors"
	"testing"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

func TestDescribe(t *testing.T) {
	d := newRig(t).Driver
	for text, want := range map[string][2]provider.Answer{
		"github:acme/web/contents:read":             {provider.No, provider.Yes},
		"github:acme/web/contents:write":            {provider.Yes, provider.Yes},
		"github:acme/web/workflows:write":           {provider.Yes, provider.No},
		"github:acme/web/issues:write":              {provider.Yes, provider.No},
		"github:acme/web/refs/heads/a/**:update":    {provider.Yes, provider.Yes},
		"github:acme/web/refs/tags/*:create":        {provider.Yes, provider.Yes},
		"github:acme/web/refs/heads/main:force":     {provider.Yes, provider.No},
		"github:acme/web/refs/heads/main:delete":    {provider.Yes, provider.No},
		"github:acme/web/refs/heads/main:*":         {provider.Yes, provider.No},
		"github:acme/web/repository_projects:write": {provider.Yes, provider.Unknown},
	} {
		e, err := d.Describe(scopes.MustParseSet(text).Scopes()[0])
		if err != nil || e.Writes != want[0] || e.Reversible != want[1] {
			t.Errorf("%s: %+v, %v", text, e, err)
		}
	}
	for _, text := range []string{"github:acme/web/novelty:write", "github:acme/web/contents:admin", "github:acme/web:read", "github:nobody/web/contents:read", "github:acme/web/contents:*"} {
		if e, err := d.Describe(scopes.MustParseSet(text).Scopes()[0]); !errors.Is(err, provider.ErrUnsupported) {
			t.Errorf("%s: %+v, %v", text, e, err)
		}
	}
}
