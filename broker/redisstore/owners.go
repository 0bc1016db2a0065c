package redisstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/redis/go-redis/v9"

	"github.com/ebb-broker/ebb/broker"
)

// ownerTag returns a hash that stands for the owner of a task and its runner in keys.
// Their names may contain braces, which decide where a Cluster stores a key.
func ownerTag(t broker.Task) string {
	if t.Runner == "" && t.Owner == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(t.Runner + "\x00" + t.Owner))
	return hex.EncodeToString(sum[:16])
}

// owner holds the keys under which the leases of an owner are counted.
type owner struct{ held, counts string }

func (ga *gateway) ownerBy(tag string) *owner {
	return &owner{held: ga.keys.held(tag), counts: ga.keys.counts(tag)}
}

// ownerOf returns the owner of a task, or nil for an unknown task. A minting caller has
// read the task before, so Redis is rarely asked.
func (ga *gateway) ownerOf(ctx context.Context, task string) (*owner, error) {
	if o, ok := ga.owners.Get(task); ok {
		return o, nil
	}
	cmd := redis.NewStringCmd(ctx, "hget", ga.keys.task(task), "o")
	if err := ga.cmds.run(ctx, cmd); err != nil || cmd.Val() == "" {
		return nil, err
	}
	o := ga.ownerBy(cmd.Val())
	ga.owners.Add(task, o)
	return o, nil
}

// drop frees the place of a lease, or with the lease "" all places of a task.
func (ga *gateway) drop(ctx context.Context, o *owner, task, lease string) redis.Cmder {
	return redis.NewIntCmd(ctx, dropHeldScript.args(2, o.held, o.counts, task, lease)...)
}
