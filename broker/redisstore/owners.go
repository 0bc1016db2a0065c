package redisstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/redis/go-redis/v9"

	"ebb/broker"
)

// ownerTag names the owner of a task at its runner in keys: what people call
// themselves may hold braces, which decide where a Cluster keeps a key.
func ownerTag(t broker.Task) string {
	if t.Runner == "" && t.Owner == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(t.Runner + "\x00" + t.Owner))
	return hex.EncodeToString(sum[:16])
}

// owner is where the leases of an owner are counted.
type owner struct{ held, counts string }

func (s *Store) ownerBy(tag string) *owner {
	return &owner{held: s.keys.held(tag), counts: s.keys.counts(tag)}
}

// ownerOf is the owner of a task, nil when the task is not known. Whoever mints has
// read the task, so that it is asked for seldom.
func (s *Store) ownerOf(ctx context.Context, task string) (*owner, error) {
	if o, ok := s.owners.Get(task); ok {
		return o, nil
	}
	cmd := redis.NewStringCmd(ctx, "hget", s.keys.task(task), "o")
	if err := s.run(ctx, cmd); err != nil || cmd.Val() == "" {
		return nil, err
	}
	o := s.ownerBy(cmd.Val())
	s.owners.Add(task, o)
	return o, nil
}

// drop gives back the place of a lease, or with "" all of a task.
func (s *Store) drop(ctx context.Context, o *owner, task, lease string) redis.Cmder {
	return redis.NewIntCmd(ctx, dropHeldScript.args(2, o.held, o.counts, task, lease)...)
}
