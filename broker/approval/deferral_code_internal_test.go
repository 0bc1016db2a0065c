package approval

import (
	"strings"
	"testing"

	"github.com/ebb-broker/ebb/broker/provider"
)

func FuzzDeferralCode(f *testing.F) {
	b := &Approvals{codeKey: []byte(strings.Repeat("k", 32))}
	good := b.codeOf("req_"+strings.Repeat("0a", 16), provider.Binding{JKT: "k"}).Reveal()
	f.Add(good)
	f.Add("ebb_dfr_")
	f.Add(good + "=")
	f.Fuzz(func(t *testing.T, code string) {
		if id, key, is := b.RequestOfCode(code); is && b.codeFor(id, key).Reveal() != code {
			t.Fatalf("%q was taken for the code of %s", code, id)
		}
	})
}
