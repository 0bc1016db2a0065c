package aws

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

const (
	// maxInline is IAM's limit for all inline policies of a role together, in
	// characters that are not white space; some are left for how IAM counts.
	maxInline = 10240 - 240
	// minInline always holds a cutoff of the whole role.
	minInline = 600
	// worthCutting is from how many sessions on a task's cutoff is shorter.
	worthCutting = 8
)

// cutDelay is how far a cutoff lies ahead of AWS's clock: times of issue are
// whole seconds, and sessions of the current one must not slip through.
const cutDelay = 2 * time.Second

// level is the degree of merging that made a policy fit.
type level int

const (
	fitSessions level = iota // every session by itself
	fitTasks                 // all older sessions of some tasks, dead or alive
	fitRole                  // all older sessions of the role
)

// soft is from which length on a role mints no more, so that what lives can still
// be revoked one by one.
func soft(room int) int { return room * 3 / 4 }

// drains is when the first entry can be dropped.
func (d *denials) drains() time.Time {
	first := d.role.until
	for _, until := range d.entries {
		if first == 0 || until < first {
			first = until
		}
	}
	return time.Unix(first, 0).Add(skew)
}

// fit makes the text no longer than room. It denies more rather than forget a
// session: from soft on, where sessions carry the tag of their task, the older
// sessions of the tasks with the most revoked ones, which as a rule have ended
// whole; and when nothing else helps, those of the role. taskOf knows the tasks of
// the entries that this process has written.
func (d *denials) fit(room int, taskOf map[entry]string, now time.Time) level {
	level := fitSessions
	if len(d.String()) <= soft(room) {
		return level
	}
	before := now.Add(cutDelay).Unix()
	byTask := map[string][]entry{}
	for e := range d.entries {
		if task := taskOf[e]; task != "" {
			byTask[task] = append(byTask[task], e)
		}
	}
	tasks := slices.SortedFunc(maps.Keys(byTask), func(a, b string) int {
		return cmp.Or(len(byTask[b])-len(byTask[a]), cmp.Compare(a, b))
	})
	for _, task := range tasks {
		if len(byTask[task]) < worthCutting {
			break
		}
		c := cutoff{before: before}
		for _, e := range byTask[task] {
			c.until = max(c.until, d.entries[e])
			delete(d.entries, e)
		}
		d.tasks[task] = later(d.tasks[task], c)
		level = fitTasks
		if len(d.String()) <= soft(room) {
			return level
		}
	}
	if len(d.String()) <= room {
		return level
	}
	c := cutoff{before: before, until: d.role.until}
	for _, until := range d.entries {
		c.until = max(c.until, until)
	}
	for _, t := range d.tasks {
		c.until = max(c.until, t.until)
	}
	*d = denials{entries: map[entry]int64{}, tasks: map[string]cutoff{}, role: c, foreign: d.foreign}
	return fitRole
}
