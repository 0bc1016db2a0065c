package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ebb-broker/ebb/broker"
)

// record is the decoded part of a task that rarely changes. It is shared: clone it before
// returning it.
type record struct {
	task  broker.Task // without State
	taint []string
}

// recordKey identifies one version of a record. The version is a hash over the history of
// its contents, so that a store that lost data and was refilled is not confused with its
// earlier contents.
type recordKey struct{ id, version string }

// head is the part of a task that changes often, as head() in common.lua writes it.
type head struct {
	rank                           int64
	due, denials, violations, ends int64
	version                        string
}

func parseHead(text string) (h head, err error) {
	var f [6]string
	rest := text
	for i := range f {
		var more bool
		if f[i], rest, more = strings.Cut(rest, " "); !more && i < len(f)-1 {
			return h, fmt.Errorf("redis: malformed task head %q", text)
		}
	}
	h = head{number(f[0]), number(f[1]), number(f[2]), number(f[3]), number(f[4]), f[5]}
	return h, nil
}

// states by rank, as the scripts write them.
var states = [...]broker.TaskState{1: broker.TaskOpen, 2: broker.TaskPaused, 3: broker.TaskClosed}

func rank(s broker.TaskState) (int64, error) {
	if i := slices.Index(states[1:], s); i >= 0 {
		return int64(i) + 1, nil
	}
	return 0, fmt.Errorf("unknown task state %q", s)
}

// live puts the parts of a task together. text is its head. If that version of the task
// is not cached, the task is read completely.
func (ga *gateway) live(ctx context.Context, id, text string) (broker.Live, error) {
	h, err := parseHead(text)
	if err != nil {
		return broker.Live{}, err
	}
	if h.version == "-" {
		return h.live(id, &record{})
	}
	key := recordKey{id, h.version}
	if r, ok := ga.cache.Get(key); ok {
		return h.live(id, r)
	}
	ga.m.misses.Inc()
	cmd := redis.NewMapStringStringCmd(ctx, "hgetall", ga.keys.task(id))
	if err := ga.cmds.run(ctx, cmd); err != nil {
		return broker.Live{}, err
	}
	all := cmd.Val()
	if all["h"] == "" {
		return broker.Live{}, ga.loss.absent(ctx, ga.keys.task(id), fmt.Errorf("task %s: %w", id, broker.ErrNotFound))
	}
	if h, err = parseHead(all["h"]); err != nil {
		return broker.Live{}, err
	}
	r, err := decode(all)
	if err != nil {
		return broker.Live{}, fmt.Errorf("redis: task %s: %w", id, err)
	}
	ga.cache.Add(recordKey{strings.Clone(id), strings.Clone(h.version)}, r)
	if tag := all["o"]; tag != "" {
		ga.owners.Add(strings.Clone(id), ga.ownerBy(tag))
	}
	return h.live(id, r)
}

// live combines h with the facts of r, and copies everything that r shares.
func (h head) live(id string, r *record) (broker.Live, error) {
	if h.rank < 1 || h.rank >= int64(len(states)) {
		return broker.Live{}, fmt.Errorf("redis: task %s has the unknown state %d", id, h.rank)
	}
	l := broker.Live{Task: r.task, Denials: int(h.denials), Violations: int(h.violations), Taint: slices.Clone(r.taint)}
	l.ID, l.State = id, states[h.rank]
	l.Labels, l.Expect.Selectors = maps.Clone(l.Labels), maps.Clone(l.Expect.Selectors)
	if l.Sandbox != nil {
		box := *l.Sandbox
		box.Selectors = maps.Clone(box.Selectors)
		l.Sandbox = &box
	}
	if h.due != 0 {
		l.Due = instant(h.due)
	}
	if l.ClosedAt.IsZero() && h.ends != 0 {
		l.ClosedAt = instant(h.ends)
	}
	return l, nil
}

func decode(all map[string]string) (*record, error) {
	r := &record{}
	if b := all["b"]; b != "" {
		if err := json.Unmarshal([]byte(b), &r.task); err != nil {
			return nil, fmt.Errorf("facts: %w", err)
		}
	}
	if x := all["x"]; x != "" {
		if err := json.Unmarshal([]byte(x), &r.task.Sandbox); err != nil {
			return nil, fmt.Errorf("sandbox: %w", err)
		}
	}
	for field := range all {
		if name, ok := strings.CutPrefix(field, "t:"); ok {
			r.taint = append(r.taint, name)
		}
	}
	slices.Sort(r.taint)
	return r, nil
}

// encode returns the part of t that never changes while the task is open.
func encode(t broker.Task) (string, error) {
	t.State, t.Sandbox = "", nil
	for _, at := range []*time.Time{&t.OpenedAt, &t.Deadline, &t.ClosedAt} {
		if !at.IsZero() {
			*at = instant(at.UnixMilli())
		}
	}
	b, err := json.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("redis: task %s cannot be encoded: %w", t.ID, err)
	}
	return string(b), nil
}

// encodeSandbox also returns the identity: a later attestation with the same identity is
// the same sandbox.
func encodeSandbox(b *broker.Sandbox) (text, identity string, err error) {
	if b == nil {
		return "", "", nil
	}
	box := *b
	if !box.At.IsZero() {
		box.At = instant(box.At.UnixMilli())
	}
	raw, err := json.Marshal(box)
	if err != nil {
		return "", "", fmt.Errorf("redis: sandbox %s cannot be encoded: %w", box.ID, err)
	}
	return string(raw), strings.Join([]string{box.ID, box.Attestor, box.Subject, box.JKT}, "\x00"), nil
}

const (
	// margin is how much longer keys live than they are read.
	margin = 10 * time.Minute
	// claimMargin is the margin of claims, which are many.
	claimMargin = time.Minute
	// retention is how long an expired lease still counts as expired.
	retention = 10 * time.Minute
)

// keys returns the names of keys.
type keys struct{ prefix string }

func (k keys) task(id string) string { return k.prefix + ":{" + id + "}:t" }

func (k keys) leases(task string) string { return k.prefix + ":{" + task + "}:l" }

func (k keys) ended(task string) string { return k.prefix + ":{" + task + "}:e" }

func (k keys) unpublished(t string) string { return k.prefix + ":{" + t + "}:u" }

func (k keys) held(owner string) string { return k.prefix + ":{o:" + owner + "}:l" }

func (k keys) counts(owner string) string { return k.prefix + ":{o:" + owner + "}:n" }

func (k keys) due() string { return k.prefix + ":due" }

func (k keys) feed() string { return k.prefix + ":feed" }

func (k keys) claim(key string) string { return k.prefix + ":c:" + key }

func (k keys) rate(key string) string { return k.prefix + ":r:" + key }

func (k keys) value(key string) string { return k.prefix + ":v:" + key }

func (k keys) pace(key string) string { return k.prefix + ":p:" + key }

func (k keys) marks() string { return k.prefix + ":marks" }

func (k keys) lossMarker(tag string) string { return k.prefix + ":marker:{" + tag + "}" }

func instant(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func ttl(until, now int64, m time.Duration) int64 { return max(until-now, 0) + m.Milliseconds() }

// millis returns t in Unix milliseconds, 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func number(s string) int64 {
	v, _ := strconv.ParseInt(s, 10, 64) // written by our own scripts
	return v
}
