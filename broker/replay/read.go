package replay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ebb-broker/ebb/broker/audit"
	"github.com/ebb-broker/ebb/scopes/policy"
)

// maxLine is the longest accepted line in bytes: a checkpoint over very many writers.
const maxLine = 4 << 20

// Decision is one decision of the past.
type Decision struct {
	At       time.Time       `json:"at"`
	TaskID   string          `json:"task_id"`
	Request  string          `json:"request_id,omitempty"` // that people were asked by
	Recorded policy.Recorded `json:"recorded"`
}

// Reader finds decisions in entries that come in the order of time. The zero Reader is ready for
// use.
type Reader struct {
	Skipped int             // decisions that cannot be replayed because the start of their task is missing
	Refused map[string]bool // requests to which a person said no
	tasks   map[string]*past
}

// Add reads one entry and returns the decision that it records, or nil if it records no decision
// that can be replayed.
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

// Past is the result of reading an export.
type Past struct {
	Decisions []Decision
	Skipped   int             // see Reader
	Refused   map[string]bool // see Reader
}

// Read returns the decisions in an export. Entries must come in the order of time, as in exports
// of ebb. Read does not verify the export; audit.Verify does.
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

// decides reports whether an entry records a policy decision.
func decides(e audit.Entry) bool {
	return e.Kind == audit.RequestCreated || e.Kind == audit.LeaseIssued && e.RequestID == ""
}
