package aws

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// writer writes the denials of one role in this process. IAM replaces a policy as a whole only, so
// writers take turns: revocations that arrive during a turn are written together in the next one.
// A thousand revocations take a few writes.
//
// Writers of other replicas are not locked out: IAM has no compare-and-swap, and a lock elsewhere
// would not stop a late write. Three rules replace a lock. A session is reported as denied only
// after it was read back. Every turn writes denials again that this process wrote and that are
// missing. Probe reads once more after the bound, when every overlapping write has landed; if the
// denial is missing then, the broker revokes again (docs/decisions/0021).
type writer struct {
	role  string
	calls roleCalls
	now   func() time.Time
	log   *slog.Logger
	// pause is the first wait for another try; it doubles.
	pause time.Duration

	mu        sync.Mutex
	queue     []*ask
	busy      bool
	shut      time.Time            // no minting before
	shutTasks map[string]time.Time // nor for these

	// Of the turn alone: only one runs.
	mine   denials          // what this process has written, while it is needed
	taskOf map[entry]string // of the entries in mine
	room   int
}

// roleCalls are what a writer needs of IAM.
type roleCalls interface {
	// read gives the policy, "" when there is none, and the time at AWS; the zero
	// time when AWS did not say. gone: there is no such role.
	read(ctx context.Context, role string) (text string, at time.Time, gone bool, err error)
	// write replaces it, and removes it when text is "".
	write(ctx context.Context, role, text string) error
}

// ask is one caller's question about one session.
type ask struct {
	handle
	deny bool // false: only look
	done chan answer
}

type answer struct {
	denied bool // or the role is gone, and with it all that its sessions could do
	err    error
}

// writer gives the one of a role.
func (d *Driver) writer(arn string) *writer {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.writers[arn]
	if w == nil {
		w = &writer{
			role: arn, calls: d.aws, now: d.now, log: d.log, pause: 200 * time.Millisecond,
			shutTasks: map[string]time.Time{}, mine: newDenials(), taskOf: map[entry]string{}, room: maxInline,
		}
		d.writers[arn] = w
	}
	return w
}

// do waits for the answer of a turn that begins after the call. The turn goes on
// when the caller leaves.
func (w *writer) do(ctx context.Context, h handle, deny bool) (denied bool, err error) {
	a := &ask{handle: h, deny: deny, done: make(chan answer, 1)}
	w.mu.Lock()
	w.queue = append(w.queue, a)
	if !w.busy {
		w.busy = true
		go w.run(context.WithoutCancel(ctx))
	}
	w.mu.Unlock()
	select {
	case r := <-a.done:
		return r.denied, r.err
	case <-ctx.Done():
		return false, fmt.Errorf("waiting for the role's turn: %w", context.Cause(ctx))
	}
}

// run takes turns while anybody waits.
func (w *writer) run(ctx context.Context) {
	for {
		w.mu.Lock()
		batch := w.queue
		w.queue = nil
		if len(batch) == 0 {
			w.busy = false
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		(&turn{writer: w, batch: batch}).run(ctx)
	}
}

// close stops minting where a new session would be dead on arrival, and where one
// more revocation could end others. next was written at that time at AWS.
func (w *writer) close(next *denials, level level, size int, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	for task, until := range w.shutTasks {
		if !until.After(now) {
			delete(w.shutTasks, task)
		}
	}
	switch {
	case level == fitRole:
		w.shut = now.Add(2 * cutDelay)
	case size > soft(w.room):
		w.shut = now.Add(next.drains().Sub(at))
	}
	for task, c := range next.tasks {
		if c.before > at.Unix() {
			w.shutTasks[task] = now.Add(2 * cutDelay)
		}
	}
}

// shutFor is how long the role must not be used for a new session of a task.
func (w *writer) shutFor(task string, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(w.shut.Sub(now), w.shutTasks[tagValue(task)].Sub(now))
}
