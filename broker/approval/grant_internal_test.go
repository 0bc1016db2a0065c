package approval

import (
	"encoding/json"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
	"github.com/ebb-broker/ebb/scopes/amount"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// A lease under an approval may spend what the approvers saw, and what the policy allows now; it is
// limited to the content that they saw.
//
//ebb:invariant I7 A credential may spend no more than the approvers were shown, also if the policy has changed
func TestUnderGrantLimits(t *testing.T) {
	t.Parallel()
	one := &content.Facts{Kind: "json", Body: "1"}
	for _, tt := range []struct {
		shown, now, want string
	}{
		{"EUR 5", "EUR 9", "EUR 5"}, {"EUR 9", "EUR 5", "EUR 5"}, {"EUR 5", "", "EUR 5"}, {"", "EUR 5", "EUR 5"}, {"", "", ""}, {"EUR 5", "USD 5", "nothing"}, {"nothing", "", "nothing"},
	} {
		shown, err1 := amount.ParseLimits(tt.shown)
		now, err2 := amount.ParseLimits(tt.now)
		facts, err3 := json.Marshal(broker.FactSheet{MaxAmount: shown, Content: one})
		if err1 != nil || err2 != nil || err3 != nil {
			t.Fatal(err1, err2, err3)
		}
		d := (&Approvals{}).underGrant(broker.Request{Facts: facts}, kernel.MintRequest{}, policy.Decision{MaxAmount: now})
		if d.MaxAmount.String() != tt.want || broker.ContentSum(d.Content) != one.Sum() {
			t.Errorf("%q shown, %q now: %q, %+v; want %q", tt.shown, tt.now, d.MaxAmount, d.Content, tt.want)
		}
	}
	d := (&Approvals{}).underGrant(broker.Request{Facts: broker.Facts("x")}, kernel.MintRequest{}, policy.Decision{})
	if d.MaxAmount.String() != "nothing" || d.Content == nil {
		t.Errorf("unreadable facts lead to %+v", d)
	}
}
