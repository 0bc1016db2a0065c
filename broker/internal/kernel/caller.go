package kernel

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/ebb-broker/ebb/broker"
	"github.com/ebb-broker/ebb/broker/provider"
	"github.com/ebb-broker/ebb/scopes"
)

// MaxLineage bounds how many times in a row a token is narrowed: it names all its parents, and
// each check of it looks up each of them.
const MaxLineage = 16

var ErrWider = errors.New("issued scope exceeds a limit of the request")

// PausedError is the error for a sandbox of a paused task.
func PausedError() *broker.Error {
	const wait = time.Minute
	return &broker.Error{Kind: broker.Denied, Public: "The task is paused. No token is issued until its runner resumes it.", Cause: broker.ErrTaskPaused, RetryAfter: wait,
		Advice: &broker.Advice{Decision: "wait", Code: broker.TaskHeld, RetryAfter: WholeSeconds(wait)}}
}

// Caller is an authenticated caller: a live task, its one sandbox, and the limits of this
// request beyond the policy.
type Caller struct {
	Live     broker.Live
	Sandbox  broker.Sandbox
	NotAfter time.Time // end of the evidence; zero = it has none
	Fresh    bool      // the request itself holds evidence, not a token issued for earlier evidence
	Parent   *OwnToken // token to be narrowed, or nil
	Lineage  []string  // leases with which an issued token ends, oldest first; the last is Parent

	Bind        provider.Binding // the proved key
	Backchannel bool             // the response holds no credential: nothing is minted
}

// NotFoundTask is the error for a task that does not exist or that the caller may not see.
func NotFoundTask(id string) *broker.Error {
	return broker.NoSuch("task", id, broker.TaskPrefix, "ebb task list")
}

// NotFoundRequest is the error for a request that does not exist or that the caller may not see.
func NotFoundRequest(id string) *broker.Error {
	return broker.NoSuch("request", id, broker.RequestPrefix, "ebb requests list --all")
}

// ClosedError is the error for a task that has ended. For the zero task the error names no cause and no time.
func ClosedError(t broker.Task) *broker.Error {
	return broker.E(broker.Conflict, Ended(t)+" Its credentials are refused, and no token is issued for it any more.", broker.ErrTaskClosed).
		Then("open a new task: ebb task open, or ebb run -- CMD")
}

// Ended returns a sentence that says how and when a task ended, without the person
// and the reason, so that every caller of the task may read it.
func Ended(t broker.Task) string {
	how, known := ends[t.Cause]
	switch {
	case t.State != broker.TaskClosed && !t.Deadline.IsZero():
		return "The task ended: its deadline was " + t.Deadline.UTC().Format(time.RFC3339) + "."
	case !known:
		return "The task has ended."
	case t.ClosedAt.IsZero():
		return "The task ended: " + how + "."
	}
	return "The task ended at " + t.ClosedAt.UTC().Format(time.RFC3339) + ": " + how + "."
}

// ends describes the causes of a task's end.
var ends = map[broker.Cause]string{
	broker.CauseCompleted: "its runner completed it", broker.CauseStopped: "a person stopped it", broker.CauseDeadline: "its deadline passed",
	broker.CauseHeartbeat: "no heartbeat of its runner arrived in time", broker.CauseExited: "its sandbox exited",
	broker.CauseMissedAttestation: "its sandbox missed the re-attestation deadline", broker.CauseSuspicious: "an approver denied a request as suspicious",
	broker.CauseParent: "the task that delegated to it ended",
}

// LiveStoreError is TaskError for a task that the database knows: if the live store does not know
// it, the live store has lost it.
func LiveStoreError(err error) error {
	if errors.Is(err, broker.ErrNotFound) {
		return broker.StoreError(errors.Join(broker.ErrLost, err))
	}
	return TaskError(err)
}

// TaskError translates the sentinel errors of the stores.
func TaskError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, broker.ErrTaskClosed), errors.Is(err, broker.ErrDone):
		return ClosedError(broker.Task{})
	case errors.Is(err, broker.ErrNotFound):
		return broker.E(broker.NotFound, "There is no such task.", err)
	case errors.Is(err, broker.ErrOutranked):
		return broker.E(broker.Forbidden, "An operator has paused this task. Ask an operator to resume it.", err)
	default:
		return broker.StoreError(err)
	}
}

// ApiPath is the path of the broker's own protected resource, below the issuer.
const ApiPath = "/v1"

// OwnToken is a verified access token of this broker. Whether it is still live must be asked of
// the live store each time.
type OwnToken struct {
	ID, Sub, ClientID, TaskID, Txn string
	Aud                            string
	Exp                            time.Time
	Scopes                         scopes.Set
	Roles                          []broker.Role // of a token for the API, in place of scopes
	Bind                           provider.Binding
	Act                            map[string]any
	AuthAt                         time.Time // of the principal; zero = the token does not state it
	Ancestors                      []string  // ancestors of its task
	Lineage                        []string  // leases with which it ends: those that it was narrowed from, oldest first, and its own
	Payload                        json.RawMessage
}

// BoundTo refuses a caller that does not hold the key of the token (RFC 9449 section 7.1, RFC
// 8705 section 3).
func (t *OwnToken) BoundTo(p broker.Possession) error {
	switch {
	case t.Bind.JKT != "" && (p.Proof == nil || p.Proof.JKT != t.Bind.JKT):
		return broker.E(broker.Unauthenticated, "The token is bound to another key than the one that was proved.", nil)
	case t.Bind.X5T != "" && p.X5T != t.Bind.X5T:
		return broker.E(broker.Unauthenticated, "The token is bound to another client certificate.", nil)
	}
	return nil
}
