package kernel

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

// RevokedSet holds the ids of tasks and leases whose end this process has caused or read from
// the revocation feed. Each check asks it before the LiveStore, so that an end still holds here
// when a failover makes Redis forget it.
type RevokedSet struct {
	mu     sync.RWMutex
	m      map[string]time.Time // id of a task or lease -> when it can be forgotten
	Before time.Time            // every id made before this time counts as ended, see LossAccepted; zero = no such time
}

// Add adds an end. first is true if it was not known before.
func (r *RevokedSet) Add(id string, until time.Time) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil {
		r.m = map[string]time.Time{}
	}
	known, is := r.m[id]
	if until.After(known) {
		r.m[id] = until
	}
	return !is
}

func (r *RevokedSet) Has(id string, now time.Time) bool {
	if !r.Before.IsZero() && broker.IdTime(id).Before(r.Before) {
		return true
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return now.Before(r.m[id])
}

func (r *RevokedSet) Sweep(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, until := range r.m {
		if !now.Before(until) {
			delete(r.m, id)
		}
	}
}

// RevocationListener is the RevocationListener: it holds the connections of tasks and leases in this
// process, above all egress streams, and closes them when their task or lease ends (I2). Its
// methods return soon and are safe for concurrent use; a repeated call is harmless.
type RevocationListener interface {
	// End is called for each task that ends, and for each lease that is revoked before its
	// expiry, on any replica.
	End(id string)
	// MayHaveOpened is called once for each such lease, after End. An SSH connection of its
	// task may have been opened with it; only the sandbox and the host know.
	MayHaveOpened(taskID, leaseID string)
	// Pause is called when a task is paused: it may use no credential until it is resumed.
	Pause(taskID string)
	// Doubt is called when revocations may have been missed.
	Doubt()
}

// Disconnects calls the RevocationListener, once one is registered.
type Disconnects struct {
	RevocationListener atomic.Pointer[RevocationListener]
	LiveStore, Feed    listening
}

func (c *Disconnects) Tell(do func(RevocationListener)) {
	if to := c.RevocationListener.Load(); to != nil {
		do(*to)
	}
}

// listening tracks the answers of one source. An answer confirms the state at the time of its
// request.
type listening struct {
	mu sync.Mutex
	t  *time.Timer
}

// Begin expects answers of a source from now on, and calls silent whenever none has come for
// the time ConfirmTimeout. end stops that.
func (l *listening) Begin(silent func()) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ended := false
	l.t = time.AfterFunc(broker.ConfirmTimeout, func() {
		l.mu.Lock()
		if !ended {
			l.t.Reset(broker.ConfirmTimeout)
		}
		l.mu.Unlock()
		silent()
	})
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		ended = true
		l.t.Stop()
	}
}

// Heard records that the source has answered a request made at the time asked.
func (l *listening) Heard(asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if left := broker.ConfirmTimeout - time.Since(asked); l.t != nil && left > 0 && l.t.Stop() {
		l.t.Reset(left)
	}
}
