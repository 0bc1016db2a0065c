package redisstore_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/redisstore"
)

// Each master has a loss marker, and its loss on any one of them is noticed.
//
//ebb:invariant I10 Each loss of the live store changes the DPoP nonce at every replica
func TestClusterLoss(t *testing.T) {
	config := kinds(t)["cluster"](t)
	config.Prefix = "test-" + rand.Text()
	a, b := open(t, config), connect(t, config)
	u := redis.NewClusterClient(&redis.ClusterOptions{Addrs: config.Addrs})
	defer func() { _ = u.Close() }()
	var masters []*redis.Client
	var mu sync.Mutex
	must(t, u.ForEachMaster(t.Context(), func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		masters = append(masters, c)
		return nil
	}))
	name := ""
	for _, master := range masters {
		must(t, a.Mark(t.Context()))
		check(t, "a", a, nil)
		check(t, "b", b, nil)
		name = renamed(t, a, name)
		memory(t, "after the refill", name, b)
		wipe(t, master, config)
		check(t, "a after the loss of "+master.Options().Addr, a, broker.ErrLost)
		check(t, "b after the loss of "+master.Options().Addr, b, broker.ErrLost)
		memory(t, "after the loss of "+master.Options().Addr, "", a, b)
	}
	must(t, a.Mark(t.Context()))
	name = renamed(t, a, name)

	// A close raises the loss marker of the task's own master: only the closing process
	// notices when its raises there are rolled back to before the close.
	for i := range 3 * len(masters) {
		check(t, "a", a, nil)
		id := fmt.Sprintf("tsk_%d", i)
		master, err := u.MasterForKey(t.Context(), config.Prefix+":{"+id+"}:t")
		must(t, err)
		before := markersOf(t, master, config)
		openTask(t, a, id)
		_, _, err = closeTask(t.Context(), a, id)
		must(t, err)
		restore(t, master, before)
		check(t, "a after its close was rolled back", a, broker.ErrLost)
		check(t, "b, which lost nothing", b, nil)
		must(t, a.Mark(t.Context()))
		check(t, "b after a marked", b, nil)
		name = renamed(t, a, name)
		memory(t, "after a marked", name, b)
	}
}

// markersOf reads every loss marker on master.
func markersOf(t *testing.T, master *redis.Client, c redisstore.Config) map[string]map[string]string {
	t.Helper()
	out := map[string]map[string]string{}
	keys := master.Scan(t.Context(), 0, c.Prefix+":marker:*", 1000).Iterator()
	for keys.Next(t.Context()) {
		out[keys.Val()] = master.HGetAll(t.Context(), keys.Val()).Val()
	}
	if len(out) == 0 {
		t.Fatal("no loss marker")
	}
	return out
}

func restore(t *testing.T, master *redis.Client, markerCount map[string]map[string]string) {
	t.Helper()
	for key, fields := range markerCount {
		must(t, master.Del(t.Context(), key).Err())
		must(t, master.HSet(t.Context(), key, fields).Err())
	}
}

func wipe(t *testing.T, master *redis.Client, c redisstore.Config) {
	t.Helper()
	keys := master.Scan(t.Context(), 0, c.Prefix+":*", 1000).Iterator()
	for keys.Next(t.Context()) {
		must(t, master.Unlink(t.Context(), keys.Val()).Err())
	}
}
