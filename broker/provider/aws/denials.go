package aws

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ebb-broker/ebb/attest/lazyregexp"
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

// denials is the content of the policy that denies the revoked sessions of one role. It is
// the only storage: facts that IAM has no member for are in the ids of the statements.
// Statements of another form remain unchanged.
type denials struct {
	entries map[entry]int64   // the time until which each is needed, in Unix seconds
	tasks   map[string]cutoff // by the tag ebb-task
	role    cutoff
	foreign []json.RawMessage
}

func newDenials() denials { return denials{entries: map[entry]int64{}, tasks: map[string]cutoff{}} }

// untilStep is the unit, in seconds, to which until is rounded up, so that entries that end
// at about the same time share a statement.
const untilStep = 300

// add adds a revoked session.
func (d *denials) add(h handle) {
	d.entries[entryOf(h)] = (h.Until + untilStep - 1) / untilStep * untilStep
}

// stands reports whether a session is denied.
func (d *denials) stands(h handle) bool {
	_, ok := d.entries[entryOf(h)]
	return ok || d.role.before > h.Issued || h.Task != "" && d.tasks[h.Task].before > h.Issued
}

// holds reports whether d denies everything that other denies.
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

// take adds the denials of other.
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

// deny is a statement in IAM's JSON form.
type deny struct {
	Sid       string
	Effect    string
	Action    string
	Resource  string
	Condition conditions
}

// String returns the policy's text, which is the same for the same content.
func (d *denials) String() string {
	groups := map[string][]string{} // id to values
	for e, until := range d.entries {
		id := idUser
		if e.by == bySourceIdentity {
			id = idSource
		}
		sid := fmt.Sprintf("%s%d", id, until)
		groups[sid] = append(groups[sid], e.pattern)
	}
	for task, c := range d.tasks {
		sid := fmt.Sprintf("%s%db%d", idTask, c.until, c.before)
		groups[sid] = append(groups[sid], literal(task))
	}
	if d.role != (cutoff{}) {
		groups[fmt.Sprintf("%s%db%d", idRole, d.role.until, d.role.before)] = nil
	}
	statements := slices.Clone(d.foreign)
	for _, sid := range slices.Sorted(maps.Keys(groups)) {
		slices.Sort(groups[sid])
		statements = append(statements, statementOf(sid, groups[sid]))
	}
	return mustCompact(struct {
		Version   string
		Statement []json.RawMessage
	}{policyVersion, statements})
}

// The first letter of a statement's id is the kind of its values.
const (
	idUser   = "u"
	idSource = "s"
	idTask   = "t"
	idRole   = "r"
)

var sidForm = lazyregexp.New(`^(?:[us]([0-9]{9,11})|[tr]([0-9]{9,11})b([0-9]{9,11}))$`)

// statementOf returns the statement with an id.
func statementOf(sid string, values []string) json.RawMessage {
	when := conditions{}
	switch sid[:1] {
	case idUser:
		when["StringLike"] = map[string]many{string(byUserID): values}
	case idSource:
		when["StringLike"] = map[string]many{string(bySourceIdentity): values}
	case idTask:
		when["StringEquals"] = map[string]many{"aws:PrincipalTag/" + tagTask: values}
	}
	if _, before, is := strings.Cut(sid, "b"); is {
		at, _ := strconv.ParseInt(before, 10, 64) // sidForm or Sprintf made it
		when["DateLessThan"] = map[string]many{"aws:TokenIssueTime": {time.Unix(at, 0).UTC().Format(time.RFC3339)}}
	}
	return json.RawMessage(mustCompact(deny{sid, "Deny", "*", "*", when}))
}

// readDenials is the inverse of String. It keeps statements that String would not have written:
// they belong to another writer.
func readDenials(text string) (denials, error) {
	d := newDenials()
	var doc struct {
		Statement json.RawMessage
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		return d, fmt.Errorf("the policy %s is not JSON: %w", denyPolicy, err)
	}
	var statements []json.RawMessage
	if raw := bytes.TrimSpace(doc.Statement); len(raw) > 0 && raw[0] == '{' {
		statements = []json.RawMessage{raw}
	} else if err := json.Unmarshal(doc.Statement, &statements); err != nil {
		return d, fmt.Errorf("the policy %s has no statements: %w", denyPolicy, err)
	}
	for _, raw := range statements {
		var b bytes.Buffer
		if err := json.Compact(&b, raw); err != nil {
			return d, err
		}
		if d.readStatement(b.Bytes()) {
			continue
		}
		other, err := foreign(b.Bytes())
		if err != nil {
			return d, err
		}
		d.foreign = append(d.foreign, other)
	}
	return d, nil
}

