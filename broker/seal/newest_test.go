package seal

import (
	"testing"
	"time"
)

// A key whose id names a future time never becomes the sealing key; one from a clock that is
// slightly fast does.
func TestNothingFromTheFutureSeals(t *testing.T) {
	t.Parallel()
	now := time.Unix(0x60000000, 0)
	keys := []Key{{ID: "5fffff0000000000"}, {ID: "6000001000000000"}, {ID: "ffffffff00000000"}, {ID: "zz"}}
	if got := newestOf(keys, now).ID; got != "6000001000000000" {
		t.Errorf("%q seals", got)
	}
}
