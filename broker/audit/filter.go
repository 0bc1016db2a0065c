package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Filter holds the conditions of an export, other than time. The first line of a filtered export is
// {"filter":{...}}.
type Filter struct {
	TaskID    string `json:"task_id,omitempty"`
	LeaseID   string `json:"lease_id,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Actor     string `json:"actor,omitempty"`
}

// Line returns the first line of an export made with f; nil for the empty filter.
func (f Filter) Line() any {
	if f == (Filter{}) {
		return nil
	}
	return map[string]Filter{"filter": f}
}

// String returns the conditions for people: kind=lease. task_id=tsk_1.
func (f Filter) String() string {
	var parts []string
	for _, p := range [...][2]string{{"task_id", f.TaskID}, {"lease_id", f.LeaseID}, {"request_id", f.RequestID}, {"kind", f.Kind}, {"actor", f.Actor}} {
		if p[1] != "" {
			parts = append(parts, p[0]+"="+p[1])
		}
	}
	return strings.Join(parts, " ")
}

// FilteredError says that an export was filtered. Left-out entries cannot be told from removed
// ones.
type FilteredError struct {
	Filter  Filter
	Entries int // each has the hash that it claims
	Signed  int // of these, the ones that a checkpoint names
}

// Error implements error.
func (e *FilteredError) Error() string {
	return fmt.Sprintf("the export was filtered (%s): each of its %d entries has the hash that it claims, and a checkpoint signs %d of them; entries that were left out cannot be told from entries that were removed",
		e.Filter, e.Entries, e.Signed)
}

// part is a filtered export: the hashes of its entries, and those in checkpoints.
type part struct {
	hashes map[place]string
	heads  map[place]string
}

func (p *part) entry(e Entry) {
	if p.hashes == nil {
		p.hashes = map[place]string{}
	}
	p.hashes[place{e.Writer, e.Seq}] = e.Hash
}

func (p *part) checkpoint(c Checkpoint) {
	if p.heads == nil {
		p.heads = map[place]string{}
	}
	for writer, h := range c.Heads {
		p.heads[place{writer, h.Seq}] = h.Hash
	}
}

func (p *part) signed() (n int) {
	for at, hash := range p.hashes {
		if p.heads[at] == hash {
			n++
		}
	}
	return n
}

// filtered reads the first line of a filtered export.
func (v *verifier) filtered(line []byte) error {
	var wrap struct {
		Filter Filter `json:"filter"`
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&wrap); err != nil || wrap.Filter == (Filter{}) {
		return v.fault("the filter of the export cannot be read")
	}
	if _, err := d.Token(); err != io.EOF || v.line != 1 {
		return v.fault("the filter of an export stands alone in its first line")
	}
	v.filter = &wrap.Filter
	return nil
}
