package report

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
)

// Figures computes the statistics pages and caches each answer for a short time.
type Figures struct {
	store  broker.Store
	logger *slog.Logger

	clock *kernel.Timekeeper

	insights answerCache[Insights]
	usage    answerCache[broker.Usage]
}

const (
	maxWindow   = 31 * 24 * time.Hour
	hurried     = 3 * time.Second // a faster vote cannot have read the request
	lastAnswers = 50
	// FiguresEvery is how often the figures of the console's windows are computed in advance.
	FiguresEvery = 5 * time.Minute
	// keptAge is the largest age of those figures: the next ones are ready by then.
	keptAge = FiguresEvery + time.Minute
)

// KeptSpans are the lengths of the windows of the console's page. Each window ends now.
var KeptSpans = [...]time.Duration{23 * time.Hour, 6 * 24 * time.Hour, 29 * 24 * time.Hour}

// Insights are the figures of a window with those of its approvers.
type Insights struct {
	broker.Figures
	At                time.Time                  // when they were computed
	All               Answers                    // votes of all people
	Approvers         []Answers                  // most votes first
	Groups            []Answers                  // a vote counts for each group through which the approver was eligible
	RevocationBacklog []broker.RevocationBacklog // at the time At, for every window
}

// Answers sums up the votes of one person or one group.
type Answers struct {
	Name        string
	Yes, No     int
	Timed       int           // votes on a page of the console, which the next three members are about
	Median, P90 time.Duration // from the page to the vote, nearest rank
	Hurried     int           // votes in less than 3 s
	LastYes     int           // approvals among the last 50 votes; 0 when there are fewer
}

// N returns the number of votes.
func (a Answers) N() int { return a.Yes + a.No }

// Habit reports whether more than 95 % of the last 50 votes were approvals. Then a policy could
// allow these requests, or people approve without reading.
func (a Answers) Habit() bool { return a.LastYes*100 > 95*lastAnswers }

// Insights sums up [from, to) for auditors and operators; an end later than now becomes now.
// The window begins at a full hour, or at UTC midnight if it is longer than two days, and is at
// most 31 days. The result may be up to 15 s old, for more than two days up to 5 min, and for a
// window of KeptSpans up to 6 min; At is the time of computation. Callers share the result and
// must not change it.
func (fg *Figures) Insights(ctx context.Context, who broker.Principal, from, to time.Time) (Insights, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleAuditor, broker.RoleOperator); err != nil {
		return Insights{}, err
	}
	f, key, err := figureWindow(from, to, fg.clock.Now())
	if err != nil {
		return Insights{}, err
	}
	return fg.insights.get(ctx, key, f.Now, answerAge(f.To.Sub(from)), func() (Insights, error) { return fg.sumUp(ctx, f) })
}

// figureWindow returns the filter of a window, and its key in the cache.
func figureWindow(from, to, now time.Time) (broker.FigureFilter, string, error) {
	f := broker.FigureFilter{From: from.UTC(), To: to.UTC(), Now: now, Cell: 24 * time.Hour}
	if f.To.After(now) {
		f.To = now
	}
	if f.To.Sub(f.From) <= shortSpan {
		f.Cell = time.Hour
	}
	f.From = f.From.Truncate(f.Cell)
	if !f.From.Before(f.To) || f.To.Sub(f.From) > maxWindow+f.Cell {
		return f, "", broker.E(broker.Invalid, "The window must begin before it ends and before now, and be 31 days at most.", nil)
	}
	end := f.To.String()
	if f.To.Equal(f.Now) { // a window until now keeps the same cache key
		end = ""
	}
	return f, strings.Join([]string{f.From.String(), end, f.Cell.String()}, " "), nil
}

