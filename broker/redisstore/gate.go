package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/redis/go-redis/v9"

	"github.com/ebb-broker/ebb/broker"
)

// gateway admits a request: one script reads the task and claims single-use values.
type gateway struct {
	cache   *lru.Cache[recordKey, *record]
	cluster *redis.ClusterClient
	keys    keys
	m       metrics
	owners  *lru.Cache[string, *owner]

	cmds *commands
	loss *lossGuard
}

// Admit implements broker.Gate in one round trip: one script, in a Cluster one for each
// slot. Every claim is made and every rate is counted even if one of them fails; the
// first failure in the order claims, rates, task is returned. A claim that has already
// ended is ErrClaimed. A Rate allows Limit events at once, and then one each Per/Limit.
func (ga *gateway) Admit(ctx context.Context, a broker.Admission) (broker.Live, error) {
	if err := a.Check(); err != nil {
		return broker.Live{}, err
	}
	q := &admission{Admission: a, now: ga.cmds.now()}
	if len(a.Claims) > 0 {
		q.nonce = ga.cmds.nonce()
	}
	cmds := q.commands(ctx, ga)
	looks := ga.sights(ctx, cmds)
	for _, l := range looks {
		cmds = append(cmds, l.cmd)
	}
	if err := ga.cmds.runHot(ctx, cmds...); err != nil {
		return broker.Live{}, err
	}
	if err := ga.loss.doubt(a.TaskID != "" && !a.Refill, looks...); err != nil {
		return broker.Live{}, err
	}
	head, err := q.judge()
	if err != nil || a.TaskID == "" {
		return broker.Live{}, err
	}
	return ga.live(ctx, a.TaskID, head)
}

// sights prepares reading the loss marker of each master on which scripts run.
func (ga *gateway) sights(ctx context.Context, scripts []redis.Cmder) []markerRead {
	var looks []markerRead
	for _, cmd := range scripts {
		g := ga.loss.sight(ctx, cmd.Args()[3].(string)) // the first key
		if !slices.ContainsFunc(looks, func(l markerRead) bool { return l.marker == g.marker }) {
			looks = append(looks, g)
		}
	}
	return looks
}

// admission is one call of Admit.
type admission struct {
	broker.Admission
	now   int64
	nonce string
	sent  []*redis.SliceCmd
}

// Claims and rates that are refused regardless of the store are not sent.

func (q *admission) ended(c broker.Claim) bool { return c.Until.UnixMilli() <= q.now }

func never(r broker.Rate) bool { return r.Limit <= 0 }

// commands returns the scripts: one for everything, in a Cluster one for each key.
func (q *admission) commands(ctx context.Context, s *gateway) []redis.Cmder {
	if s.cluster == nil {
		q.ask(ctx, s, q.Claims, q.Rates, q.TaskID)
	} else {
		for i := range q.Claims {
			q.ask(ctx, s, q.Claims[i:i+1], nil, "")
		}
		for i := range q.Rates {
			q.ask(ctx, s, nil, q.Rates[i:i+1], "")
		}
		q.ask(ctx, s, nil, nil, q.TaskID)
	}
	cmds := make([]redis.Cmder, len(q.sent))
	for i, cmd := range q.sent {
		cmds[i] = cmd
	}
	return cmds
}

// ask adds one run of the script, unless it would have no key.
func (q *admission) ask(ctx context.Context, s *gateway, claims []broker.Claim, rates []broker.Rate, task string) {
	args := make([]any, 3, 7+3*len(claims)+4*len(rates))
	nclaims, nrates := 0, 0
	for _, c := range claims {
		if !q.ended(c) {
			args = append(args, s.keys.claim(c.Key))
			nclaims++
		}
	}
	for _, r := range rates {
		if !never(r) {
			args = append(args, s.keys.rate(r.Key))
			nrates++
		}
	}
	if task != "" {
		args = append(args, s.keys.task(task))
	}
	keys := len(args) - 3
	if keys == 0 {
		return
	}
	admitScript.call(args, keys)
	args = append(args, q.now, nclaims, nrates)
	for _, c := range claims {
		if !q.ended(c) {
			args = append(args, q.text(c), ttl(c.Until.UnixMilli(), q.now, claimMargin))
		}
	}
	for _, r := range rates {
		if !never(r) {
			step := (r.Per.Microseconds() + int64(r.Limit) - 1) / int64(r.Limit)
			burst := step * int64(r.Limit)
			args = append(args, step, burst, burst/1000+claimMargin.Milliseconds())
		}
	}
	q.sent = append(q.sent, redis.NewSliceCmd(ctx, args...))
}