// foreign returns a statement of another writer without its id if that id has the form of ebb's
// ids, because ids must be unique within a policy.
func foreign(raw json.RawMessage) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, errors.New("the policy " + denyPolicy + " holds a statement that is not an object")
	}
	var sid string
	if json.Unmarshal(members["Sid"], &sid) != nil || !sidForm.MatchString(sid) {
		return raw, nil
	}
	delete(members, "Sid")
	return compact(members)
}

// readStatement parses a statement and reports whether it is one of ebb's.
func (d *denials) readStatement(raw []byte) bool {
	var s struct {
		Sid       string
		Condition map[string]map[string]json.RawMessage
	}
	if json.Unmarshal(raw, &s) != nil {
		return false
	}
	m := sidForm.FindStringSubmatch(s.Sid)
	if m == nil {
		return false
	}
	var values []string
	for _, op := range []string{"StringLike", "StringEquals"} {
		for _, v := range s.Condition[op] {
			var one string
			if json.Unmarshal(v, &one) == nil {
				values = append(values, one)
			} else if json.Unmarshal(v, &values) != nil {
				return false
			}
		}
	}
	if !bytes.Equal(raw, statementOf(s.Sid, values)) || s.Sid[:1] != idRole && len(values) == 0 {
		return false
	}
	var n [4]int64
	for i := 1; i < len(m); i++ {
		n[i], _ = strconv.ParseInt(m[i], 10, 64) // digits, or empty
	}
	return d.enter(s.Sid[:1], n[1], cutoff{before: n[3], until: n[2]}, values)
}

// enter adds the contents of a statement, either all of them or none.
func (d *denials) enter(id string, until int64, c cutoff, values []string) bool {
	for i, v := range values {
		switch {
		case i > 0 && values[i-1] >= v,
			id == idUser && !patternForms[byUserID].MatchString(v),
			id == idSource && !patternForms[bySourceIdentity].MatchString(v),
			id == idTask && (v == "" || v != tagValue(v)):
			return false
		}
	}
	switch id {
	case idRole:
		d.role = later(d.role, c)
	case idTask:
		for _, task := range values {
			d.tasks[task] = later(d.tasks[task], c)
		}
	default:
		by := byUserID
		if id == idSource {
			by = bySourceIdentity
		}
		for _, v := range values {
			e := entry{by, v}
			d.entries[e] = max(d.entries[e], until)
		}
	}
	return true
}

const (
	// maxInline is IAM's limit for all inline policies of a role together, in characters
	// that are not white space, minus a margin for differences in counting.
	maxInline = 10240 - 240
	// minInline always has room for a cutoff of the whole role.
	minInline = 600
	// worthCutting is the number of sessions from which a task's cutoff is shorter.
	worthCutting = 8
)

// cutDelay is how far a cutoff is ahead of AWS's clock. Times of issue are whole seconds,
// and the cutoff must include sessions of the current second.
const cutDelay = 2 * time.Second

// level is the degree of merging that was needed to make a policy fit.
type level int

const (
	fitSessions level = iota // each session has its own entry
	fitTasks                 // cutoffs for all older sessions of some tasks, whether revoked or not
	fitRole                  // a cutoff for all older sessions of the role
)

// soft is the length from which a role mints no more sessions, so that current sessions can
// still be revoked individually.
func soft(room int) int { return room * 3 / 4 }

// drains returns when the first entry can be removed.
func (d *denials) drains() time.Time {
	first := d.role.until
	for _, until := range d.entries {
		if first == 0 || until < first {
			first = until
		}
	}
	return time.Unix(first, 0).Add(skew)
}

// fit shortens the text to at most room. It denies too much rather than drop a session. From
// soft on, where sessions have the tag of their task, it denies all older sessions of the
// tasks with the most revoked ones, which have usually ended completely. If that is not
// sufficient, it denies all older sessions of the role. taskOf has the tasks of the entries
// that this process has written.
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