// KeepFigures computes the last month, so that the store caches its final days, and then the
// figures and uses of the console's windows, so that no page waits for them. Windows that begin
// later because a full hour or a day passes before the next call are computed, too.
func (fg *Figures) KeepFigures(ctx context.Context) {
	now := fg.clock.Now().UTC()
	for _, span := range KeptSpans {
		known := map[time.Time]bool{}
		for _, late := range []time.Duration{0, keptAge} {
			f, key, err := figureWindow(now.Add(late-span), now, now)
			if err == nil && known[f.From] {
				continue
			}
			known[f.From] = true
			if err == nil {
				err = fg.keep(ctx, f, key)
			}
			if err != nil && ctx.Err() == nil {
				fg.logger.WarnContext(ctx, "the figures of a window could not be computed in advance", "window", span, "error", err)
			}
		}
	}
	f := broker.FigureFilter{From: now.Add(24*time.Hour - maxWindow).Truncate(24 * time.Hour), To: now, Now: now, Cell: 24 * time.Hour}
	if _, err := fg.store.Figures(ctx, f); err != nil && ctx.Err() == nil {
		fg.logger.WarnContext(ctx, "the last month could not be summed up", "error", err)
	}
}

// keep computes the figures of a window until now. Meanwhile pages get the previous figures.
func (fg *Figures) keep(ctx context.Context, f broker.FigureFilter, key string) error {
	now := f.Now
	in, err := fg.sumUp(ctx, f)
	if err != nil {
		return err
	}
	uses, usesKey := usageWindow(in.From, now, UsageByScope)
	u, err := fg.store.Usage(ctx, uses)
	if err != nil {
		return err
	}
	if err := fg.insights.put(ctx, key, keptAnswer[Insights]{in, now, keptAge}); err != nil {
		return err
	}
	return fg.usage.put(ctx, usesKey, keptAnswer[broker.Usage]{u, now, keptAge})
}

// usageWindow returns the filter of a window until now, and its key in the cache.
func usageWindow(from, now time.Time, by broker.UsageBy) (broker.UsageFilter, string) {
	f := broker.UsageFilter{From: from.UTC().Truncate(time.Minute), Now: now, By: by}
	return f, f.From.String() + " " + string(by)
}

func (fg *Figures) sumUp(ctx context.Context, f broker.FigureFilter) (Insights, error) {
	figures, err := fg.store.Figures(ctx, f)
	if err != nil {
		return Insights{}, broker.StoreError(err)
	}
	backlog, err := fg.store.RevocationBacklog(ctx, f.Now)
	if err != nil {
		return Insights{}, broker.StoreError(err)
	}
	out := Insights{Figures: figures, At: f.Now, RevocationBacklog: backlog, All: answersOf("", figures.Decisions)}
	people, groups := map[string][]broker.Decision{}, map[string][]broker.Decision{}
	for _, d := range figures.Decisions {
		people[d.By] = append(people[d.By], d)
		for _, g := range d.Groups {
			groups[g] = append(groups[g], d)
		}
	}
	out.Approvers, out.Groups = ranked(people), ranked(groups)
	return out, nil
}

func ranked(by map[string][]broker.Decision) []Answers {
	var out []Answers
	for _, name := range slices.Sorted(maps.Keys(by)) {
		out = append(out, answersOf(name, by[name]))
	}
	slices.SortStableFunc(out, func(a, b Answers) int { return b.N() - a.N() })
	return out
}

// answersOf sums up votes, which are given newest first.
func answersOf(name string, ds []broker.Decision) Answers {
	a := Answers{Name: name}
	took := make([]time.Duration, 0, len(ds))
	for i, d := range ds {
		if d.Approve {
			a.Yes++
			if len(ds) >= lastAnswers && i < lastAnswers {
				a.LastYes++
			}
		} else {
			a.No++
		}
		if !d.Timed {
			continue
		}
		a.Timed++
		if d.Took < hurried {
			a.Hurried++
		}
		took = append(took, d.Took)
	}
	if len(took) > 0 {
		slices.Sort(took)
		a.Median, a.P90 = nearestRank(took, 50), nearestRank(took, 90)
	}
	return a
}

