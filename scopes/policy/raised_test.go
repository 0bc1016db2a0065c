package policy_test

import (
	"reflect"
	"testing"

	"github.com/ebb-broker/ebb/scopes/policy"
)

func TestRaised(t *testing.T) {
	one := policy.Approval{Groups: []string{"a", "b"}, Quorum: 1, Rules: []policy.AskRule{{ID: "x", Groups: []string{"a"}, Quorum: 1}, {ID: "y", Groups: []string{"b"}, Quorum: 1}}}
	both := policy.Approver{Name: "ann", Groups: []string{"a", "b"}}
	up := one.Raised("ebb:high-risk", 2)
	if !one.Satisfied([]policy.Approver{both}) || up.Satisfied([]policy.Approver{both, both}) || up.Quorum != 2 || len(one.Rules) != 2 || len(up.Rules) != 3 {
		t.Fatalf("%+v", up)
	}
	if !up.Satisfied([]policy.Approver{both, {Name: "bob", Groups: []string{"b"}}}) {
		t.Error("two people of the groups are not enough")
	}
	// Members of two groups cannot approve for the other group that policy requires.
	if up.Satisfied([]policy.Approver{{Name: "ann", Groups: []string{"a"}}, {Name: "bob", Groups: []string{"a"}}}) || up.Satisfied([]policy.Approver{both, {Name: "eve", Groups: []string{"c"}}}) {
		t.Error("people whom policy did not ask count")
	}
	for n, a := range map[int]policy.Approval{0: one, 1: one, 2: up} {
		if got := a.Raised("ebb:high-risk", n); !reflect.DeepEqual(got, a) {
			t.Errorf("%d changes %+v to %+v", n, a, got)
		}
	}
}
