package aws

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"
)

const (
	turnTime  = 40 * time.Second
	turnTries = 8
	// maxStale is the number of times that a turn waits for IAM to show a write before it counts
	// the write as lost.
	maxStale = 3
	// maxPause bounds the wait between two tries.
	maxPause = 5 * time.Second
)

// turn is one batch of a writer. It reads, writes the missing denials and reads again until all
// are present or its time is up.
type turn struct {
	*writer
	batch  []*ask
	before string // what the last write replaced
	wrote  bool
	stale  int
}

func (t *turn) run(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, turnTime)
	defer cancel()
	err := fmt.Errorf("the denies of role %s were replaced by another writer each time", roleName(t.role))
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

// sleep reports whether there is still time afterwards.
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

// try answers the batch when all of it stands, and otherwise writes.
func (t *turn) try(ctx context.Context) (done bool, err error) {
	text, at, gone, err := t.calls.read(ctx, t.role)
	if err != nil {
		return false, err
	}
	if gone { // and with it all that its sessions could do
		for _, a := range t.batch {
			a.done <- answer{denied: true}
		}
		return true, nil
	}
	if t.wrote && text == t.before && t.stale < maxStale {
		t.stale++ // IAM answers from where the write has not come to yet
		return false, nil
	}
	there := newDenials()
	if text != "" {
		if there, err = readDenials(text); err != nil {
			return false, fmt.Errorf("role %s: %w; take the policy away by hand if it is not ebb's", roleName(t.role), err)
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

// orLocal is the time at AWS or, when AWS did not say, our own.
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

// replace writes the new policy, merged so that it fits.
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
		t.wrote, t.room = false, max(minInline, min(t.room, len(text))/2) // other inline policies of the role take some
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
