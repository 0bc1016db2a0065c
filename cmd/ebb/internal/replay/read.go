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
	Recorded policy.Recorded `json:"recorded"`
}

// Read takes the decisions out of an export. Skipped counts those that cannot be
// replayed because the export lacks the start of their task. Entries must be in
// the order of time, as exports are. It proves nothing: see audit.Verify.
func Read(r io.Reader) (all []Decision, skipped int, err error) {
	tasks := map[string]*past{}
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for n := 1; lines.Scan(); n++ {
		line := lines.Bytes()
		if len(bytes.TrimSpace(line)) == 0 || bytes.HasPrefix(line, []byte(`{"checkpoint"`)) {
			continue
		}
		var e audit.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, 0, fmt.Errorf("line %d is no audit entry: %w", n, err)
		}
		if e.TaskID == "" {
			continue
		}
		p := tasks[e.TaskID]
		if p == nil {
			p = &past{all: tasks}
			tasks[e.TaskID] = p
		}
		was, err := p.add(e)
		if err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", n, err)
		}
		switch {
		case was != nil:
			all = append(all, Decision{At: e.At, TaskID: e.TaskID, Recorded: *was})
		case decides(e):
			skipped++
		}
	}
	if err := lines.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			err = errors.New("a line is too long: this is no audit export")
		}
		return nil, 0, err
	}
	return all, skipped, nil
}

// decides reports entries that stand for a decision of policy.
func decides(e audit.Entry) bool {
	return e.Kind == audit.RequestCreated || e.Kind == audit.LeaseIssued && e.RequestID == ""
}
