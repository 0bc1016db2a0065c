package redisstore

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ebb-broker/ebb/broker"
)

// commands sends commands and scripts, and batches concurrent ones.
type commands struct {
	logger   *slog.Logger
	clock    func() time.Time
	timeout  time.Duration
	replicas int
	batcher  *batcher
	client   redis.UniversalClient
	cluster  *redis.ClusterClient
	guard    *guard
	keys     keys
	m        metrics

	loss *lossGuard
}

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
	markerScript   = newScript("loss_marker")
	markScript     = newScript("mark")
)

// scripts are all scripts of this package.
var scripts []*script

// script is the text of a Lua script and the name that servers give it, a hex SHA-1. ebb
// computes no SHA-1 itself, because GODEBUG=fips140=only does not allow it.
type script struct {
	text string
	name atomic.Pointer[[]byte] // nil until a server has returned it; the same at every server
}

// newScript joins embedded files to a script.
func newScript(names ...string) *script {
	var text []byte
	for _, name := range names {
		b, err := files.ReadFile("scripts/" + name + ".lua")
		if err != nil {
			panic(err) // the files are embedded in the program
		}
		text = append(text, b...)
	}
	s := &script{text: string(text)}
	scripts = append(scripts, s)
	return s
}

// args returns the arguments of a call of the script.
func (s *script) args(keys int, rest ...any) []any {
	out := make([]any, 3, 3+len(rest))
	s.call(out, keys)
	return append(out, rest...)
}

// call puts the command, the script and the number of its keys into args[:3]: EVALSHA, or
// EVAL while the script's name is unknown. In an EVALSHA the script itself is the
// argument, so that settle can send its text to a server that does not know it.
func (s *script) call(args []any, keys int) {
	args[0], args[1], args[2] = "evalsha", s, keys
	if s.name.Load() == nil {
		args[0], args[1] = "eval", s.text
	}
}

// MarshalBinary implements encoding.BinaryMarshaler for go-redis: it returns the script's
// name.
func (s *script) MarshalBinary() ([]byte, error) { return *s.name.Load(), nil }

// loadScripts loads all scripts into a server and takes their names from its answers.
func (x *commands) loadScripts(ctx context.Context, c redis.Cmdable) error {
	pipe := c.Pipeline()
	loads := make([]*redis.StringCmd, len(scripts))
	for i, script := range scripts {
		loads[i] = pipe.ScriptLoad(ctx, script.text)
	}
	_, err := pipe.Exec(ctx)
	if forbidden(err) {
		x.logger.WarnContext(ctx, "redis: SCRIPT LOAD is not allowed for this user; each call may carry the text of its script", "error", err)
		return nil
	}
	if err != nil {
		return wrap(err)
	}
	for i, script := range scripts {
		name := []byte(loads[i].Val())
		script.name.Store(&name)
	}
	return nil
}

// run sends cmds in one round trip to each node and returns the first error other than
// redis.Nil. It sends the text of a script to a server that does not know it yet.
func (x *commands) run(ctx context.Context, cmds ...redis.Cmder) error {
	if err := ctx.Err(); err != nil {
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
		return wrap(err)
	}
	return x.runOn(ctx, x.client, cmds...)
}

// runHot is run for the calls of every request: it batches concurrent calls. It does not
// in a Cluster, where one hanging node would delay the calls to all others.
func (x *commands) runHot(ctx context.Context, cmds ...redis.Cmder) error {
	if x.cluster != nil || len(cmds) == 0 {
		return x.run(ctx, cmds...)
	}
	if err := ctx.Err(); err != nil {
		return wrap(err)
	}
	if err := x.batcher.do(ctx, cmds); err != nil {
		return wrap(err)
	}
	return x.settle(ctx, x.client, cmds)
}

func (x *commands) runOn(ctx context.Context, c redis.UniversalClient, cmds ...redis.Cmder) error {
	if len(cmds) == 1 {
		_ = c.Process(ctx, cmds[0])
	} else {
		x.pipeline(ctx, c, cmds)
	}
	return x.settle(ctx, c, cmds)
}

// pipeline sends cmds; each cmd holds its outcome.
func (x *commands) pipeline(ctx context.Context, c redis.UniversalClient, cmds []redis.Cmder) {
	if len(cmds) == 0 {
		return
	}
	pipe := c.Pipeline()
	_ = pipe.BatchProcess(ctx, cmds...)
	_, _ = pipe.Exec(ctx)
}

// settle resends scripts that the server did not know, and returns the first error.
func (x *commands) settle(ctx context.Context, c redis.UniversalClient, cmds []redis.Cmder) error {
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
		x.m.errors.Inc()
	}
	return first
}

