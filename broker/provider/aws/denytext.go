package aws

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// deny is a statement as IAM reads it.
type deny struct {
	Sid       string
	Effect    string
	Action    string
	Resource  string
	Condition conditions
}

// String is the policy's text, always the same for the same content.
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

// The first letter of a statement's id says what its values are.
const (
	idUser   = "u"
	idSource = "s"
	idTask   = "t"
	idRole   = "r"
)

var sidForm = regexp.MustCompile(`^(?:[us]([0-9]{9,11})|[tr]([0-9]{9,11})b([0-9]{9,11}))$`)

// statementOf writes the statement of an id.
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

// readStatement reads one of our statements and reports whether it is one.
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
		n[i], _ = strconv.ParseInt(m[i], 10, 64) // digits, or left out
	}
	return d.enter(s.Sid[:1], n[1], cutoff{before: n[3], until: n[2]}, values)
}

// enter takes what a statement says, all of it or nothing.
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
