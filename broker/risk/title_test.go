package risk_test

import (
	"testing"

	"github.com/ebb-broker/ebb/broker/risk"
	"github.com/ebb-broker/ebb/scopes"
)

func TestTitleOf(t *testing.T) {
	t.Parallel()
	for scope, want := range map[string]string{
		"code:acme/web:write":                        "Write to acme/web at code",
		"code:acme/web:*":                            "Do anything with acme/web at code",
		"code:acme/web:deploy":                       "Deploy acme/web at code",
		"code:acme/web:close-issues":                 "Close issues in acme/web at code",
		"code:acme/web:close_issues":                 "Close issues in acme/web at code",
		"code:acme/web:write code:acme/web:read":     "Write to and read acme/web at code",
		"code:acme/web:write code:acme/search:write": "Write to acme/search (+1) at code",
		"code:**:write":                              "Write to everything at code",
		"code:acme/**:write":                         "Write to everything under acme at code",
		"code:acme/*:write":                          "Write to everything in acme at code",
		"code:*:write":                               "Write to everything at code",
		"code:*/**:write":                            "Write to */** at code",
		"code:aaa/x:read code:prod/**:delete":        "Delete (+1) everything under prod (+1) at code",
		"code:aaa/x:write code:zzz/**:write":         "Write to everything under zzz (+1) at code",
		"code:aaa/**:read code:prod/x:delete":        "Delete (+1) prod/x (+1) at code",
		"code:aaa/x:write code:prod/x:*":             "Do anything with prod/x (+1) at code",
		"code:acme/*/docs:write":                     "Write to acme/*/docs at code",
	} {
		if got := risk.TitleOf(scopes.MustParseSet(scope), "code").String(); got != want {
			t.Errorf("%s: %q, want %q", scope, got, want)
		}
	}
}
