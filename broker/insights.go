package broker

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	maxWindow   = 31 * 24 * time.Hour
	hurried     = 3 * time.Second // who answers faster has not read it
	lastAnswers = 50
	// figuresEvery is how often the days of a month are summed up although nobody asks, so
	// that who does need not wait for more than the newest of them.
	figuresEvery = 5 * time.Minute
)

// Insights are what a window says of the people and credentials in it.
type Insights struct {
	Figures
	At        time.Time // when they were computed
	All       Answers   // of everybody
	Approvers []Answers // the most answers first
	Groups    []Answers // an answer counts for each group of its approver's that had a say
	Owing     []Owing   // at At, whatever the window
}

// Answers are the answers of one person, or of one group.
type Answers struct {
	Name        string
	Yes, No     int
	Median, P90 time.Duration // from the request to the answer, nearest rank
	Hurried     int           // in less than 3 s
	LastYes     int           // of the last 50 answers; 0 when there are fewer
}

// N is how many answers there are.
func (a Answers) N() int { return a.Yes + a.No }

// Habit reports whether more than 95 % of the last 50 answers were a yes: then policy
// could say it, or the question teaches people not to read.
func (a Answers) Habit() bool { return a.LastYes*100 > 95*lastAnswers }

// Insights sums up [from, to) for auditors and operators; a window that ends later than
// now ends now. It begins at a full hour, or when it is longer than two days at a UTC
// midnight, and is 31 days at most. What it says is up to 15 s old, of days up to 5 min: At
// says when it was computed. Callers share what they are given and do not change it.
func (b *Broker) Insights(ctx context.Context, who Principal, from, to time.Time) (Insights, error) {
	if err := allow(who, certain, RoleAuditor, RoleOperator); err != nil {
		return Insights{}, err
	}
	now := b.now()
	f := FigureFilter{From: from.UTC(), To: to.UTC(), Now: now, Cell: 24 * time.Hour}
	if f.To.After(now) {
		f.To = now
	}
	span := f.To.Sub(f.From)
	if span <= shortSpan {
		f.Cell = time.Hour
	}
	f.From = f.From.Truncate(f.Cell)
	if !f.From.Before(f.To) || f.To.Sub(f.From) > maxWindow+f.Cell {
		return Insights{}, E(Invalid, "The window must begin before it ends and before now, and be 31 days at most.", nil)
	}
	end := f.To.String()
	if f.To.Equal(f.Now) { // it goes on: for a while its end is the same
		end = ""
	}
	key := strings.Join([]string{f.From.String(), end, f.Cell.String()}, " ")
	return b.insights.get(ctx, key, now, answerAge(span), func() (Insights, error) { return b.sumUp(ctx, f) })
}

// keepFigures sums up the last month for the store to keep what is final of it.
func (b *Broker) keepFigures(ctx context.Context) {
	now := b.now().UTC()
	f := FigureFilter{From: now.Add(24*time.Hour - maxWindow).Truncate(24 * time.Hour), To: now, Now: now, Cell: 24 * time.Hour}
	if _, err := b.cfg.Journal.Figures(ctx, f); err != nil && ctx.Err() == nil {
		b.cfg.Logger.WarnContext(ctx, "the last month could not be summed up", "error", err)
	}
}

func (b *Broker) sumUp(ctx context.Context, f FigureFilter) (Insights, error) {
	figures, err := b.cfg.Journal.Figures(ctx, f)
	if err != nil {
		return Insights{}, unavailable(err)
	}
	owing, err := b.cfg.Journal.Owing(ctx, f.Now)
	if err != nil {
		return Insights{}, unavailable(err)
	}
	out := Insights{Figures: figures, At: f.Now, Owing: owing, All: answersOf("", figures.Decisions)}
	people, groups := map[string][]Decision{}, map[string][]Decision{}
	for _, d := range figures.Decisions {
		people[d.By] = append(people[d.By], d)
		for _, g := range d.Groups {
			groups[g] = append(groups[g], d)
		}
	}
	out.Approvers, out.Groups = ranked(people), ranked(groups)
	return out, nil
}

func ranked(by map[string][]Decision) []Answers {
	var out []Answers
	for _, name := range slices.Sorted(maps.Keys(by)) {
		out = append(out, answersOf(name, by[name]))
	}
	slices.SortStableFunc(out, func(a, b Answers) int { return b.N() - a.N() })
	return out
}

// answersOf sums up decisions, newest first.
func answersOf(name string, ds []Decision) Answers {
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

// nearestRank is the smallest value that at least percent of them do not exceed.
func nearestRank(sorted []time.Duration, percent int) time.Duration {
	return sorted[(len(sorted)*percent+99)/100-1]
}
