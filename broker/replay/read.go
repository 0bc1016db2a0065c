package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"ebb/broker/audit"
	"ebb/scopes/policy"
)

// maxLine is a checkpoint over very many writers.
const maxLine = 4 << 20

// Decision is one decision of the past.
type Decision struct {
	At       time.Time       `json:"at"`
	TaskID   string          `json:"task_id"`
	Request  string          `json:"request_id,omitempty"` // that people were asked by
	Recorded policy.Recorded `json:"recorded"`
}

// Reader takes entries in the order of time and finds the decisions in them. The zero
// Reader is ready.
type Reader struct {
	Skipped int             // decisions that cannot be replayed because the start of their task is missing
	Refused map[string]bool // requests to which a person said no
	tasks   map[string]*past
}

// Add takes one entry in and returns the decision that it records, nil when it records
// none that can be replayed.
func (r *Reader) Add(e audit.Entry) (*Decision, error) {
	if e.TaskID == "" {
		return nil, nil
	}
	if r.tasks == nil {
		r.tasks, r.Refused = map[string]*past{}, map[string]bool{}
	}
	p := r.tasks[e.TaskID]
	if p == nil {
		p = &past{all: r.tasks}
		r.tasks[e.TaskID] = p
	}
	if e.Kind == audit.RequestDenied && e.RequestID != "" {
		r.Refused[e.RequestID] = true
	}
	was, err := p.add(e)
	switch {
	case err != nil:
		return nil, err
	case was == nil:
		if decides(e) {
			r.Skipped++
		}
		return nil, nil
	}
	d := &Decision{At: e.At, TaskID: e.TaskID, Recorded: *was}
	if e.Kind == audit.RequestCreated {
		d.Request = e.RequestID
	}
	return d, nil
}

// Past is what an export says of the past.
type Past struct {
	Decisions []Decision
	Skipped   int             // see Reader
	Refused   map[string]bool // see Reader
}

// Read takes the decisions out of an export. Entries must be in the order of time, as
// exports are. It proves nothing: see audit.Verify.
func Read(r io.Reader) (Past, error) {
	var in Reader
	var out Past
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for n := 1; lines.Scan(); n++ {
		line := lines.Bytes()
		if len(bytes.TrimSpace(line)) == 0 || !audit.IsEntry(line) {
			continue
		}
		var e audit.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return Past{}, fmt.Errorf("line %d is no audit entry: %w", n, err)
		}
		d, err := in.Add(e)
		if err != nil {
			return Past{}, fmt.Errorf("line %d: %w", n, err)
		}
		if d != nil {
			out.Decisions = append(out.Decisions, *d)
		}
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = errors.New("a line is too long: this is no audit export")
		}
		return Past{}, err
	}
	out.Skipped, out.Refused = in.Skipped, in.Refused
	return out, nil
}

// decides reports entries that stand for a decision of policy.
func decides(e audit.Entry) bool {
	return e.Kind == audit.RequestCreated || e.Kind == audit.LeaseIssued && e.RequestID == ""
}
