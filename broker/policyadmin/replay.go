package policyadmin

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

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/policyset"
	"github.com/ebb-broker/ebb/broker/replay"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// The bounds of one replay. A result is shared by all callers that ask for the same within
// keptReplay, and one replay runs at a time.
const (
	maxReplayed = 50_000           // decisions; the newest are kept
	readTime    = time.Minute      // for reading the audit log
	judgeTime   = 30 * time.Second // for evaluating the decisions, newest first
	keptReplay  = 5 * time.Minute
	keptReplays = 8
)

// PolicyReplay compares the decisions that a draft would have made in a window with those of
// the set in force.
type PolicyReplay struct {
	replay.Comparison
	Days    int
	Begun   time.Time // the window ends here
	Done    bool      // otherwise the comparison is empty
	Judged  int       // decisions evaluated so far
	Found   int       // decisions in the window; it grows until Done
	Left    int       // of Found: older ones that were not evaluated
	Skipped int       // of Found: without the start of their task in the audit log
	Slow    bool      // the time limit was reached
}

// replays holds the replays of this process.
type replays struct {
	mu   sync.Mutex
	runs map[string]*replayRun
}

// replayRun is one replay, running or done.
type replayRun struct {
	begun  time.Time
	done   chan struct{}
	found  atomic.Int64
	judged atomic.Int64
	result PolicyReplay // once done
	err    error
}

// ReplayPolicies evaluates a draft for the decisions of the last days (1, 7 or 30). It waits up
// to wait for the result; until then it returns the progress.
func (pa *Drafts) ReplayPolicies(ctx context.Context, who broker.Principal, id string, days int, wait time.Duration) (PolicyReplay, error) {
	d, err := pa.PolicyDraft(ctx, who, id)
	if err != nil {
		return PolicyReplay{}, err
	}
	if !slices.Contains([]int{1, 7, 30}, days) {
		return PolicyReplay{}, broker.E(broker.Invalid, "days must be 1, 7 or 30.", nil)
	}
	draft, err := policyset.Load(d.Files)
	if err != nil {
		return PolicyReplay{}, broker.E(broker.Conflict, "This version of ebb cannot read the draft. Its author must save it again.", err)
	}
	live := pa.policy.Current()
	key := strings.Join([]string{d.Version, live.Version(), strconv.Itoa(days)}, " ")
	run, err := pa.replays.start(key, pa.clock.Now(), func(run *replayRun) {
		run.result, run.err = pa.replay(context.WithoutCancel(ctx), run, live, draft, days)
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

// start returns the run with this key, and begins one if there is none.
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
			return nil, &broker.Error{Kind: broker.TooMany, Public: "Another replay is running. Try again in a few seconds.", RetryAfter: 5 * time.Second}
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

// replay reads the window and compares the sets.
func (pa *Drafts) replay(ctx context.Context, run *replayRun, live, draft *policy.Set, days int) (PolicyReplay, error) {
	out := PolicyReplay{Days: days, Begun: run.begun}
	past, left, err := pa.past(ctx, run, days)
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

// past reads the decisions of a window, and the earlier entries of their tasks. It keeps the
// newest; left counts the others.
func (pa *Drafts) past(ctx context.Context, run *replayRun, days int) (past replay.Past, left int, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	from := run.begun.Add(-time.Duration(days) * 24 * time.Hour)
	var in replay.Reader
	for e, err := range pa.store.Entries(ctx, broker.EntryFilter{From: from.Add(-pa.limits.MaxTaskTTL), To: run.begun}) {
		if err != nil {
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return past, 0, broker.E(broker.TooMany, "The audit log of this window cannot be read within a minute. Choose fewer days, or export it and use `ebb policy replay`.", err)
			}
			return past, 0, broker.StoreError(err)
		}
		d, err := in.Add(e)
		if err != nil {
			return past, 0, broker.E(broker.Internal, "An entry of the audit log cannot be read. Export the audit log and check it with 'ebb audit verify'.", err)
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
