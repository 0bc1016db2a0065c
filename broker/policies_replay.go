package broker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ebb/broker/policyset"
	"ebb/broker/replay"
	"ebb/scopes/policy"
)

// The bounds of one replay. Reading and judging are done once for all who ask the same
// within keptReplay, and one replay at a time.
const (
	maxReplayed = 50_000           // decisions, the newest
	readTime    = time.Minute      // for the record of the window
	judgeTime   = 30 * time.Second // for what was read, the newest first
	keptReplay  = 5 * time.Minute
	keptReplays = 8
)

// PolicyReplay is what a draft would have decided of a window, beside what the set in
// force decides.
type PolicyReplay struct {
	replay.Comparison
	Days    int
	Begun   time.Time // the window ends here
	Done    bool      // otherwise the comparison is empty
	Judged  int       // so far
	Found   int       // decisions in the window; it goes on growing until it is judged
	Left    int       // of these, older ones that were not looked at
	Skipped int       // of these, such that the record lacks the start of their task
	Slow    bool      // what was left was left because time was up
}

// replays are the replays of this process.
type replays struct {
	mu   sync.Mutex
	runs map[string]*replayRun
}

// replayRun is one, going on or done.
type replayRun struct {
	begun  time.Time
	done   chan struct{}
	found  atomic.Int64
	judged atomic.Int64
	result PolicyReplay // once done
	err    error
}

// ReplayPolicies lets a draft decide again what was decided in the last days (1, 7 or 30).
// It waits up to wait for the answer; until then the answer says how far it is.
func (b *Broker) ReplayPolicies(ctx context.Context, who Principal, id string, days int, wait time.Duration) (PolicyReplay, error) {
	d, err := b.PolicyDraft(ctx, who, id)
	if err != nil {
		return PolicyReplay{}, err
	}
	if !slices.Contains([]int{1, 7, 30}, days) {
		return PolicyReplay{}, E(Invalid, "A replay is of the last 1, 7 or 30 days.", nil)
	}
	draft, err := policyset.Load(d.Files)
	if err != nil {
		return PolicyReplay{}, E(Conflict, "This version of ebb cannot read the draft. Its author saves it again.", err)
	}
	live := b.cfg.Policy.Current()
	key := strings.Join([]string{d.Version, live.Version(), strconv.Itoa(days)}, " ")
	run, err := b.replays.start(key, b.now(), func(run *replayRun) {
		run.result, run.err = b.replay(context.WithoutCancel(ctx), run, live, draft, days)
	})
	if err != nil {
		return PolicyReplay{}, err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-run.done:
		return run.result, run.err
	case <-timer.C:
	case <-ctx.Done():
	}
	return PolicyReplay{Days: days, Begun: run.begun, Found: int(run.found.Load()), Judged: int(run.judged.Load())}, nil
}

// start returns the run of this key, which it begins when there is none.
func (r *replays) start(key string, now time.Time, work func(*replayRun)) (*replayRun, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.runs, func(_ string, run *replayRun) bool {
		return run.over() && (run.err != nil || now.Sub(run.begun) >= keptReplay || run.begun.After(now))
	})
	if run := r.runs[key]; run != nil {
		return run, nil
	}
	for _, run := range r.runs {
		if !run.over() {
			return nil, &Error{Kind: TooMany, Public: "Another replay is going on. Try again in a few seconds.", RetryAfter: 5 * time.Second}
		}
	}
	if r.runs == nil || len(r.runs) >= keptReplays {
		r.runs = map[string]*replayRun{}
	}
	run := &replayRun{begun: now, done: make(chan struct{})}
	r.runs[key] = run
	go func() {
		defer close(run.done)
		work(run)
	}()
	return run, nil
}

func (r *replayRun) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// replay reads the window and compares.
func (b *Broker) replay(ctx context.Context, run *replayRun, live, draft *policy.Set, days int) (PolicyReplay, error) {
	out := PolicyReplay{Days: days, Begun: run.begun}
	past, left, err := b.past(ctx, run, days)
	if err != nil {
		return out, err
	}
	until := time.Now().Add(judgeTime)
	out.Comparison = replay.Compared(live, draft, past, func(done int) bool {
		run.judged.Store(int64(done))
		out.Slow = done%64 == 0 && time.Now().After(until)
		return !out.Slow
	})
	out.Done, out.Judged, out.Found, out.Skipped = true, out.Looked, len(past.Decisions)+left+past.Skipped, past.Skipped
	out.Left = left + len(past.Decisions) - out.Looked
	return out, nil
}

// past reads the decisions of a window, and what was before it of the tasks that it may
// be about. It keeps the newest; left counts the others.
func (b *Broker) past(ctx context.Context, run *replayRun, days int) (past replay.Past, left int, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	from := run.begun.Add(-time.Duration(days) * 24 * time.Hour)
	var in replay.Reader
	for e, err := range b.cfg.Journal.Entries(ctx, EntryFilter{From: from.Add(-b.cfg.Limits.MaxTaskTTL), To: run.begun}) {
		if err != nil {
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return past, 0, E(TooMany, "The record of this window cannot be read within a minute. Choose fewer days, or export it and use `ebb policy replay`.", err)
			}
			return past, 0, unavailable(err)
		}
		d, err := in.Add(e)
		if err != nil {
			return past, 0, E(Internal, "An entry of the record cannot be understood. Run the check of the record.", err)
		}
		if e.At.Before(from) {
			in.Skipped = 0
			continue
		}
		if d == nil {
			continue
		}
		run.found.Add(1)
		if past.Decisions = append(past.Decisions, *d); len(past.Decisions) >= 2*maxReplayed {
			left += len(past.Decisions) - maxReplayed
			past.Decisions = append(past.Decisions[:0], past.Decisions[len(past.Decisions)-maxReplayed:]...)
		}
	}
	if over := len(past.Decisions) - maxReplayed; over > 0 {
		left, past.Decisions = left+over, past.Decisions[over:]
	}
	past.Skipped, past.Refused = in.Skipped, in.Refused
	return past, left, nil
}