// text returns the stored form of a claim.
func (q *admission) text(c broker.Claim) string {
	b := make([]byte, 0, 16+len(q.nonce)+len(c.Value))
	b = strconv.AppendInt(b, c.Until.UnixMilli(), 10)
	b = append(append(b, '|'), q.nonce...)
	return string(append(append(b, '|'), c.Value...))
}

// judge reads the answers in the order of the claims and rates.
func (q *admission) judge() (head string, err error) {
	var answers []any
	if len(q.sent) == 1 {
		answers = q.sent[0].Val()
	} else {
		for _, cmd := range q.sent {
			answers = append(answers, cmd.Val()...)
		}
	}
	next := func() (v any) {
		if len(answers) > 0 {
			v, answers = answers[0], answers[1:]
		}
		return v
	}
	for _, c := range q.Claims {
		if q.ended(c) {
			err = cmp.Or(err, fmt.Errorf("the claim's time is over: %w", broker.ErrClaimed))
		} else if had, ok := next().(string); ok && !q.mine(c, had) {
			err = cmp.Or(err, broker.ErrClaimed)
		}
	}
	for _, r := range q.Rates {
		if never(r) {
			err = cmp.Or[error](err, &broker.RateError{Key: r.Key, RetryAfter: r.Per})
		} else if over, ok := next().(int64); !ok {
			err = cmp.Or(err, errAnswer)
		} else if over > 0 {
			err = cmp.Or[error](err, &broker.RateError{Key: r.Key, RetryAfter: time.Duration((over+999)/1000) * time.Millisecond})
		}
	}
	if q.TaskID != "" {
		var ok bool
		if head, ok = next().(string); !ok {
			err = cmp.Or(err, fmt.Errorf("task %s: %w", q.TaskID, broker.ErrNotFound))
		}
	}
	return head, err
}

var errAnswer = errors.New("redis: a script returned an answer of unknown form")

// mine reports whether the existing claim had lets c pass: it was made by this same call,
// which was sent twice, or it has the same value and c may be repeated.
func (q *admission) mine(c broker.Claim, had string) bool {
	_, rest, _ := strings.Cut(had, "|")
	by, value, _ := strings.Cut(rest, "|")
	return by == q.nonce || c.Again && value == c.Value
}

// Put implements broker.Gate. It replaces a value under the same key.
func (x *commands) Put(ctx context.Context, key, value string, until time.Time) error {
	ms := until.UnixMilli()
	return x.run(ctx, redis.NewStatusCmd(ctx, "set", x.keys.value(key), strconv.FormatInt(ms, 10)+"|"+value, "px", ttl(ms, x.now(), claimMargin)))
}

// Take implements broker.Gate.
func (x *commands) Take(ctx context.Context, key string) (string, error) {
	cmd := redis.NewStringCmd(ctx, takeScript.args(1, x.keys.value(key), x.now(), x.nonce())...)
	if err := x.run(ctx, cmd); err != nil {
		return "", err
	}
	if errors.Is(cmd.Err(), redis.Nil) {
		return "", x.loss.absent(ctx, x.keys.value(key), fmt.Errorf("one-time value: %w", broker.ErrNotFound))
	}
	return cmd.Val(), nil
}

// Pace implements broker.Gate. Every call, also one that came too early, is the previous
// call of the next.
func (x *commands) Pace(ctx context.Context, key string, now time.Time, p broker.Pacing, until time.Time) (time.Duration, bool, error) {
	ms, end := now.UnixMilli(), until.UnixMilli()
	cmd := redis.NewSliceCmd(ctx, paceScript.args(1, x.keys.pace(key), ms, p.Interval.Milliseconds(), p.Step.Milliseconds(), end, ttl(end, ms, claimMargin), x.nonce(), p.Most.Milliseconds())...)
	if err := x.run(ctx, cmd); err != nil {
		return 0, false, err
	}
	r := reply(cmd.Val())
	return time.Duration(r.num(0)) * time.Millisecond, r.num(1) == 1, nil
}

// now returns the time in Unix milliseconds.
func (x *commands) now() int64 { return x.clock().UnixMilli() }
