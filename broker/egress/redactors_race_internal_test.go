package egress

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/egress/redact"
)

func TestRedactorsRace(t *testing.T) {
	t.Parallel()
	all := newRedactors(redact.New)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 50 {
				secret := fmt.Sprintf("secret-%08d", j%7)
				x, err := all.take(t.Context(), broker.Caller{TaskID: fmt.Sprint("tsk_", i%3)}, fmt.Sprint("lse_", j%5), []string{secret})
				if err != nil {
					t.Error(err)
					return
				}
				if text, n := x.Text("a " + secret); n != 1 {
					t.Errorf("%q", text)
				}
				if j%9 == 0 {
					all.drop(fmt.Sprint("lse_", j%5))
				}
				all.give(x, time.Duration(j%4)*time.Microsecond)
			}
		})
	}
	wg.Wait()
	all.dropAll()
	all.nothing(t, "in the end")
}
