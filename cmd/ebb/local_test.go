package main

import (
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/cmd/internal/config"
)

// High risk never requires more approvers than exist.
func TestHighRiskQuorumIsWithinReach(t *testing.T) {
	approver := broker.PrincipalConfig{Principal: broker.Principal{ID: "a", Roles: []broker.Role{broker.RoleApprover}}}
	matched := broker.PrincipalConfig{Principal: approver.Principal, Match: &broker.Match{}}
	runner := broker.PrincipalConfig{Principal: broker.Principal{ID: "r", Roles: []broker.Role{broker.RoleRunner, broker.RoleOperator}}}
	both := broker.PrincipalConfig{Principal: broker.Principal{ID: "b", Roles: []broker.Role{broker.RoleRunner, broker.RoleApprover}}}
	local, err := localPrincipals(config.Config{DataDir: t.TempDir()}, defaultURL)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		people []broker.PrincipalConfig
		want   int
	}{
		"nobody":                     {nil, 1},
		"the two of a local machine": {local, 1},
		"one approver":               {[]broker.PrincipalConfig{runner, approver}, 1},
		"two":                        {[]broker.PrincipalConfig{approver, runner, approver}, 2},
		"one of two is the runner":   {[]broker.PrincipalConfig{approver, both}, 1},
		"one of three is the runner": {[]broker.PrincipalConfig{approver, both, approver}, 2},
		"three":                      {[]broker.PrincipalConfig{approver, approver, approver}, 2},
		"all of an issuer":           {[]broker.PrincipalConfig{matched}, 2},
	} {
		if got := highRiskQuorum(c.people, true); got != 2 {
			t.Errorf("%s, and those whom a provider knows: %d", name, got)
		}
		if got := highRiskQuorum(c.people, false); got != c.want {
			t.Errorf("%s: %d", name, got)
		}
	}
}
