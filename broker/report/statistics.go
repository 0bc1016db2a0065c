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
	// FiguresEvery is how often the figures of the last month are computed in advance, so that
	// a page waits only for the newest ones.
	FiguresEvery = 5 * time.Minute
)

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
	Median, P90 time.Duration // from the request to the vote, nearest rank
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
// most 31 days. The result may be up to 15 s old, for more than two days up to 5 min; At is the
// time of computation. Callers share the result and must not change it.
func (fg *Figures) Insights(ctx context.Context, who broker.Principal, from, to time.Time) (Insights, error) {
	if err := broker.Allow(who, broker.Certain, broker.RoleAuditor, broker.RoleOperator); err != nil {
		return Insights{}, err
	}
	now := fg.clock.Now()
	f := broker.FigureFilter{From: from.UTC(), To: to.UTC(), Now: now, Cell: 24 * time.Hour}
	if f.To.After(now) {
		f.To = now
	}
	span := f.To.Sub(f.From)
	if span <= shortSpan {
		f.Cell = time.Hour
	}
	f.From = f.From.Truncate(f.Cell)
	if !f.From.Before(f.To) || f.To.Sub(f.From) > maxWindow+f.Cell {
		return Insights{}, broker.E(broker.Invalid, "The window must begin before it ends and before now, and be 31 days at most.", nil)
	}
	end := f.To.String()
	if f.To.Equal(f.Now) { // a window until now keeps the same cache key
		end = ""
	}
	key := strings.Join([]string{f.From.String(), end, f.Cell.String()}, " ")
	return fg.insights.get(ctx, key, now, answerAge(span), func() (Insights, error) { return fg.sumUp(ctx, f) })
}

// KeepFigures computes the last month, so that the store caches its final days.
func (fg *Figures) KeepFigures(ctx context.Context) {
	now := fg.clock.Now().UTC()
	f := broker.FigureFilter{From: now.Add(24*time.Hour - maxWindow).Truncate(24 * time.Hour), To: now, Now: now, Cell: 24 * time.Hour}
	if _, err := fg.store.Figures(ctx, f); err != nil && ctx.Err() == nil {
		fg.logger.WarnContext(ctx, "the last month could not be summed up", "error", err)
	}
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
	f := broker.UsageFilter{From: from.UTC().Truncate(time.Minute), Now: now, By: by}
	if !f.From.Before(now) || now.Sub(f.From) > maxWindow+time.Minute {
		return broker.Usage{}, broker.E(broker.Invalid, "The window must begin before now, and 31 days ago at most.", nil)
	}
	switch by {
	case UsageByScope, UsageByOwner, UsageByTask:
	default:
		return broker.Usage{}, broker.E(broker.Invalid, "by must be scope, owner or task.", nil)
	}
	key := strings.Join([]string{f.From.String(), string(by)}, " ")
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
	c.once.Do(func() { c.turn, c.kept = make(chan struct{}, 1), map[string]keptAnswer[T]{} })
	var none T
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return none, broker.StoreError(ctx.Err())
	}
	defer func() { <-c.turn }()
	maps.DeleteFunc(c.kept, func(_ string, k keptAnswer[T]) bool { return now.Sub(k.at) >= k.age || k.at.After(now) })
	if k, ok := c.kept[key]; ok {
		return k.answer, nil
	}
	v, err := compute()
	if err == nil && len(c.kept) < 8 {
		c.kept[key] = keptAnswer[T]{v, now, age}
	}
	return v, err
}
