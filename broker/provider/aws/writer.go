package aws

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
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
	// pause is the wait before the first retry; it doubles.
	pause time.Duration

	mu        sync.Mutex
	queue     []*ask
	busy      bool
	shut      time.Time            // no minting before this time
	shutTasks map[string]time.Time // no minting for these tasks before this time

	// Used only by the current turn: only one runs at a time.
	mine   denials          // the denials that this process has written and that are still needed
	taskOf map[entry]string // tasks of the entries in mine
	room   int
}

// roleCalls are the calls of IAM that a writer makes.
type roleCalls interface {
	// read returns the policy, "" for none, and the time of AWS's clock, zero when the
	// response has none. gone means that the role does not exist.
	read(ctx context.Context, role string) (text string, at time.Time, gone bool, err error)
	// write replaces the policy, and removes it when text is "".
	write(ctx context.Context, role, text string) error
}

// ask is one caller's request about one session.
type ask struct {
	handle
	deny bool // false to read only
	done chan answer
}

type answer struct {
	denied bool // also when the role is gone, because its sessions then have no permissions
	err    error
}

// writer returns the writer of a role.
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

// do waits for the result of a turn that begins after the call. The turn continues when the
// caller's ctx ends.
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
		return false, fmt.Errorf("waiting for the writer of the role's policy: %w", context.Cause(ctx))
	}
}

// run takes turns while there are requests.
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

// close stops minting where a new session would be denied at once, and where one more
// revocation could deny sessions that must continue. at is the time of AWS's clock at which
// next was written.
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

// shutFor returns for how long the role must not mint a session of a task.
func (w *writer) shutFor(task string, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(w.shut.Sub(now), w.shutTasks[tagValue(task)].Sub(now))
}

const (
	turnTime  = 40 * time.Second
	turnTries = 8
	// maxStale is the number of times that a turn waits for IAM to show a write before it counts
	// the write as lost.
	maxStale = 3
	// maxPause bounds the wait between two attempts.
	maxPause = 5 * time.Second
)

// turn is one batch of a writer. It reads, writes the missing denials and reads again until all
// are present or its time is up.
type turn struct {
	*writer
	batch  []*ask
	before string // the policy that the last write replaced
	wrote  bool
	stale  int
}

func (t *turn) run(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, turnTime)
	defer cancel()
	err := fmt.Errorf("another writer replaced the denials of role %s after each attempt; ebb retries, but find the other writer of the policy", roleName(t.role))
	for try := range turnTries {
		if try > 1 && !sleep(ctx, min(t.pause<<(try-2), maxPause)+rand.N(t.pause)) {
			break
		}
		done, e := t.try(ctx)
		if done {
			return
		}
		if e != nil {
			err = e
			break
		}
	}
	for _, a := range t.batch {
		a.done <- answer{err: err}
	}
}

// sleep waits for d and reports whether time is left afterwards.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// try completes the batch when all its denials are stored, and writes them otherwise.
func (t *turn) try(ctx context.Context) (done bool, err error) {
	text, at, gone, err := t.calls.read(ctx, t.role)
	if err != nil {
		return false, err
	}
	if gone { // its sessions have no permissions then
		for _, a := range t.batch {
			a.done <- answer{denied: true}
		}
		return true, nil
	}
	if t.wrote && text == t.before && t.stale < maxStale {
		t.stale++ // IAM's response does not contain the write yet
		return false, nil
	}
	there := newDenials()
	if text != "" {
		if there, err = readDenials(text); err != nil {
			return false, fmt.Errorf("role %s: %w; remove the policy manually if it is not ebb's", roleName(t.role), err)
		}
	}
	if t.stands(&there) {
		for _, a := range t.batch {
			a.done <- answer{denied: there.stands(a.handle)}
		}
		return true, nil
	}
	t.fill(&there, at)
	return false, t.replace(ctx, text, &there, t.orLocal(at))
}

// orLocal returns the time of AWS's clock or, when the response has none, that of ebb's.
func (t *turn) orLocal(at time.Time) time.Time {
	if at.IsZero() {
		return t.now()
	}
	return at
}

func (t *turn) stands(there *denials) bool {
	if !there.holds(t.mine) {
		return false
	}
	for _, a := range t.batch {
		if a.deny && !there.stands(a.handle) {
			return false
		}
	}
	return true
}

// fill adds missing denials and removes expired ones. Expiry is judged by AWS's clock only.
func (t *turn) fill(there *denials, at time.Time) {
	if !at.IsZero() {
		t.mine.prune(at)
		maps.DeleteFunc(t.taskOf, func(e entry, _ string) bool { _, ok := t.mine.entries[e]; return !ok })
	}
	there.take(t.mine)
	if !at.IsZero() {
		there.prune(at)
	}
	for _, a := range t.batch {
		if a.deny && !there.stands(a.handle) {
			there.add(a.handle)
			t.taskOf[entryOf(a.handle)] = a.Task
		}
	}
}

// replace writes the new policy, merged so that it fits the size limit.
func (t *turn) replace(ctx context.Context, before string, next *denials, at time.Time) error {
	level := next.fit(t.room, t.taskOf, at)
	if level > fitSessions {
		// A session that must be denied now was issued by now. For a Mint with an unknown outcome,
		// the latest possible time of issue would be in the future.
		for _, a := range t.batch {
			a.Issued = min(a.Issued, at.Unix())
		}
	}
	if level == fitRole {
		t.log.Warn("a role has more revoked sessions than its policy can hold: all its older sessions are denied, live ones among them; add roles to the pool", "role", t.role)
	}
	maps.DeleteFunc(t.mine.entries, func(e entry, _ int64) bool { _, ok := next.entries[e]; return !ok })
	for _, a := range t.batch {
		e := entryOf(a.handle)
		if until, ok := next.entries[e]; ok {
			t.mine.entries[e] = until
		}
	}
	t.mine.tasks, t.mine.role = maps.Clone(next.tasks), next.role

	text := ""
	if !next.empty() {
		text = next.String()
	}
	t.before, t.wrote, t.stale = before, true, 0
	err := t.calls.write(ctx, t.role, text)
	r, _ := replyOf(err)
	if r.full() && t.room > minInline {
		t.wrote, t.room = false, max(minInline, min(t.room, len(text))/2) // other inline policies of the role use some of the size limit
		return nil
	}
	if r.concurrent() {
		t.wrote = false
		return nil
	}
	if err != nil {
		return err
	}
	t.close(next, level, len(text), at)
	return nil
}
