package egress

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"ebb/broker"
	"ebb/broker/egress/redact"
)

// Bounds of what redactors take, in bytes, for a task and for all; of how many are built at
// one time, which takes twice that beside and a core; and of how long one is kept for the next
// request.
const (
	taskRedactors = 64 << 20
	maxRedactors  = (shares + 1) * taskRedactors
	redactorsMade = 2
	idleRedactor  = time.Minute
)

// redactors are those of answers, each made once for a lease and what is added for it: to
// look for a long token takes megabytes. They hold secrets in the clear, so that nobody
// keeps one beyond the end of what it is for.
type redactors struct {
	build  func(secrets ...string) (*redact.Redactor, error)
	making chan struct{} // has room for as many as are built at one time

	mu    sync.Mutex
	all   map[redactorKey]*redactor
	held  share  // bytes
	given uint64 // how often one was given back
}

type redactorKey struct {
	leaseID string
	of      [sha256.Size]byte // what is looked for
}

// redactor is one of redactors. Its fields are under their mutex; what is built is there
// once made is closed.
type redactor struct {
	key     redactorKey
	root    string
	ids     []string // with which of these it goes
	bytes   int      // that it counts as
	uses    int
	begun   bool        // somebody builds it
	gone    bool        // nobody else gets it
	expires *time.Timer // while nobody uses it
	given   uint64      // when it was given back last

	made chan struct{}
	*redact.Redactor
	err error
}

func newRedactors(build func(secrets ...string) (*redact.Redactor, error)) *redactors {
	return &redactors{build: build, making: make(chan struct{}, redactorsMade), all: map[redactorKey]*redactor{}}
}

// take is the redactor of these secrets, for one request: give follows. One that may take
// more than its task may have, or than its part of what is left of all, is refused before
// anything is built.
func (t *redactors) take(ctx context.Context, who broker.Caller, leaseID string, secrets []string) (*redactor, error) {
	slices.Sort(secrets)
	x, err := t.reserve(who, redactorKey{leaseID, sumOf(secrets)}, redact.Cost(secrets...))
	if err != nil {
		return nil, err
	}
	select {
	case <-x.made:
	case t.making <- struct{}{}:
		t.make(x, secrets)
		<-t.making
	case <-ctx.Done():
	}
	if err := t.wait(ctx, x); err != nil {
		return nil, err
	}
	return x, nil
}

// wait waits for one that another builds. Who has built it gets it, also when he has hung up
// meanwhile: so it is kept.
func (t *redactors) wait(ctx context.Context, x *redactor) error {
	select {
	case <-x.made:
	default:
		select {
		case <-x.made:
		case <-ctx.Done():
			t.leave(x)
			return context.Cause(ctx)
		}
	}
	if x.err != nil {
		t.leave(x)
	}
	return x.err
}

// reserve finds or enters a redactor, and counts what it may take.
func (t *redactors) reserve(who broker.Caller, key redactorKey, most int) (*redactor, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x := t.all[key]; x != nil {
		if x.uses++; x.expires != nil {
			x.expires.Stop()
		}
		return x, nil
	}
	for !t.held.take(who.Root(), most, taskRedactors, maxRedactors) {
		if !t.giveUp(who.Root()) {
			return nil, deny(TooOften, errors.New("what looks for credentials in answers has all the memory that the task may have"))
		}
	}
	x := &redactor{key: key, root: who.Root(), ids: append(lineage(who), key.leaseID), bytes: most, uses: 1, made: make(chan struct{})}
	t.all[key] = x
	return x, nil
}

// make builds one, unless somebody has begun to.
func (t *redactors) make(x *redactor, secrets []string) {
	t.mu.Lock()
	mine := !x.begun
	x.begun = true
	t.mu.Unlock()
	if !mine {
		return
	}
	r, err := t.build(secrets...)
	t.mu.Lock()
	defer t.mu.Unlock()
	if x.Redactor, x.err = r, err; err == nil {
		t.held.give(x.root, x.bytes-r.Bytes())
		x.bytes = r.Bytes()
	}
	close(x.made)
}

// leave says that a request does without it after all.
func (t *redactors) leave(x *redactor) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x.uses--; x.uses == 0 {
		t.unlink(x)
	}
}

// give says that a request is over, and for how long what it was for may be used still; 0 =
// nobody may.
func (t *redactors) give(x *redactor, life time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x.uses--
	switch {
	case life <= 0, x.gone:
		t.unlink(x)
	case x.uses == 0:
		t.given++
		x.given = t.given
		x.expires = time.AfterFunc(min(life, idleRedactor), func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if x.uses == 0 { // it may have been taken just now
				t.unlink(x)
			}
		})
	}
}

// giveUp forgets the redactor of a task that was not used for longest; false: all are in use.
func (t *redactors) giveUp(root string) bool {
	var oldest *redactor
	for _, x := range t.all {
		if x.root == root && x.uses == 0 && (oldest == nil || x.given < oldest.given) {
			oldest = x
		}
	}
	if oldest != nil {
		t.unlink(oldest)
	}
	return oldest != nil
}

// drop forgets those of a task or a lease: they hold its secrets.
func (t *redactors) drop(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.all {
		if slices.Contains(x.ids, id) {
			t.unlink(x)
		}
	}
}

// dropAll forgets all.
func (t *redactors) dropAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.all {
		t.unlink(x)
	}
}

// unlink has nobody get one any more. It counts for as long as it is used.
func (t *redactors) unlink(x *redactor) {
	x.gone = true
	if t.all[x.key] == x {
		delete(t.all, x.key)
	}
	if x.uses > 0 || x.bytes == 0 {
		return
	}
	if x.expires != nil {
		x.expires.Stop()
	}
	t.held.give(x.root, x.bytes)
	x.bytes = 0
}

func sumOf(secrets []string) [sha256.Size]byte {
	var text []byte
	for _, s := range secrets {
		text = append(binary.BigEndian.AppendUint64(text, uint64(len(s))), s...)
	}
	return sha256.Sum256(text)
}