// runDurably is run for one command on key whose loss must be noticed: the loss marker of
// the same master is raised after it. With WaitReplicas set, that many replicas have
// confirmed both when it returns nil.
func (x *commands) runDurably(ctx context.Context, key string, cmd redis.Cmder) error {
	raised := x.loss.raise(ctx, key)
	err := x.run(ctx, cmd, raised.cmd)
	x.loss.observe(raised)
	if cmd.Err() == nil && raised.cmd.Err() != nil {
		err = nil // the command's write succeeded; Check reports a failing loss marker
	}
	if err != nil || x.replicas == 0 {
		return err
	}
	return x.waitReplicas(ctx, key, raised.marker)
}

// waitReplicas waits until replicas have the writes to the master of key. WAIT covers the
// writes of its own connection, so one write is made there: replication is ordered.
func (x *commands) waitReplicas(ctx context.Context, key string, marker *lossMarker) error {
	node := x.client
	if x.cluster != nil {
		master, err := x.cluster.MasterForKey(ctx, key)
		if err != nil {
			return wrap(err)
		}
		node = master
	}
	limit := x.timeout / 2
	wait := redis.NewIntCmd(ctx, "wait", x.replicas, limit.Milliseconds())
	if err := x.runOn(ctx, node, redis.NewIntCmd(ctx, "hincrby", x.keys.lossMarker(marker.tag), x.guard.field, 1), wait); err != nil {
		return err
	}
	if got := wait.Val(); got < int64(x.replicas) {
		return fmt.Errorf("redis: the write succeeded, but only %d of %d replicas confirmed it within %s", got, x.replicas, limit)
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

// refusals are errors of a server that answers but accepts no writes.
var refusals = map[string]broker.Reason{
	"OOM ":      "the server's memory is full: raise maxmemory, nothing was lost",
	"MISCONF ":  "the server cannot save to its disk and refuses writes: free space or repair the disk",
	"READONLY ": "the server is a read-only replica: configure the address of the master",
}

// nonce identifies one call, so that a call that is sent twice has one effect.
func (x *commands) nonce() string {
	return x.guard.field + "." + strconv.FormatUint(x.guard.calls.Add(1), 36)
}

// batchCalls is the maximum number of calls in one batch.
const batchCalls = 128

// batcher sends the commands of concurrent calls in one pipeline: system calls and
// context switches are most of the cost of a call, for this process and for the server.
// Only one batch is sent at a time: a second one would be slightly earlier, but each
// would be half as large. A single call is sent at once, and no call waits for others.
type batcher struct {
	exec  func(ctx context.Context, cmds []redis.Cmder)
	limit time.Duration // a call that waits longer for its turn fails

	mu      sync.Mutex
	queue   []*call
	running bool
}

type call struct {
	cmds  []redis.Cmder
	since time.Time
	err   error
	done  chan struct{}
}

var (
	errBusy = errors.New("the server is too slow: the call waited too long to be sent")
	errLost = errors.New("the call was not completed")
)

// do returns when cmds were executed or ctx ended. In the second case the caller must not
// read the commands: they may still be sent.
func (b *batcher) do(ctx context.Context, cmds []redis.Cmder) error {
	c := &call{cmds: cmds, since: time.Now(), done: make(chan struct{})}
	b.mu.Lock()
	b.queue = append(b.queue, c)
	idle := !b.running
	b.running = true
	b.mu.Unlock()
	if end, hurry := ctx.Deadline(); idle && hurry && end.Before(c.since.Add(b.limit)) {
		go b.rest()
	} else if idle {
		// The caller sends the batch itself, which saves two context switches. The
		// client's timeouts bound the time of sending, not ctx.
		if b.send() {
			go b.rest()
		}
		return c.err
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *batcher) rest() {
	for b.send() {
	}
}

// send sends one batch and reports whether more calls wait. It uses no caller's context:
// a caller that ends must not break the other calls of the batch. The client's timeouts
// bound it. A panic of the client fails one batch; later calls must still be sent.
func (b *batcher) send() (more bool) {
	calls := b.take()
	defer func() {
		panicked := recover()
		for _, c := range calls {
			if panicked != nil { // a panic must not look like an answer
				c.err = fmt.Errorf("%w: the client panicked: %v", errLost, panicked)
			}
			close(c.done)
		}
		more = b.more()
	}()
	var cmds []redis.Cmder
	for _, c := range calls {
		if time.Since(c.since) > b.limit {
			c.err = errBusy
			continue
		}
		cmds = append(cmds, c.cmds...)
	}
	b.exec(context.Background(), cmds)
	return
}

func (b *batcher) take() []*call {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.queue), batchCalls)
	calls := b.queue[:n:n]
	b.queue = b.queue[n:]
	return calls
}

func (b *batcher) more() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running = len(b.queue) > 0; !b.running {
		b.queue = nil // releases the calls that its array still refers to
	}
	return b.running
}
