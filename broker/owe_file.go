package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// pendingRoom is what the file of pending ends takes up from the start, so that a full
// disk keeps no end from being noted.
const pendingRoom = 64 << 10

// pendingEnd is one line of that file: the end of a task or of a credential that a
// person or a runner asked for and that the journal has not taken.
type pendingEnd struct {
	Task  *TaskMove     `json:"task,omitempty"`
	Lease *pendingLease `json:"lease,omitempty"`
}

type pendingLease struct {
	ID        string    `json:"id"`
	TaskID    string    `json:"task_id"`
	ExpiresAt time.Time `json:"expires_at"`
	By        string    `json:"by"`
	Reason    string    `json:"reason"`
}

// pendingFile keeps pending ends across a kill of this process. Without a path it
// keeps nothing.
type pendingFile struct {
	mu   sync.Mutex
	path string
	used int64
}

var errNotKept = errors.New("no file for pending ends is configured")

// open reads what an earlier process left behind, and takes up the file's room. What
// cannot be read is a line that was cut off, whose end nobody was told was kept.
func (f *pendingFile) open() ([]pendingEnd, error) {
	if f.path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(f.path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading the file of pending ends: %w", err)
	}
	var out []pendingEnd
	for line := range bytes.Lines(text) {
		var e pendingEnd
		if len(bytes.TrimSpace(line)) > 0 && json.Unmarshal(line, &e) == nil {
			out = append(out, e)
		}
	}
	f.used = int64(len(bytes.TrimRight(text, "\n")))
	if f.used > 0 {
		f.used++
	}
	if room := pendingRoom - len(text); room > 0 {
		if err := f.write(bytes.Repeat([]byte("\n"), room), int64(len(text))); err != nil {
			return out, err
		}
	}
	return out, nil
}

// add makes an end durable.
func (f *pendingFile) add(e pendingEnd) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.path == "" {
		return errNotKept
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if err := f.write(append(line, '\n'), f.used); err != nil {
		return err
	}
	f.used += int64(len(line)) + 1
	return nil
}

// clear forgets them all: the stores have taken them.
func (f *pendingFile) clear() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.used == 0 {
		return nil
	}
	if err := f.write(bytes.Repeat([]byte("\n"), int(f.used)), 0); err != nil {
		return err
	}
	f.used = 0
	return nil
}

func (f *pendingFile) write(b []byte, at int64) error {
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("the file of pending ends: %w", err)
	}
	_, err = file.WriteAt(b, at)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("the file of pending ends: %w", err)
	}
	return nil
}

// keepEnd notes an end in the file, and reports whether it did.
func (b *Broker) keepEnd(e pendingEnd) bool {
	err := b.endsFile.add(e)
	if err != nil && !errors.Is(err, errNotKept) {
		b.cfg.Logger.Error("a pending end is in memory alone: it is lost if this process is killed before the stores are back", "error", err)
	}
	return err == nil
}

// readPending refuses again what an earlier process was asked to end and could not
// record. It runs before anything is refilled, and payPending after that.
func (b *Broker) readPending() ([]pendingEnd, error) {
	b.endsFile.path = b.cfg.PendingEnds
	ends, err := b.endsFile.open()
	for _, e := range ends {
		switch {
		case e.Task != nil:
			b.keptEnds[e.Task.ID] = true
			b.ended(e.Task.ID, b.remember())
			b.owed[e.Task.ID] = *e.Task
		case e.Lease != nil:
			l := e.Lease
			b.keptEnds[l.ID] = true
			b.ended(l.ID, l.ExpiresAt)
			b.owedLeases[l.ID] = owedLease{Lease{ID: l.ID, TaskID: l.TaskID, ExpiresAt: l.ExpiresAt, State: LeaseLive}, l.By, l.Reason}
		}
	}
	b.showOwed()
	return ends, err
}

func (b *Broker) payPending(ctx context.Context, ends []pendingEnd) {
	if len(ends) == 0 {
		return
	}
	b.cfg.Logger.WarnContext(ctx, "ends that an earlier process could not record are recorded now", "ends", len(ends))
	b.payOwed(ctx)
}
