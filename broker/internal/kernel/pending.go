package kernel

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/ebb-broker/ebb/broker"
)

// Suspicion returns the end of a task whose request an approver denied as suspicious. The
// caller applies it to the runner's task at the top of the tree and so ends the whole tree,
// because ebb cannot tell which task caused the request.
func Suspicion(r broker.Request, now time.Time) broker.TaskMove {
	m := broker.TaskMove{ID: r.TaskID, State: broker.TaskClosed, Cause: broker.CauseSuspicious, By: Self, Reason: "request " + r.ID + " denied as suspicious", At: now}
	if n := len(r.Votes); n > 0 {
		m.By = r.Votes[n-1].By
	}
	return m
}

// PendingLease is the end of a credential that a store has not accepted yet.
type PendingLease struct {
	Lease      broker.Lease
	By, Reason string
}

// Progress is the progress of an end that is under way.
type Progress struct{ LiveStore, Store atomic.Bool }

// Reached returns the progress for the caller; kept means that the end is in the file of
// pending ends.
func (p *Progress) Reached(kept bool) *broker.Reached {
	state := func(done bool, otherwise string) string {
		if done {
			return broker.ReachedDone
		}
		return otherwise
	}
	// A live store in memory ends with this process; after a restart the task is closed in it again.
	return &broker.Reached{
		Process: broker.ReachedDone, LiveStore: state(p.LiveStore.Load(), broker.ReachedPending), Database: state(p.Store.Load(), broker.ReachedPending),
		Restart: state(kept || p.Store.Load(), broker.ReachedLost),
	}
}

// AssertionLife is the longest lifetime of a client assertion (RFC 7523 section 3: "may be
// rejected if exp is unreasonably far in the future").
const AssertionLife = 5 * time.Minute

// UnclaimedError is the error for a valid assertion when the live store cannot tell whether it
// was used before.
type UnclaimedError struct {
	Refusal *broker.Error
	Cause   error
}

func WholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

var ErrAlive = errors.New("the credential is still accepted after it was revoked")

var ErrOutlived = errors.New("the credential is still accepted after its own expiry")

var ErrSealed = errors.New("the revocation handle cannot be opened")

var ErrNotToday = errors.New("the provider is not called now")

// NeverHandedOut is the reason for the end of a task whose id was not returned.
const NeverHandedOut = "never handed out"

// ErrGap: an export of the audit log is complete or refused; it never has a gap.
var ErrGap = broker.E(broker.Conflict, "A vote in the audit log is hidden from you, because its request waits for your vote. Vote, or wait until the request is decided; an auditor who cannot decide it can export now.", nil)

// LiveStoreOnly is the reason for the end of a task that is closed in the live store and not in
// the database. Another replica may be about to record the real reason, so RetryEnds waits before
// it does.
const LiveStoreOnly = "end recorded in the live store only"
