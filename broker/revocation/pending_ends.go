package revocation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/internal/kernel"
)

// PendingEnds retries ends that a store has not accepted yet, and keeps them in a file across a
// crash.
type PendingEnds struct {
	logger   *slog.Logger
	endsPath string
	m        *kernel.Metrics

	clock   *kernel.Timekeeper
	feed    *Feeds
	revoker *Revocations

	endsMu    sync.Mutex
	ends      map[string]broker.TaskMove
	leaseEnds map[string]kernel.PendingLease
	keptEnds  map[string]bool
	endsFile  pendingFile
}

// Open initializes the internal state. Call it once, after the other fields are set.
func (p *PendingEnds) Open() {
	p.ends = map[string]broker.TaskMove{}
	p.leaseEnds = map[string]kernel.PendingLease{}
	p.keptEnds = map[string]bool{}
}

// maxPendingOpen bounds the pending ends of tasks whose id was never returned: while the database
// is down, runners must not be able to fill the memory.
const maxPendingOpen = 10_000

// KeepEnd remembers an end that a store has not accepted yet; RetryEnds tries again. Until then the
// task is refused here.
//
// An end that a person or a runner asked for is written to the file of pending ends first. kept
// reports whether the file holds it. An end by time needs no entry, because it becomes due
// again.
func (p *PendingEnds) KeepEnd(m broker.TaskMove) (kept bool) {
	p.feed.Ended(m.ID, p.clock.Remember())
	p.endsMu.Lock()
	defer p.endsMu.Unlock()
	_, known := p.ends[m.ID]
	if !known && (m.Reason != kernel.NeverHandedOut || len(p.ends) < maxPendingOpen) {
		p.ends[m.ID] = m
	}
	p.showCount()
	if m.By == kernel.Self || p.keptEnds[m.ID] {
		return p.keptEnds[m.ID]
	}
	p.keptEnds[m.ID] = p.keepEnd(pendingEnd{Task: &m})
	return p.keptEnds[m.ID]
}

func (p *PendingEnds) paid(taskID string) {
	p.endsMu.Lock()
	defer p.endsMu.Unlock()
	delete(p.ends, taskID)
	p.settled()
}

// settled is called when an end is no longer pending.
func (p *PendingEnds) settled() {
	p.showCount()
	if len(p.ends)+len(p.leaseEnds) > 0 {
		return
	}
	clear(p.keptEnds)
	if err := p.endsFile.clear(); err != nil {
		p.logger.Warn("the file of pending ends could not be emptied; its ends are recorded, and are repeated at the next start", "error", err)
	}
}

func (p *PendingEnds) KeepLeaseEnd(o kernel.PendingLease) (kept bool) {
	p.endsMu.Lock()
	defer p.endsMu.Unlock()
	p.leaseEnds[o.Lease.ID] = o
	p.showCount()
	if l := o.Lease; o.By != kernel.Self && !p.keptEnds[l.ID] {
		p.keptEnds[l.ID] = p.keepEnd(pendingEnd{Lease: &pendingLease{l.ID, l.TaskID, l.ExpiresAt, o.By, o.Reason}})
	}
	return p.keptEnds[o.Lease.ID]
}

func (p *PendingEnds) paidLease(id string) {
	p.endsMu.Lock()
	defer p.endsMu.Unlock()
	delete(p.leaseEnds, id)
	p.settled()
}

func (p *PendingEnds) showCount() { p.m.PendingEnds.Set(float64(len(p.ends) + len(p.leaseEnds))) }

func (p *PendingEnds) RetryEnds(ctx context.Context) {
	p.endsMu.Lock()
	tasks, leases := slices.Collect(maps.Values(p.ends)), slices.Collect(maps.Values(p.leaseEnds))
	p.endsMu.Unlock()
	var g errgroup.Group
	g.SetLimit(64)
	for _, m := range tasks {
		g.Go(func() error {
			if ctx.Err() != nil || m.Reason == kernel.LiveStoreOnly && p.clock.Sure().Sub(m.At) < 2*closeTime {
				return nil
			}
			if _, err := p.revoker.Close(ctx, m.ID, m); err != nil {
				p.logger.WarnContext(ctx, "the end of a task is still pending", "task_id", m.ID, "error", err)
			}
			return nil
		})
	}
	for _, o := range leases {
		g.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			if _, err := p.revoker.EndLease(ctx, o.Lease, o.By, o.Reason); err != nil {
				p.logger.WarnContext(ctx, "the end of a credential is still pending", "lease_id", o.Lease.ID, "error", err)
			}
			return nil
		})
	}
	_ = g.Wait()
}

// PendingCount returns the number of ends of tasks and leases that no store has accepted yet.
func (p *PendingEnds) PendingCount() int {
	p.endsMu.Lock()
	defer p.endsMu.Unlock()
	return len(p.ends) + len(p.leaseEnds)
}

// pendingRoom is the size that the file of pending ends reserves at the start, so that a full
// disk does not keep an end from being written.
const pendingRoom = 64 << 10

// pendingEnd is one line of that file: the end of a task or credential that a person or a
// runner asked for and that the database has not accepted.
type pendingEnd struct {
	Task  *broker.TaskMove `json:"task,omitempty"`
	Lease *pendingLease    `json:"lease,omitempty"`
}

type pendingLease struct {
	ID        string    `json:"id"`
	TaskID    string    `json:"task_id"`
	ExpiresAt time.Time `json:"expires_at"`
	By        string    `json:"by"`
	Reason    string    `json:"reason"`
}

// pendingFile keeps pending ends when this process is killed. Without a path it keeps nothing.
type pendingFile struct {
	mu   sync.Mutex
	path string
	used int64
}

var errNotKept = errors.New("no file for pending ends is configured")

// open reads the ends of an earlier process and reserves the file's size. An unreadable line
// was cut off while it was written; its caller was not told that it is kept.
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

// add writes an end durably.
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

// clear removes all ends: the stores have accepted them.
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

// keepEnd writes an end to the file, and reports whether that succeeded.
func (p *PendingEnds) keepEnd(e pendingEnd) bool {
	err := p.endsFile.add(e)
	if err != nil && !errors.Is(err, errNotKept) {
		p.logger.Error("a pending end is only in memory: it is lost if this process is killed before the stores are back", "error", err)
	}
	return err == nil
}

// ReadPending refuses the tasks and credentials again whose end an earlier process could not
// record. It runs before the refill, and PayPending after it.
func (p *PendingEnds) ReadPending() ([]pendingEnd, error) {
	p.endsFile.path = p.endsPath
	ends, err := p.endsFile.open()
	for _, e := range ends {
		switch {
		case e.Task != nil:
			p.keptEnds[e.Task.ID] = true
			p.feed.Ended(e.Task.ID, p.clock.Remember())
			p.ends[e.Task.ID] = *e.Task
		case e.Lease != nil:
			l := e.Lease
			p.keptEnds[l.ID] = true
			p.feed.Ended(l.ID, l.ExpiresAt)
			p.leaseEnds[l.ID] = kernel.PendingLease{
				Lease: broker.Lease{ID: l.ID, TaskID: l.TaskID, ExpiresAt: l.ExpiresAt, State: broker.LeaseLive}, By: l.By, Reason: l.Reason,
			}
		}
	}
	p.showCount()
	return ends, err
}

func (p *PendingEnds) PayPending(ctx context.Context, ends []pendingEnd) {
	if len(ends) == 0 {
		return
	}
	p.logger.WarnContext(ctx, "recording ends that an earlier process could not record", "ends", len(ends))
	p.RetryEnds(ctx)
}
