package redistest

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Forget removes every key under a prefix, in a Cluster on all masters, and returns the
// number of removed keys.
func Forget(ctx context.Context, at redis.UniversalOptions, prefix string) (removed int64, err error) {
	u := redis.NewUniversalClient(&at)
	defer func() { _ = u.Close() }()
	var n atomic.Int64
	node := func(ctx context.Context, c *redis.Client) error {
		keys := c.Scan(ctx, 0, prefix+":*", 1000).Iterator()
		for keys.Next(ctx) {
			gone, err := c.Unlink(ctx, keys.Val()).Result()
			if err != nil {
				return err
			}
			n.Add(gone)
		}
		return keys.Err()
	}
	switch u := u.(type) {
	case *redis.ClusterClient:
		err = u.ForEachMaster(ctx, node)
	case *redis.Client:
		err = node(ctx, u)
	}
	return n.Load(), err
}
