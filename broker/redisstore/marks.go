package redisstore

import (
	"context"

	"github.com/redis/go-redis/v9"

	"ebb/broker"
)

var _ broker.MarkStore = (*Store)(nil)

// Marks implements broker.MarkStore. Redis keeps marks beside the live state, so that a database and a key
// directory that were restored together are noticed, too.
func (s *Store) Marks(ctx context.Context) (map[string][]byte, error) {
	cmd := redis.NewMapStringStringCmd(ctx, "hgetall", s.keys.marks())
	if err := s.run(ctx, cmd); err != nil {
		return nil, err
	}
	out := make(map[string][]byte, len(cmd.Val()))
	for writer, mark := range cmd.Val() {
		out[writer] = []byte(mark)
	}
	return out, nil
}

// PutMark implements broker.MarkStore.
func (s *Store) PutMark(ctx context.Context, writer string, mark []byte) error {
	return s.run(ctx, redis.NewIntCmd(ctx, "hset", s.keys.marks(), writer, mark))
}

// DropMark implements broker.MarkStore.
func (s *Store) DropMark(ctx context.Context, writer string) error {
	return s.run(ctx, redis.NewIntCmd(ctx, "hdel", s.keys.marks(), writer))
}