// nearestRank returns the smallest value that at least percent of the values do not exceed.
func nearestRank(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)*percent+99)/100-1]
}

// UsageRows is the largest number of rows in a Usage.
const UsageRows = 1000

// usageSpan is the default window of a Usage.
const usageSpan = 30 * 24 * time.Hour

// Groupings of credentials.
const (
	UsageByScope broker.UsageBy = "scope" // provider, scopes and tool
	UsageByOwner broker.UsageBy = "owner"
	UsageByTask  broker.UsageBy = "task" // and its owner
)

// Usage returns for auditors and operators the credentials issued since from and their use.
// from is rounded down to a full minute, at most 31 days back; zero = 30 days back. The result
// may be up to 15 s old, for more than two days up to 5 min; At is the time of computation.
// Callers share the result and must not change it.
func (fg *Figures) Usage(ctx context.Context, who broker.Principal, from time.Time, by broker.UsageBy) (broker.Usage, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleAuditor, broker.RoleOperator); err != nil {
		return broker.Usage{}, err
	}
	now := fg.clock.Now()
	if from.IsZero() {
		from = now.Add(-usageSpan)
	}
	f, key := usageWindow(from, now, by)
	if !f.From.Before(now) || now.Sub(f.From) > maxWindow+time.Minute {
		return broker.Usage{}, broker.E(broker.Invalid, "The window must begin before now, and 31 days ago at most.", nil)
	}
	switch by {
	case UsageByScope, UsageByOwner, UsageByTask:
	default:
		return broker.Usage{}, broker.E(broker.Invalid, "by must be scope, owner or task.", nil)
	}
	return fg.usage.get(ctx, key, now, answerAge(now.Sub(f.From)), func() (broker.Usage, error) {
		u, err := fg.store.Usage(ctx, f)
		if err != nil {
			return broker.Usage{}, broker.StoreError(err)
		}
		return u, nil
	})
}

// The largest ages of an answer: the first sum over a month with 100,000 credentials takes
// SQLite several hundred milliseconds.
const (
	shortSpan    = 48 * time.Hour // windows up to this length are short
	shortSpanAge = 15 * time.Second
	longSpanAge  = 5 * time.Minute
)

// answerAge returns the largest age of an answer for a window of this length.
func answerAge(span time.Duration) time.Duration {
	if span > shortSpan {
		return longSpanAge
	}
	return shortSpanAge
}

// answerCache computes one answer at a time, so that many page loads cost the database one
// computation.
type answerCache[T any] struct {
	turn chan struct{} // capacity 1: held by the caller that computes
	once sync.Once
	kept map[string]keptAnswer[T]
}

type keptAnswer[T any] struct {
	answer T
	at     time.Time
	age    time.Duration // the largest age
}

func (c *answerCache[T]) get(ctx context.Context, key string, now time.Time, age time.Duration, compute func() (T, error)) (T, error) {
	return c.take(ctx, func() (T, error) {
		maps.DeleteFunc(c.kept, func(_ string, k keptAnswer[T]) bool { return now.Sub(k.at) >= k.age || k.at.After(now) })
		if k, ok := c.kept[key]; ok {
			return k.answer, nil
		}
		v, err := compute()
		if err == nil && len(c.kept) < 8 {
			c.kept[key] = keptAnswer[T]{v, now, age}
		}
		return v, err
	})
}

// put stores an answer.
func (c *answerCache[T]) put(ctx context.Context, key string, answer keptAnswer[T]) error {
	_, err := c.take(ctx, func() (none T, err error) {
		c.kept[key] = answer
		return none, nil
	})
	return err
}

// take calls f while no other call of the cache runs.
func (c *answerCache[T]) take(ctx context.Context, f func() (T, error)) (none T, err error) {
	c.once.Do(func() { c.turn, c.kept = make(chan struct{}, 1), map[string]keptAnswer[T]{} })
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return none, broker.StoreError(ctx.Err())
	}
	defer func() { <-c.turn }()
	return f()
}
