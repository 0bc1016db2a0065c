package egress

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/stricturl"
)

// The pools of a task are limited. Unused pools are closed first, and those that stay unused are
// closed, too.
//
//ebb:invariant I12 The number of upstream connection pools of a task is limited
func TestPoolsAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := &Proxy{cfg: Config{Dialer: &Dialer{}, Now: func() time.Time { return now }}}
	use := func(task string, n int) (*pool, error) {
		return p.pool(broker.Caller{TaskID: task + "/below", Above: []string{task}}, provider.Target{LeaseID: "lease of " + task, ExpiresAt: now.Add(time.Hour)}, stricturl.Host{Name: fmt.Sprintf("h%d.example.com", n), Port: 443}, nil)
	}
	var busy []*pool
	for i := range taskPools {
		pl, err := use("one", i)
		if err != nil {
			t.Fatal(i, err)
		}
		busy = append(busy, pl)
	}
	var d *Denial
	if _, err := use("one", taskPools); !errors.As(err, &d) || d.Reason != TooOften {
		t.Errorf("beyond: %v", err)
	}
	if again, err := use("one", 0); err != nil || again != busy[0] {
		t.Errorf("one that it has: %v", err)
	}
	p.pools.leave(busy[0], now)
	if _, err := use("other", 0); err != nil {
		t.Errorf("another task: %v", err)
	}
	now = now.Add(time.Second)
	p.pools.leave(busy[9], now)
	now = now.Add(time.Second)
	p.pools.leave(busy[7], now)
	if _, err := use("one", taskPools); err != nil || !busy[9].over || busy[7].over || busy[0].over {
		t.Errorf("in place of the one that was not used for longest: %v", err)
	}
	now = now.Add(idlePool)
	if _, err := use("third", 0); err != nil || !busy[7].over || busy[0].over {
		t.Errorf("an unused pool is kept, or a used one is not: %v", err)
	}
	p.pools.drop("one")
	p.pools.drop("other/below")
	p.pools.drop("lease of third")
	if p.pools.count.n != 0 || len(p.pools.of) != 0 || len(p.pools.by) != 0 || len(p.pools.count.of) != 0 {
		t.Errorf("%d pools are counted, %d are there", p.pools.count.n, len(p.pools.of))
	}
}
