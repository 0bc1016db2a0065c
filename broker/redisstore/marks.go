package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/ebb-broker/ebb/broker"
)

var _ broker.MarkStore = (*lossGuard)(nil)

// Marks implements broker.MarkStore. Redis keeps the marks with the live state, so that
// restoring a database and a key directory together is noticed, too.
func (lg *lossGuard) Marks(ctx context.Context) (map[string][]byte, error) {
	cmd := redis.NewMapStringStringCmd(ctx, "hgetall", lg.keys.marks())
	if err := lg.cmds.run(ctx, cmd); err != nil {
		return nil, err
	}
	out := make(map[string][]byte, len(cmd.Val()))
	for writer, mark := range cmd.Val() {
		out[writer] = []byte(mark)
	}
	return out, nil
}

// PutMark implements broker.MarkStore.
func (lg *lossGuard) PutMark(ctx context.Context, writer string, mark []byte) error {
	return lg.cmds.run(ctx, redis.NewIntCmd(ctx, "hset", lg.keys.marks(), writer, mark))
}

// DropMark implements broker.MarkStore.
func (lg *lossGuard) DropMark(ctx context.Context, writer string) error {
	return lg.cmds.run(ctx, redis.NewIntCmd(ctx, "hdel", lg.keys.marks(), writer))
}
