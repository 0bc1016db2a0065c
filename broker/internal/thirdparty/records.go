package thirdparty

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/broker/secret"
)

// RetainedHandles holds revocation handles that could not be stored, for as long as this
// process lives.
type RetainedHandles struct {
	mu sync.Mutex
	m  map[string]secret.Secret // by lease
}

// claimsPerCall is how many leases are claimed for each concurrent call, so that no call
// waits for the database.
const claimsPerCall = 3

// Waiters notifies requests that wait for the end of a task's credentials.
type Waiters struct {
	mu sync.Mutex
	m  map[string]*bell // by task
}

type bell struct {
	rung    chan struct{} // closed at the next ring
	hearers int
}

// Refusal returns the public sentence of a provider.RefusedError.
func Refusal(err error) string {
	if r, ok := errors.AsType[*provider.RefusedError](err); ok && r.Public != "" {
		return r.Public
	}
	return "The provider refused. Ask for something else, or ask the operator."
}

// swept is the state of the orphan searches at one provider.
type swept struct {
	Mu    sync.Mutex
	Since time.Time // when the first search was planned; zero = none is
	Good  time.Time // start of the last search that left no orphan
	Left  int       // orphans that the last search could not revoke
}

// OrphanMemory is how long a revoked orphan is remembered, so that
// it is counted once: also when another replica finds it at the same moment, or
// when the provider still lists it.
const OrphanMemory = 24 * time.Hour

// Hear returns a channel that is closed at the next Ring for the task. forget must be called.
func (r *Waiters) Hear(taskID string) (rung <-chan struct{}, forget func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil {
		r.m = map[string]*bell{}
	}
	bl := r.m[taskID]
	if bl == nil {
		bl = &bell{rung: make(chan struct{})}
		r.m[taskID] = bl
	}
	bl.hearers++
	return bl.rung, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if bl.hearers--; bl.hearers == 0 && r.m[taskID] == bl {
			delete(r.m, taskID)
		}
	}
}

func (r *Waiters) Ring(taskID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bl := r.m[taskID]; bl != nil {
		close(bl.rung)
		delete(r.m, taskID)
	}
}

func (h *RetainedHandles) Keep(leaseID string, s secret.Secret) {
	if s.Empty() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.m == nil {
		h.m = map[string]secret.Secret{}
	}
	h.m[leaseID] = s
}

func (h *RetainedHandles) Get(leaseID string) secret.Secret {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.m[leaseID]
}

func (h *RetainedHandles) Drop(leaseID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.m, leaseID)
}

func (h *RetainedHandles) All() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.m))
}

// tally is the number of a provider's credentials in no final state: the last count of the
// database, plus the changes of this process since. Changes of other replicas appear with the
// next count.
type tally struct {
	mu      sync.Mutex
	n       int
	moving  int // changes that are being written
	moves   int // changes so far
	refused int // consecutive counts that were dropped because of a change meanwhile
}

// staleCounts is how many consecutive counts may be dropped because of changes meanwhile. After
// that an inexact count is better than none.
const staleCounts = 10

// Now returns the current number.
func (t *tally) Now() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

// Move announces a change of the database. done must be called with its effect, so that a count
// that overlaps the change is dropped.
func (t *tally) Move() (done func(by int)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moving++
	return func(by int) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.n += by
		t.moves++
		t.moving--
	}
}

// Count begins a count of the database; set ends it.
func (t *tally) Count() (set func(n int)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	moves, moving := t.moves, t.moving
	return func(n int) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if (moving > 0 || t.moving > 0 || t.moves != moves) && t.refused < staleCounts {
			t.refused++
			return
		}
		t.n, t.refused = n, 0
	}
}
