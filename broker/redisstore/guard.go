package redisstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"ebb/broker"
)

// serversEvery is how often Check looks at the servers' configuration.
const serversEvery = 2 * time.Second

// Check implements broker.Guard: one round trip to each master. It notices
//
//   - a flush, and a restart without its data: the canaries are gone;
//   - a server that may evict, or did so for a moment, until the next Mark;
//   - a failover to a replica that lacks a close or an end this process made, or
//     anything else it wrote before its last Check (each raises a counter): the
//     counter is behind.
//
// A flush is noticed by every call that misses something, too, in the same round trip. Nothing
// notices the loss, in a failover, of a lease or claim written after the last raise:
// a lost lease is unknown and so not valid; a lost claim could be made again for
// as long as Check's caller lets pass between two calls. In a Cluster a master
// with fewer than 512 slots in a row may have no canary and is then not watched.
// Every process sees only the loss of its own writes, so every process must call
// Check, about each second; the first that sees a loss and refills cures it for
// all with Mark, and Losses tells the others.
func (s *Store) Check(ctx context.Context) error {
	if err := s.checkServersSometimes(ctx); err != nil {
		return err
	}
	birds, err := s.flock(ctx)
	if err != nil {
		return err
	}
	lost, err := s.lookAt(ctx, birds)
	if err == nil && lost != nil && len(birds) < len(s.guard.birds) {
		_, err = s.lookAt(ctx, s.guard.birds) // from here on Mark counts losses anew
	}
	if err != nil {
		return err
	}
	return lost
}

// lookAt raises birds. lost is what is wrong with them.
func (s *Store) lookAt(ctx context.Context, birds []*canary) (lost, err error) {
	looks := make([]sighting, len(birds))
	cmds := make([]redis.Cmder, len(birds))
	for i, b := range birds {
		looks[i] = s.look(ctx, b)
		cmds[i] = looks[i].cmd
	}
	err = s.run(ctx, cmds...)
	for _, l := range looks {
		s.observe(l)
	}
	if err != nil {
		return nil, err
	}
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	for _, b := range birds {
		switch {
		case b.epoch == 0:
			return fmt.Errorf("redis: the ledger was never marked complete: %w", broker.ErrLost), nil
		case b.lost:
			return fmt.Errorf("redis: %w", broker.ErrLost), nil
		}
	}
	return nil, nil
}

func (s *Store) checkServersSometimes(ctx context.Context) error {
	now := s.now()
	s.guard.mu.Lock()
	since := now - s.guard.servers
	s.guard.mu.Unlock()
	if since >= 0 && since < serversEvery.Milliseconds() {
		return ctx.Err()
	}
	err := s.checkServers(ctx)
	if errors.Is(err, broker.ErrEvicting) {
		s.guard.evicting.Store(true)
		s.guard.distrust()
	}
	if err != nil {
		return err
	}
	s.guard.evicting.Store(false)
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	s.guard.servers = now
	return nil
}

// Losses implements broker.Guard. Check learns of them, and every end that this
// process makes.
func (s *Store) Losses() int64 { return s.guard.losses.Load() }

// Mark implements broker.Guard. It is ErrLost, and marks nothing more, when data
// was lost again since this process last looked: then what was refilled is not
// complete.
func (s *Store) Mark(ctx context.Context) error {
	looks := make([]sighting, len(s.guard.birds))
	cmds := make([]redis.Cmder, len(looks))
	s.guard.mu.Lock()
	least, lost := int64(0), 0
	for _, b := range s.guard.birds {
		least = max(least, b.epoch+1)
		if b.lost {
			lost = 1
		}
	}
	for i, b := range s.guard.birds {
		looks[i] = sighting{b, b.epoch, b.count + 1, redis.NewSliceCmd(ctx, markScript.args(1, s.keys.canary(b.tag), s.guard.field, b.count, least, lost)...)}
		cmds[i] = looks[i].cmd
	}
	s.guard.mu.Unlock()
	err := s.run(ctx, cmds...)
	for _, l := range looks {
		s.observe(l)
		if err == nil && reply(l.cmd.Val()).num(0) == 0 {
			err = fmt.Errorf("redis: lost again while it was refilled: %w", broker.ErrLost)
		}
	}
	return err
}
