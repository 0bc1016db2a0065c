package aws

import (
	"encoding/json"
	"maps"
	"time"
)

// entry is one revoked session.
type entry struct {
	by      keyed
	pattern string
}

func entryOf(h handle) entry { return entry{h.By, h.pattern()} }

// cutoff denies sessions that were issued before the time before, until the time until; both in
// Unix seconds. The zero cutoff denies nothing.
type cutoff struct{ before, until int64 }

// denials is the content of one role's policy of revoked sessions. The policy is
// all the memory there is: the ids of its statements hold what IAM has no place
// for, and statements that are not of this form stay as they are.
type denials struct {
	entries map[entry]int64   // until when each is needed, in Unix seconds
	tasks   map[string]cutoff // by the tag ebb-task
	role    cutoff
	foreign []json.RawMessage
}

func newDenials() denials { return denials{entries: map[entry]int64{}, tasks: map[string]cutoff{}} }

// untilStep, in seconds, is what until is rounded up to, so that entries that end
// at about the same time share a statement.
const untilStep = 300

// add enters a session as revoked.
func (d *denials) add(h handle) {
	d.entries[entryOf(h)] = (h.Until + untilStep - 1) / untilStep * untilStep
}

// stands reports whether a session is denied.
func (d *denials) stands(h handle) bool {
	_, ok := d.entries[entryOf(h)]
	return ok || d.role.before > h.Issued || h.Task != "" && d.tasks[h.Task].before > h.Issued
}

// holds reports whether everything that other denies is denied here too.
func (d *denials) holds(other denials) bool {
	if other.role.before > d.role.before {
		return false
	}
	for task, c := range other.tasks {
		if max(d.tasks[task].before, d.role.before) < c.before {
			return false
		}
	}
	for e := range other.entries {
		if _, ok := d.entries[e]; !ok {
			return false
		}
	}
	return true
}

// take adds what other denies.
func (d *denials) take(other denials) {
	for e, until := range other.entries {
		d.entries[e] = max(d.entries[e], until)
	}
	for task, c := range other.tasks {
		d.tasks[task] = later(d.tasks[task], c)
	}
	d.role = later(d.role, other.role)
}

func later(a, b cutoff) cutoff { return cutoff{max(a.before, b.before), max(a.until, b.until)} }

// prune removes denials of sessions that have expired.
func (d *denials) prune(now time.Time) {
	over := func(until int64) bool { return now.Unix() >= until+int64(skew/time.Second) }
	maps.DeleteFunc(d.entries, func(_ entry, until int64) bool { return over(until) })
	maps.DeleteFunc(d.tasks, func(_ string, c cutoff) bool { return over(c.until) })
	if over(d.role.until) {
		d.role = cutoff{}
	}
}

func (d *denials) empty() bool {
	return len(d.entries) == 0 && len(d.tasks) == 0 && d.role == cutoff{} && len(d.foreign) == 0
}
