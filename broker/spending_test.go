package broker_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress/content"
	"github.com/ebb-broker/ebb/scopes/amount"
)

// A request under a lease with limits adds to sums, or the limits exclude it.
func TestSpends(t *testing.T) {
	t.Parallel()
	pays := func(amounts ...string) *content.Facts {
		f := &content.Facts{Kind: "json"}
		for _, a := range amounts {
			f.Operations = append(f.Operations, content.Operation{Action: "pay", Object: "payments", Amount: a})
		}
		return f
	}
	only := pays("EUR 7")
	for _, tt := range []struct {
		content, most string
		facts         *content.Facts
		method, want  string
	}{
		{"", "", pays("EUR 9"), "POST", ""}, {"", "", nil, "POST", ""},
		{"", "EUR 5", pays("EUR 2", "EUR 1.5"), "POST", "shop EUR 3.5 of 5"}, {"", "EUR 5", pays("EUR 9"), "POST", "shop EUR 9 of 5"}, {"", "EUR 5", pays("EUR 0"), "POST", ""},
		{"", "EUR 5", pays("USD 1"), "POST", "refused"}, {"", "nothing", pays("EUR 1"), "POST", "refused"}, {"", "EUR 5", pays("EUR 1", "USD 1"), "POST", "refused"}, {"", "EUR 5", pays("EUR -1"), "POST", "refused"},
		{"", "EUR 5", nil, "POST", "refused"}, {"", "EUR 5", pays(""), "POST", "refused"}, {"", "EUR 5", nil, "DELETE", "refused"}, {"", "nothing", nil, "GET", ""}, {"", "EUR 5", nil, "HEAD", ""},
		{"", "EUR 5", pays("EUR 9"), "GET", "shop EUR 9 of 5"}, {"", "EUR 5", &content.Facts{Kind: "gitpush"}, "POST", ""},
		{only.Sum(), "", only, "POST", "req_1/SUM uses 1 of 1"}, {only.Sum(), "EUR 9", only, "POST", "req_1/SUM uses 1 of 1, shop EUR 7 of 9"}, {only.Sum(), "", pays("EUR 8"), "POST", "refused"}, {only.Sum(), "", pays("EUR 8"), "GET", "refused"},
		{only.Sum(), "", nil, "POST", "refused"}, {only.Sum(), "", nil, "GET", ""}, {only.Sum(), "", &content.Facts{Kind: "gitpush"}, "POST", ""}, {only.Sum(), "", nil, "", ""}, {only.Sum(), "", nil, "CANCEL", ""},
	} {
		most, err := amount.ParseLimits(tt.most)
		if err != nil {
			t.Fatal(err)
		}
		use := broker.Usable{Provider: "shop", Lease: broker.Lease{ID: "lse_1", RequestID: "req_1", Content: tt.content, MaxAmount: most}}
		all, err := use.Spends("tsk_1", tt.facts, tt.method)
		got := ""
		for i, s := range all {
			if i > 0 {
				got += ", "
			}
			got += fmt.Sprintf("%s %s of %s", strings.Replace(s.Holder, only.Sum(), "SUM", 1), s.Amount, strings.TrimPrefix(amount.Amount{Value: s.Limit}.String(), " "))
		}
		if err != nil {
			got = "refused"
		}
		if got != tt.want {
			t.Errorf("%q, %q: %s %+v adds %q; want %q", tt.content, tt.most, tt.method, tt.facts, got, tt.want)
		}
	}
}
