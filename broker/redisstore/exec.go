package redisstore

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"ebb/broker"
)

//go:embed scripts/*.lua
var files embed.FS

var (
	putTaskScript  = newScript("common", "put_task")
	setStateScript = newScript("common", "set_state")
	touchScript    = newScript("common", "touch")
	putLeaseScript = newScript("common", "held", "put_lease")
	endLeaseScript = newScript("common", "end_lease")
	takeHeldScript = newScript("common", "held", "take_held")
	dropHeldScript = newScript("common", "held", "drop_held")
	takeDueScript  = newScript("take_due")
	fixDueScript   = newScript("fix_due")
	publishScript  = newScript("publish")
	admitScript    = newScript("admit")
	takeScript     = newScript("take")
	paceScript     = newScript("pace")
	canaryScript   = newScript("canary")
	markScript     = newScript("mark")
)

// script is the text of a Lua script and the name the server knows it by.
type script struct {
	text string
	sha  []byte // hex SHA-1
}

// newScript joins embedded files.
func newScript(names ...string) *script {
	var text []byte
	for _, name := range names {
		b, err := files.ReadFile("scripts/" + name + ".lua")
		if err != nil {
			panic(err) // the files are part of the program
		}
		text = append(text, b...)
	}
	sum := sha1.Sum(text)
	return &script{text: string(text), sha: hex.AppendEncode(nil, sum[:])}
}

// args is the EVALSHA of the script. The script itself travels as its argument
// so that a server that does not know it can be sent its text.
func (s *script) args(keys int, rest ...any) []any {
	out := make([]any, 3, 3+len(rest))
	out[0], out[1], out[2] = "evalsha", s, keys
	return append(out, rest...)
}

// MarshalBinary implements encoding.BinaryMarshaler: what go-redis sends.
func (s *script) MarshalBinary() ([]byte, error) { return s.sha, nil }

// run sends cmds in one round trip to each node and returns the first error that
// is not redis.Nil. A server that does not know a script yet is sent its text.
func (s *Store) run(ctx context.Context, cmds ...redis.Cmder) error {
	if err := ctx.Err(); err != nil {
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
		return wrap(err)
	}
	return s.runOn(ctx, s.client, cmds...)
}

// runHot is run for the calls that every request makes: what comes at the same
// time travels together. Not in a Cluster, where one node that hangs would hold
// up the calls to all others.
func (s *Store) runHot(ctx context.Context, cmds ...redis.Cmder) error {
	if s.cluster != nil || len(cmds) == 0 {
		return s.run(ctx, cmds...)
	}
	if err := ctx.Err(); err != nil {
		return wrap(err)
	}
	if err := s.batcher.do(ctx, cmds); err != nil {
		return wrap(err)
	}
	return s.settle(ctx, s.client, cmds)
}

func (s *Store) runOn(ctx context.Context, c redis.UniversalClient, cmds ...redis.Cmder) error {
	if len(cmds) == 1 {
		_ = c.Process(ctx, cmds[0])
	} else {
		s.pipeline(ctx, c, cmds)
	}
	return s.settle(ctx, c, cmds)
}

// pipeline leaves the outcome in cmds.
func (s *Store) pipeline(ctx context.Context, c redis.UniversalClient, cmds []redis.Cmder) {
	if len(cmds) == 0 {
		return
	}
	pipe := c.Pipeline()
	_ = pipe.BatchProcess(ctx, cmds...)
	_, _ = pipe.Exec(ctx)
}

// settle sends scripts again that the server did not know, and finds the error.
func (s *Store) settle(ctx context.Context, c redis.UniversalClient, cmds []redis.Cmder) error {
	var first error
	for _, cmd := range cmds {
		if unknownScript(cmd.Err()) {
			args := cmd.Args()
			args[0], args[1] = "eval", args[1].(*script).text
			cmd.SetErr(nil)
			_ = c.Process(ctx, cmd)
		}
		if err := cmd.Err(); err != nil && !errors.Is(err, redis.Nil) && first == nil {
			first = wrap(err)
		}
	}
	if first != nil {
		s.m.errors.Inc()
	}
	return first
}

// runDurably is run for one command on key whose loss must be noticed: the
// canary of the same master is raised after it, and with WaitReplicas set that
// many replicas have both when it returns nil.
func (s *Store) runDurably(ctx context.Context, key string, cmd redis.Cmder) error {
	raised := s.raise(ctx, key)
	err := s.run(ctx, cmd, raised.cmd)
	s.observe(raised)
	if cmd.Err() == nil && raised.cmd.Err() != nil {
		err = nil // what the canary guards is written; a dead canary shows in Check
	}
	if err != nil || s.cfg.WaitReplicas == 0 {
		return err
	}
	return s.waitReplicas(ctx, key, raised.bird)
}

// waitReplicas waits for what was written to the master of key. WAIT is about
// the writes of its own connection, so one is made there: replication is ordered.
func (s *Store) waitReplicas(ctx context.Context, key string, bird *canary) error {
	node := s.client
	if s.cluster != nil {
		master, err := s.cluster.MasterForKey(ctx, key)
		if err != nil {
			return wrap(err)
		}
		node = master
	}
	limit := s.cfg.Timeout / 2
	wait := redis.NewIntCmd(ctx, "wait", s.cfg.WaitReplicas, limit.Milliseconds())
	if err := s.runOn(ctx, node, redis.NewIntCmd(ctx, "hincrby", s.keys.canary(bird.tag), s.guard.field, 1), wait); err != nil {
		return err
	}
	if got := wait.Val(); got < int64(s.cfg.WaitReplicas) {
		return fmt.Errorf("redis: written, but only %d of %d replicas confirmed it within %s", got, s.cfg.WaitReplicas, limit)
	}
	return nil
}

func unknownScript(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT")
}

func wrap(err error) error {
	if err == nil {
		return nil
	}
	for prefix, reason := range refusals {
		if strings.HasPrefix(err.Error(), prefix) {
			return fmt.Errorf("redis: %w: %w", reason, err)
		}
	}
	return fmt.Errorf("redis: %w", err)
}

// refusals are errors of a server that answers and takes no writes.
var refusals = map[string]broker.Reason{
	"OOM ":      "the server's memory is full: raise maxmemory, nothing was lost",
	"MISCONF ":  "the server cannot save to its disk and takes no writes: free space or mend the disk",
	"READONLY ": "the server is a read-only replica: name the master",
}

// nonce names one call, so that its second transmission is not a second call.
func (s *Store) nonce() string {
	return s.guard.field + "." + strconv.FormatUint(s.guard.calls.Add(1), 36)
}
